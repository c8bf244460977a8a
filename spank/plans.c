/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plans.c - how the tasks of a host share one hvd-agent plan.
 *
 * If each task ran it, with a connection and a proof of identity of its own, a launch of many ranks would spend its
 * time with that. So the first task of a host gets the plans of all, and the others read them from a piece of memory
 * (memfd). slurmstepd makes the memory before it forks the tasks: they inherit it, and no other process can open it.
 *
 * The memory begins with a status byte. If that is 0, the plans follow, each with an empty string at its end. When the
 * memory is complete, the first task writes a byte into a pipe. No task reads that byte, so that every task sees it. If
 * the first task ends earlier, the others see the end of the pipe.
 *
 * All descriptors are close-on-exec. A host's only task needs none of them.
 */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void hvd_plans_prepare(struct hvd_plugin *pl, spank_t sp)
{
	char boot[HVD_BOOT_MAX];
	uint32_t tasks = 0;
	int ends[2];

	if (!hvd_step_wanted(sp, boot) || spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS ||
	    tasks < 2 || pipe2(ends, O_CLOEXEC) != 0)
		return;
	pl->plans.memory = memfd_create("plans", MFD_CLOEXEC);
	if (pl->plans.memory < 0) {
		pl->plans.memory = 0;
		close(ends[0]);
		close(ends[1]);
		return;
	}
	pl->plans.ready = ends[0];
	pl->plans.tell = ends[1];
}

void hvd_plans_close(struct hvd_plugin *pl)
{
	hvd_step_close(&pl->plans.tell);
	hvd_step_close(&pl->plans.ready);
	hvd_step_close(&pl->plans.memory);
}

bool hvd_plans_first(struct hvd_plugin *pl, spank_t sp)
{
	if (hvd_step_local_id(sp) == 0)
		return true;
	hvd_step_close(&pl->plans.tell);
	return false;
}

static bool write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

void hvd_plans_tell(struct hvd_plugin *pl, int status, const char *plans, size_t len)
{
	char first = (char)status;

	if (pl->plans.memory <= 0)
		return;
	/* The pipe cannot break: this task has its reading end too. */
	if (write_all(pl->plans.memory, &first, 1) && write_all(pl->plans.memory, plans, len))
		write_all(pl->plans.tell, &first, 1);
	hvd_plans_close(pl);
}

/* The length of the plan at `plan` with the empty string at its end; 0 if its end is not within `len`. */
static size_t plan_length(const char *plan, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *end = memchr(plan + at, '\0', len - at);

		if (!end)
			return 0;
		if (end == plan + at)
			return at + 1;
		at = (size_t)(end - plan) + 1;
	}
	return 0;
}

size_t hvd_plans_nth(const char *plans, size_t len, uint32_t n, const char **plan)
{
	for (*plan = plans;; n--) {
		size_t one = plan_length(*plan, len);

		if (one == 0 || n == 0)
			return one;
		*plan += one;
		len -= one;
	}
}

/* Wait until the first task has handed out the plans. -1 with err set if it did not. */
static int await_plans(int fd, hvd_time deadline, struct hvd_err *err)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int rc;

	do
		rc = poll(&pfd, 1, hvd_left_ms(deadline));
	while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return hvd_err_sys(err, "cannot wait for the launch plan");
	if (rc == 0)
		return hvd_err_set(err, HVD_E_TIMEOUT, "this host's first task did not get the launch plan in time");
	if (!(pfd.revents & POLLIN))
		return hvd_err_set(err, HVD_E_FAILED, "this host's first task ended before it had the launch plan");
	return 0;
}

/* Copy the plan of task `n` from the memory. */
static int copy_plan(const char *memory, size_t size, uint32_t n, char **plan, size_t *len, struct hvd_err *err)
{
	const char *own;

	*len = hvd_plans_nth(memory + 1, size - 1, n, &own);
	if (*len == 0)
		return hvd_err_set(err, HVD_E_PROTO, "the launch plan of this host's task %u is damaged", (unsigned)n);
	*plan = malloc(*len);
	if (!*plan)
		return hvd_err_set(err, HVD_E_SYS, "no memory for the launch plan");
	memcpy(*plan, own, *len);
	return 0;
}

int hvd_plans_take(struct hvd_plugin *pl, spank_t sp, hvd_time deadline, char **plan, size_t *len, struct hvd_err *err)
{
	struct stat st;
	char *memory;
	int rc;

	if (pl->plans.memory <= 0)
		return hvd_err_set(err, HVD_E_SYS, "slurmstepd had no descriptor or memory to share the launch plan");
	if (await_plans(pl->plans.ready, deadline, err) != 0)
		return -1;
	if (fstat(pl->plans.memory, &st) != 0 || st.st_size == 0 ||
	    (memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, pl->plans.memory, 0)) == MAP_FAILED)
		return hvd_err_sys(err, "cannot read the launch plans of this host");
	rc = (unsigned char)memory[0];
	if (rc == 0)
		rc = copy_plan(memory, (size_t)st.st_size, hvd_step_local_id(sp), plan, len, err);
	munmap(memory, (size_t)st.st_size);
	hvd_plans_close(pl);
	return rc;
}
