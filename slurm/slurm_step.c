/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_step.h"

#include "lib/base/readfile.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No process is that deep; a folder that was made for a test could have a ring. */
#define ANCESTORS_MOST 1000
#define STAT_MAX       4096
#define CMDLINE_MAX    (4 * 1024 * 1024)

static char *read_of(const char *proc, pid_t pid, const char *name, size_t max)
{
	char *path = hvd_xasprintf("%s/%d/%s", proc, (int)pid, name), *text;
	size_t len;

	text = hvd_read_file(path, max, name, &len, NULL);
	free(path);
	return text;
}

/* "7 (a name) S 3 …": the name may have anything in it. 0 when there is none. */
static pid_t parent_of(const char *proc, pid_t pid)
{
	char *text = read_of(proc, pid, "stat", STAT_MAX), *p = text ? strrchr(text, ')') : NULL;
	int parent = 0;

	if (p && sscanf(p + 1, " %*c %d", &parent) != 1)
		parent = 0;
	free(text);
	return parent;
}

/* The step daemon calls itself "slurmstepd: [7.0]"; for a batch script "slurmstepd: [7.batch]". */
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
		char *title = read_of(proc, pid, "cmdline", CMDLINE_MAX);
		bool daemon = title && strncmp(title, "slurmstepd:", 11) == 0;
		bool found = daemon && numbered(title, step, len);

		free(title);
		if (daemon)
			return found;
	}
	return false;
}
