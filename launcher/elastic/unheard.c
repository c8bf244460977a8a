/* SPDX-License-Identifier: Apache-2.0 */
#include "unheard.h"

#include "lib/protocol/munge.h"

#include <stdio.h>
#include <unistd.h>

/* How soon after the job's end this host's munged is asked, if processes are left, and how long it may take to
 * answer. */
#define ASK_SECONDS    2
#define ANSWER_SECONDS 2.0

/* `bad`: the host has ranks of the last generation, whose output may be incomplete. */
static void report(struct hvd_unheard *unheard, const char *host, const char *why, bool bad)
{
	hvd_log(unheard->job->log, bad ? HVD_LOG_ERROR : HVD_LOG_WARN, "%s: %s%s", host, why,
		bad ? "; the last output of its ranks may be missing" : "");
	if (bad)
		hvd_job_failed(unheard->job);
}

static void report_host(struct hvd_unheard *unheard, uint32_t host, const char *why)
{
	report(unheard, hvd_machine_host(unheard->machine, host), why,
	       hvd_procs_ending(unheard->job->procs) && hvd_machine_has_rank(unheard->machine, host));
}

static void no_munge(const struct hvd_unheard *unheard, char *text, size_t len)
{
	snprintf(text, len, "munged does not answer there, so %s cannot learn that its ranks have ended; ending it",
		 unheard->job->backend->name);
}

void hvd_unheard_lost(struct hvd_unheard *unheard, uint32_t host)
{
	if (hvd_procs_stuck(unheard->job->procs, host))
		report_host(unheard, host, "the host does not answer");
}

void hvd_unheard_without_munge(struct hvd_unheard *unheard, uint32_t host)
{
	char why[160];

	no_munge(unheard, why, sizeof(why));
	if (hvd_procs_stuck(unheard->job->procs, host))
		report_host(unheard, host, why);
}

void hvd_unheard_cut_short(struct hvd_unheard *unheard, uint32_t host)
{
	char why[64];

	snprintf(why, sizeof(why), "%s did not end in time", unheard->job->backend->name);
	report_host(unheard, host, why);
}

static void on_own(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_unheard *unheard = arg;
	char name[256] = "this host", why[160];
	bool any = false;

	(void)fd;
	(void)what;
	if (hvd_procs_running(unheard->job->procs) == 0 || hvd_munge_answers(NULL, ANSWER_SECONDS))
		return;
	for (uint32_t h = 0; h < hvd_machine_n_hosts(unheard->machine); h++)
		while (hvd_procs_stuck(unheard->job->procs, h))
			any |= hvd_machine_has_rank(unheard->machine, h);
	gethostname(name, sizeof(name) - 1);
	no_munge(unheard, why, sizeof(why));
	report(unheard, name, why, any);
}

void hvd_unheard_ending(struct hvd_unheard *unheard)
{
	if (unheard->own)
		evtimer_add(unheard->own, &(struct timeval){.tv_sec = ASK_SECONDS});
}

void hvd_unheard_init(struct hvd_unheard *unheard, struct hvd_job *job, const struct hvd_machine *machine)
{
	*unheard = (struct hvd_unheard){.job = job, .machine = machine};
	if (job->backend == &hvd_backend_steps && job->secret.session.identity.kind == HVD_ID_MUNGE)
		unheard->own = evtimer_new(job->base, on_own, unheard);
}

void hvd_unheard_clear(struct hvd_unheard *unheard)
{
	if (unheard->own)
		event_free(unheard->own);
	unheard->own = NULL;
}
