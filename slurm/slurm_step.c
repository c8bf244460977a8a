/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_step.h"

#include "lib/base/cleanup.h"
#include "lib/base/readfile.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No process has more ancestors; a directory that a test made could have a circle. */
#define ANCESTORS_MOST 1000
#define STAT_MAX       4096
#define CMDLINE_MAX    (4 * 1024 * 1024)

static char *read_of(const char *proc, pid_t pid, const char *name, size_t max)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%d/%s", proc, (int)pid, name);
	size_t len;

	return hvd_read_file(path, max, name, &len, NULL);
}

/* The parent from /proc/PID/stat, "7 (name) S 3 …", where the name may have any character; 0 if there is none. */
static pid_t parent_of(const char *proc, pid_t pid)
{
	hvd_cleanup_free char *text = read_of(proc, pid, "stat", STAT_MAX);
	const char *p = text ? strrchr(text, ')') : NULL;
	int parent;

	return p && sscanf(p + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Read the title of a step daemon, "slurmstepd: [7.0]". That of a batch script is "slurmstepd: [7.batch]". */
static bool numbered(const char *title, char *step, size_t len)
{
	unsigned job, number;
	char end;

	if (sscanf(title, "slurmstepd: [%u.%u%c", &job, &number, &end) != 3 || end != ']')
		return false;
	snprintf(step, len, "%u.%u", job, number);
	return true;
}

bool hvd_slurm_step_of(pid_t pid, const char *proc, char *step, size_t len)
{
	for (int i = 0; i < ANCESTORS_MOST && (pid = parent_of(proc, pid)) > 0; i++) {
		hvd_cleanup_free char *title = read_of(proc, pid, "cmdline", CMDLINE_MAX);

		if (title && strncmp(title, "slurmstepd:", 11) == 0)
			return numbered(title, step, len);
	}
	return false;
}

void hvd_slurm_forget_other_binding(pid_t pid, const char *proc)
{
	static const char *const names[] = {"SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_TYPE",
					    "SLURM_CPU_BIND_VERBOSE"};
	char step[64];

	/* A user who sets a binding sets only the first variable. */
	if (!getenv("SLURM_CPU_BIND_LIST") || hvd_slurm_step_of(pid, proc, step, sizeof(step)))
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}
