/* SPDX-License-Identifier: Apache-2.0 */
#include "step_wait.h"

#include "job.h"
#include "launcher/start/procs.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"
#include "slurm/scontrol.h"

#include <stdio.h>
#include <stdlib.h>

#define WAIT_SECONDS 5
/* How long the controller may take to answer. Nothing happens in the job meanwhile. */
#define ANSWER_SECONDS 2.0
#define MAX_ANSWER     (256 * 1024)

struct hvd_step_wait {
	const struct hvd_job *job;
	uint32_t number;
	struct hvd_timer *timer;
};

static void on_timer(void *arg)
{
	struct hvd_step_wait *wait = arg;
	const pid_t srun = hvd_procs_pid(wait->job->starter->procs);
	char number[16];
	char *argv[] = {(char *)"scontrol", (char *)"--oneliner", (char *)"show", (char *)"step", number, NULL};
	const struct hvd_spawn spawn = {.path = argv[0], .argv = argv};
	hvd_cleanup_free char *text = NULL, *steps = NULL;
	int status = 0;
	size_t len;

	if (!srun || hvd_job_connected(wait->job))
		return;
	snprintf(number, sizeof(number), "%u", (unsigned)wait->number);
	text = hvd_capture(&spawn, MAX_ANSWER, hvd_deadline_in(ANSWER_SECONDS), &len, &status, NULL);
	steps = text && status == 0 ? hvd_scontrol_steps(text, srun) : NULL;
	if (!steps)
		return;
	hvd_info(wait->job->log,
		 "srun has waited for %d s to start the ranks, since other steps of job %u have its CPUs, memory or "
		 "GPUs: "
		 "%s",
		 WAIT_SECONDS, (unsigned)wait->number, steps);
	hvd_info(wait->job->log,
		 "end them, or share their CPUs: hvdrun --overlap. hvdrun itself may run in one of them, below "
		 "tmux, screen or setsid");
}

struct hvd_step_wait *hvd_step_wait_watch(const struct hvd_job *job, uint32_t number)
{
	struct hvd_step_wait *wait = hvd_xcalloc(1, sizeof(*wait));

	*wait = (struct hvd_step_wait){.job = job, .number = number};
	wait->timer = hvd_timer_new(job->opts.base, on_timer, wait);
	hvd_timer_in_ms(wait->timer, WAIT_SECONDS * 1000);
	return wait;
}

void hvd_step_wait_destroy(struct hvd_step_wait *wait)
{
	if (!wait)
		return;
	hvd_timer_free(wait->timer);
	free(wait);
}
