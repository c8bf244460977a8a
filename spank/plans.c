/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plans.c - how the tasks of a host share one hvd-agent plan.
 *
 * If each task ran it, with a connection and a proof of identity of its own, a launch of many ranks would spend its
 * time with that. So the first task of a host starts it, the host's agent writes the variables of all tasks into a piece
 * of memory (lib/protocol/step_plans.h), and each task takes its own. slurmstepd makes the memory before it forks the
 * tasks. A host's only task makes it itself.
 *
 * When hvd-agent plan has ended, the first task writes its exit status into a pipe, a byte for each other task, and each
 * of these reads one. If the first task ends earlier, the others see the end of the pipe.
 *
 * All descriptors are close-on-exec.
 */
#include "plugin.h"

#include "lib/protocol/step_plans.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int hvd_plans_memory(struct hvd_plugin *pl)
{
	int memory = pl->plans.memory ? pl->plans.memory : memfd_create("plans", MFD_CLOEXEC);

	if (memory >= 0)
		pl->plans.memory = memory;
	return memory;
}

void hvd_plans_prepare(struct hvd_plugin *pl, spank_t sp)
{
	char boot[HVD_BOOT_MAX];
	uint32_t tasks = 0;
	int ends[2];

	if (!hvd_step_wanted(sp, boot) || spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS ||
	    tasks < 2 || hvd_plans_memory(pl) < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return;
	pl->plans.waiting = tasks - 1;
	pl->plans.ready = ends[0];
	pl->plans.tell = ends[1];
}

void hvd_plans_close(struct hvd_plugin *pl)
{
	hvd_step_close(&pl->plans.tell);
	hvd_step_close(&pl->plans.ready);
	hvd_step_close(&pl->plans.memory);
}

void hvd_plans_tell(struct hvd_plugin *pl, int status)
{
	const unsigned char byte = (unsigned char)status;

	/* The pipe cannot break: this task has its reading end too. */
	for (uint32_t i = 0; pl->plans.tell > 0 && i < pl->plans.waiting; i++)
		if (write(pl->plans.tell, &byte, 1) != 1)
			break;
	hvd_step_close(&pl->plans.tell);
}

int hvd_plans_await(struct hvd_plugin *pl, hvd_time deadline, struct hvd_err *err)
{
	unsigned char status;
	ssize_t n;

	hvd_step_close(&pl->plans.tell);
	if (pl->plans.ready <= 0)
		return hvd_err_set(err, HVD_E_SYS, "slurmstepd had no descriptor or memory to share the launch plan");
	do {
		if (!hvd_step_await(pl->plans.ready, deadline))
			return hvd_err_set(err, HVD_E_TIMEOUT,
					   "this host's first task did not get the launch plan in time");
		n = read(pl->plans.ready, &status, 1);
	} while (n < 0 && errno == EAGAIN); /* another task was quicker */
	if (n < 0)
		return hvd_err_sys(err, "cannot wait for the launch plan");
	if (n == 0)
		return hvd_err_set(err, HVD_E_FAILED, "this host's first task ended before it had the launch plan");
	return status;
}

char *hvd_plans_own(struct hvd_plugin *pl, spank_t sp, struct hvd_err *err)
{
	uint32_t own = hvd_step_local_id(sp);
	struct stat st;
	char *memory, *plan;

	if (fstat(pl->plans.memory, &st) != 0 || st.st_size == 0 ||
	    (memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, pl->plans.memory, 0)) ==
		    MAP_FAILED) {
		hvd_err_sys(err, "cannot read the launch plans of this host");
		return NULL;
	}
	plan = hvd_step_plans_nth(memory, (size_t)st.st_size, own, &pl->events.agent);
	if (!plan)
		hvd_err_set(err, HVD_E_PROTO, "the launch plan of this host's task %u is damaged", (unsigned)own);
	hvd_plans_close(pl);
	return plan;
}
