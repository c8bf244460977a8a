/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - distinguishes steps of srun --hvd from others, in slurmstepd and its tasks, and what its other files need.
 */
#include "plugin.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool hvd_step_name(spank_t sp, char name[HVD_STEP_NAME_MAX])
{
	uint32_t job = 0, step = 0;
	bool known = spank_get_item(sp, S_JOB_ID, &job) == ESPANK_SUCCESS &&
		     spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS;

	snprintf(name, HVD_STEP_NAME_MAX, "%u.%u", job, step);
	return known;
}

bool hvd_step_wanted(spank_t sp, char boot[HVD_BOOT_MAX])
{
	char here[HVD_STEP_NAME_MAX], there[HVD_STEP_NAME_MAX];

	if (spank_context() != S_CTX_REMOTE || spank_getenv(sp, HVD_STEP_ENV, there, sizeof(there)) != ESPANK_SUCCESS ||
	    spank_getenv(sp, HVD_BOOT_ENV, boot, HVD_BOOT_MAX) != ESPANK_SUCCESS)
		return false;
	return hvd_step_name(sp, here) && strcmp(here, there) == 0;
}

uint32_t hvd_step_local_id(spank_t sp)
{
	int id = 0;

	return spank_get_item(sp, S_TASK_ID, &id) == ESPANK_SUCCESS && id > 0 ? (uint32_t)id : 0;
}

void hvd_step_close(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = 0;
}

bool hvd_step_await(int fd, hvd_time deadline)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int rc;

	do
		rc = poll(&pfd, 1, hvd_left_ms(deadline));
	while (rc < 0 && errno == EINTR);
	return rc > 0;
}
