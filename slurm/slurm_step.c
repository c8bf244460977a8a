/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_step.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/file.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/layout.h"

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

enum step_state {
	NOT_SEEN,
	NO_STEP,
	STEP
};

/* Find the step by the process's control groups, if Slurm has made any: "…/job_7/step_0/…", "…/job_7/step_batch/…". */
static enum step_state by_cgroup(pid_t pid, const char *proc, char *step, size_t len)
{
	hvd_cleanup_free char *text = read_of(proc, pid, "cgroup", STAT_MAX);
	enum step_state state = NOT_SEEN;

	for (const char *at = text; at && (at = strstr(at, "/job_")); at++) {
		unsigned job, number;

		if (sscanf(at, "/job_%u/step_%u", &job, &number) == 2) {
			snprintf(step, len, "%u.%u", job, number);
			return STEP;
		}
		if (sscanf(at, "/job_%u/step_%1[a-z]", &job, (char[2]){0}) == 2)
			state = NO_STEP;
	}
	return state;
}

/* Where a process was started, by the step daemon among its ancestors. What setsid or tmux has started has none, and may
 * still be in the step's control group. */
static enum step_state state_of(const pid_t process, const char *proc, char *step, size_t len)
{
	pid_t pid = process;

	for (int i = 0; i < ANCESTORS_MOST && (pid = parent_of(proc, pid)) > 0; i++) {
		hvd_cleanup_free char *title = read_of(proc, pid, "cmdline", CMDLINE_MAX);

		if (title && strncmp(title, "slurmstepd:", 11) == 0)
			return numbered(title, step, len) ? STEP : NO_STEP;
	}
	return by_cgroup(process, proc, step, len);
}

bool hvd_slurm_step_of(pid_t pid, const char *proc, char *step, size_t len)
{
	return state_of(pid, proc, step, len) == STEP;
}

static void forget(const char *const *names)
{
	for (; *names; names++)
		unsetenv(*names);
}

/* Is each node of the environment's step a node of its job? */
static bool step_within_job(void)
{
	const char *nodes = getenv("SLURM_JOB_NODELIST"), *some = getenv("SLURM_STEP_NODELIST");
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv all = {0}, own = {0};
	bool within;

	within = nodes && some && hvd_hostlist_expand(nodes, HVD_MAX_HOSTS, &all, NULL) == 0 &&
		 hvd_hostlist_expand(some, HVD_MAX_HOSTS, &own, NULL) == 0;
	for (size_t i = 0; within && i < own.n; i++)
		within = hvd_strv_has(&all, own.v[i]);
	return within;
}

/* Is the number of tasks that of another job's step? Slurm always sets the tasks of each node for a job, and the number
 * of all only if the user has asked for it. */
static bool other_tasks(void)
{
	const char *nodes = getenv("SLURM_JOB_NUM_NODES"), *each = getenv("SLURM_TASKS_PER_NODE");
	const char *all = getenv("SLURM_NTASKS"), *step = getenv("SLURM_STEP_NUM_TASKS");
	const int n = nodes ? (int)hvd_digits(nodes, strlen(nodes), HVD_MAX_HOSTS) : -1;
	hvd_cleanup_free int *tasks = NULL;
	long sum = 0;

	if (n < 1 || !each || !all || !step || strcmp(all, step) != 0 ||
	    hvd_tasks_per_node_parse(each, n, &tasks, NULL) != n)
		return false;
	for (int i = 0; i < n; i++)
		sum += tasks[i];
	return sum != strtol(all, NULL, 10);
}

void hvd_slurm_forget_other_step(pid_t pid, const char *proc)
{
	static const char *const of_step[] = {"SLURM_STEP_ID",
					      "SLURM_STEPID",
					      "SLURM_STEP_NODELIST",
					      "SLURM_STEP_NUM_NODES",
					      "SLURM_STEP_NUM_TASKS",
					      "SLURM_STEP_TASKS_PER_NODE",
					      "SLURM_STEP_GPUS",
					      "SLURM_STEP_RESV_PORTS",
					      "SLURM_STEP_LAUNCHER_PORT",
					      NULL};
	static const char *const tasks[] = {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", NULL};
	static const char *const binding[] = {"SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_TYPE",
					      "SLURM_CPU_BIND_VERBOSE", NULL};
	const char *job = getenv("SLURM_JOB_ID");
	char step[64] = "";
	const enum step_state state = state_of(pid, proc, step, sizeof(step));
	const bool ours = state == STEP && job && strtoul(step, NULL, 10) == strtoul(job, NULL, 10);

	/* A user who sets a binding sets only the first variable. */
	if (!ours && getenv("SLURM_CPU_BIND_LIST"))
		forget(binding);
	if (ours || !getenv("SLURM_STEP_ID") || (state == NOT_SEEN && step_within_job()))
		return;
	if (other_tasks())
		forget(tasks);
	forget(of_step);
}
