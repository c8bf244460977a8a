/* SPDX-License-Identifier: Apache-2.0 */
#include "stuck_procs.h"

#include "lib/base/timer.h"
#include "lib/protocol/munge.h"

#include <stdio.h>
#include <unistd.h>

/* How soon after the job's end this host's munged is asked, if processes are left, and how long it may take to
 * answer. */
#define ASK_SECONDS    2
#define ANSWER_SECONDS 2.0

/* `bad`: the host has ranks of the last generation, whose output may be incomplete. */
static void report(struct hvd_stuck_procs *stuck, const char *host, const char *why, bool bad)
{
	hvd_log(stuck->job->log, bad ? HVD_LOG_ERROR : HVD_LOG_WARN, "%s: %s%s", host, why,
		bad ? "; the last output of its ranks may be missing" : "");
	if (bad)
		hvd_launcher_process_failed(stuck->job);
}

static bool has_rank(const struct hvd_stuck_procs *stuck, uint32_t host)
{
	for (unsigned i = 0; i < stuck->n_machines; i++)
		if (hvd_machine_has_rank(stuck->machines[i], host))
			return true;
	return false;
}

static void report_host(struct hvd_stuck_procs *stuck, uint32_t host, const char *why)
{
	report(stuck, hvd_machine_host(stuck->machines[0], host), why,
	       hvd_procs_ending(stuck->job->procs) && has_rank(stuck, host));
}

static void no_munge(const struct hvd_stuck_procs *stuck, char *text, size_t len)
{
	snprintf(text, len, "munged does not answer there, so %s cannot learn that its ranks have ended; ending it",
		 stuck->job->backend->name);
}

void hvd_stuck_procs_lost(struct hvd_stuck_procs *stuck, uint32_t host)
{
	if (hvd_procs_stuck(stuck->job->procs, host))
		report_host(stuck, host, "the host does not answer");
}

void hvd_stuck_procs_without_munge(struct hvd_stuck_procs *stuck, uint32_t host)
{
	char why[160];

	no_munge(stuck, why, sizeof(why));
	if (hvd_procs_stuck(stuck->job->procs, host))
		report_host(stuck, host, why);
}

void hvd_stuck_procs_cut_short(struct hvd_stuck_procs *stuck, uint32_t host)
{
	char why[64];

	snprintf(why, sizeof(why), "%s did not end in time", stuck->job->backend->name);
	report_host(stuck, host, why);
}

static void on_own(void *arg)
{
	struct hvd_stuck_procs *stuck = arg;
	char name[256] = "this host", why[160];
	bool any = false;

	if (hvd_procs_running(stuck->job->procs) == 0 || hvd_munge_answers(NULL, ANSWER_SECONDS))
		return;
	for (uint32_t h = 0; h < hvd_machine_n_hosts(stuck->machines[0]); h++)
		while (hvd_procs_stuck(stuck->job->procs, h))
			any |= has_rank(stuck, h);
	gethostname(name, sizeof(name) - 1);
	no_munge(stuck, why, sizeof(why));
	report(stuck, name, why, any);
}

void hvd_stuck_procs_ending(struct hvd_stuck_procs *stuck)
{
	if (stuck->own)
		hvd_timer_in_ms(stuck->own, ASK_SECONDS * 1000);
}

void hvd_stuck_procs_init(struct hvd_stuck_procs *stuck, struct hvd_launcher_process *job)
{
	*stuck = (struct hvd_stuck_procs){.job = job};
	if (job->backend == &hvd_backend_steps && job->secret.session.identity.kind == HVD_ID_MUNGE)
		stuck->own = hvd_timer_new(job->base, on_own, stuck);
}

void hvd_stuck_procs_add(struct hvd_stuck_procs *stuck, const struct hvd_machine *machine)
{
	stuck->machines[stuck->n_machines++] = machine;
}

void hvd_stuck_procs_clear(struct hvd_stuck_procs *stuck)
{
	hvd_timer_free(stuck->own);
	stuck->own = NULL;
}
