/* SPDX-License-Identifier: Apache-2.0 */
#include "step_wait.h"

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
	uint32_t job;
	const struct hvd_procs *procs;
	bool (*begun)(void *arg);
	void *arg;
	const struct hvd_log *log;
	struct hvd_timer *timer;
};

static void on_timer(void *arg)
{
	struct hvd_step_wait *wait = arg;
	char job[16];
	char *argv[] = {(char *)"scontrol", (char *)"--oneliner", (char *)"show", (char *)"step", job, NULL};
	const struct hvd_spawn spawn = {.path = argv[0], .argv = argv};
	hvd_cleanup_free char *text = NULL, *steps = NULL;
	int status = 0;
	size_t len;

	if (!hvd_procs_pid(wait->procs) || wait->begun(wait->arg))
		return;
	snprintf(job, sizeof(job), "%u", (unsigned)wait->job);
	text = hvd_capture(&spawn, MAX_ANSWER, hvd_deadline_in(ANSWER_SECONDS), &len, &status, NULL);
	steps = text && status == 0 ? hvd_scontrol_steps(text, hvd_procs_pid(wait->procs)) : NULL;
	if (!steps)
		return;
	hvd_info(wait->log,
		 "srun has waited for %d s to start the ranks, since other steps of job %u have its CPUs, memory or "
		 "GPUs: "
		 "%s",
		 WAIT_SECONDS, (unsigned)wait->job, steps);
	hvd_info(wait->log,
		 "end them, or share their CPUs: hvdrun --overlap. hvdrun itself may run in one of them, below "
		 "tmux, screen or setsid");
}

struct hvd_step_wait *hvd_step_wait_watch(struct event_base *base, uint32_t job, const struct hvd_procs *procs,
					  bool (*begun)(void *arg), void *arg, const struct hvd_log *log)
{
	struct hvd_step_wait *wait = hvd_xcalloc(1, sizeof(*wait));

	*wait = (struct hvd_step_wait){.job = job, .procs = procs, .begun = begun, .arg = arg, .log = log};
	wait->timer = hvd_timer_new(base, on_timer, wait);
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
