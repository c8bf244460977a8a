/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_find.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"
#include "lib/process/procfs.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ENVIRON     (1 << 20)
#define MAX_FOUND       4096
#define MAX_DESCENDANTS 256        /* of one rank that are looked at */
#define NO_STEP         0xfffffff0 /* steps from here on are batch scripts and Slurm's own */

static char *read_environ(pid_t pid, size_t *len)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	return hvd_read_file(path, MAX_ENVIRON, path, len, NULL);
}

static const char *value_in(const char *text, size_t len, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text, *end = text + len; p < end; p += strlen(p) + 1)
		if (strncmp(p, name, n) == 0 && p[n] == '=')
			return p + n + 1;
	return NULL;
}

char *hvd_stack_find_env(pid_t pid, const char *name)
{
	size_t len;
	hvd_cleanup_free char *text = read_environ(pid, &len);
	const char *value = text ? value_in(text, len, name) : NULL;

	return value ? hvd_xstrdup(value) : NULL;
}

static bool number(const char *text, uint32_t *out)
{
	int64_t n = text ? hvd_digits(text, strlen(text), UINT32_MAX) : -1;

	if (n >= 0)
		*out = (uint32_t)n;
	return n >= 0;
}

/* The name of the program, without its path. */
static void program_of(pid_t pid, char name[64])
{
	char path[64], exe[PATH_MAX];
	const char *slash;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	slash = strrchr(exe, '/');
	snprintf(name, 64, "%.63s", slash ? slash + 1 : exe);
}

/* Programs of the launch and of Slurm have a task's variables, too, and are no rank. */
static bool is_ours(pid_t pid)
{
	static const char *const names[] = {"hvd-agent", "hvd-driver", "hvdrun", "srun", "slurmstepd", ""};
	char name[64];

	program_of(pid, name);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static pid_t parent_of(pid_t pid)
{
	struct hvd_process process;

	return hvd_process_read(pid, &process) == 0 ? process.parent : 0;
}

/* Is the process one of a task of this job and step? */
static bool task_of(pid_t pid, uint32_t job, const uint32_t *step, struct hvd_found_rank *found)
{
	static const char *const numbers[] = {"HOROVOD_RANK", "RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
	uint32_t its_job, own;
	const char *its_step, *its_node, *own_node = getenv("SLURMD_NODENAME");
	size_t len;
	hvd_cleanup_free char *text = read_environ(pid, &len);

	*found = (struct hvd_found_rank){.rank.pid = pid};
	if (!text || !number(value_in(text, len, "SLURM_JOB_ID"), &its_job) || its_job != job)
		return false;
	/* If nodes share a machine, /proc has the processes of all of them. */
	its_node = value_in(text, len, "SLURMD_NODENAME");
	if (its_node && own_node && strcmp(its_node, own_node) != 0)
		return false;
	its_step = value_in(text, len, "SLURM_STEP_ID");
	found->in_step = number(its_step ? its_step : value_in(text, len, "SLURM_STEPID"), &found->step);
	if (!found->in_step || found->step >= NO_STEP || (step && found->step != *step) ||
	    (!step && number(getenv("SLURM_STEP_ID"), &own) && number(getenv("SLURM_JOB_ID"), &its_job) &&
	     its_job == job && own == found->step))
		return false;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (number(value_in(text, len, numbers[i]), &found->rank.rank))
			return !is_ours(pid);
	return false;
}

static bool has(const struct hvd_found_ranks *found, pid_t pid)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->v[i].rank.pid == pid)
			return true;
	return false;
}

/* Keep the first process of each rank: it is the rank's main process. */
static void keep_main(struct hvd_found_ranks *found)
{
	struct hvd_found_ranks all = *found;

	found->v = hvd_xcalloc(all.n + 1, sizeof(*found->v));
	found->n = 0;
	for (size_t i = 0; i < all.n; i++) {
		bool below = false;

		for (pid_t up = parent_of(all.v[i].rank.pid); up > 1 && !below; up = parent_of(up))
			below = has(&all, up);
		for (size_t k = 0; k < found->n && !below; k++)
			below = found->v[k].rank.rank == all.v[i].rank.rank && found->v[k].step == all.v[i].step;
		if (!below)
			found->v[found->n++] = all.v[i];
	}
	free(all.v);
}

int hvd_stack_find_step(const char *target, struct hvd_found_ranks *found, struct hvd_err *err)
{
	char *dot, *end;
	unsigned long job = strtoul(target, &dot, 10), number_of_step = 0;
	uint32_t step = 0;
	struct dirent *de;
	DIR *proc;

	if (*dot == '.')
		number_of_step = strtoul(dot + 1, &end, 10);
	if (dot == target || (*dot && (*dot != '.' || end == dot + 1 || *end)) || job > UINT32_MAX ||
	    number_of_step > UINT32_MAX)
		return hvd_err_set(err, HVD_E_USAGE, "'%s' is not a job or a job step", target);
	step = (uint32_t)number_of_step;
	proc = opendir("/proc");
	while (proc && (de = readdir(proc)) && found->n < MAX_FOUND) {
		struct hvd_found_rank one;
		struct stat st;
		pid_t pid = (pid_t)strtol(de->d_name, &end, 10);

		if (pid <= 0 || *end || fstatat(dirfd(proc), de->d_name, &st, 0) != 0 || st.st_uid != getuid() ||
		    !task_of(pid, (uint32_t)job, *dot ? &step : NULL, &one))
			continue;
		if (found->n == found->room) {
			found->room = found->room ? 2 * found->room : 16;
			found->v = hvd_xrealloc(found->v, found->room, sizeof(*found->v));
		}
		found->v[found->n++] = one;
	}
	if (proc)
		closedir(proc);
	keep_main(found);
	return 0;
}

static bool runs_python(pid_t pid)
{
	char name[64];

	program_of(pid, name);
	return strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0;
}

static int64_t cpu_of(pid_t pid)
{
	struct hvd_process process;

	return hvd_process_read(pid, &process) == 0 ? process.cpu_ns : 0;
}

pid_t hvd_stack_find_main(pid_t pid, pid_t *others, size_t room, size_t *n, int64_t *cpu_ns)
{
	struct hvd_pids below = {0};
	pid_t python = runs_python(pid) ? pid : 0, last = pid;
	bool chain = true;

	*n = 0;
	*cpu_ns = cpu_of(pid);
	hvd_pids_add_children(&below, pid);
	/* The list grows while it is worked through: by the children of each process on it. */
	for (size_t i = 0; i < below.n && i < MAX_DESCENDANTS; i++) {
		chain = chain && below.n == i + 1;
		if (chain)
			last = below.v[i];
		*cpu_ns += cpu_of(below.v[i]);
		hvd_pids_add_children(&below, below.v[i]);
		if (!runs_python(below.v[i]))
			continue;
		if (!python)
			python = below.v[i];
		else if (*n < room)
			others[(*n)++] = below.v[i];
	}
	free(below.v);
	return python ? python : last;
}
