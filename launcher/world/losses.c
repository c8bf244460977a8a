/* SPDX-License-Identifier: Apache-2.0 */
#include "losses.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* srun may take so long to end after the processes of its step. */
#define ENDED_SECONDS 5
/* The same for a loss that a watchdog has reported: if all processes were being killed, the watchdog would have been
 * killed as well. */
#define DIED_SECONDS 1

struct hvd_losses {
	void (*failed)(const struct hvd_err *why, void *arg);
	void *arg;
	const struct hvd_log *log;
	struct hvd_timer *judge; /* pending: `loss` waits */
	struct hvd_loss loss;
	char host[256];
	char *expected; /* the ranks that cannot come any longer; NULL = none */
	bool rank_failed;
};

void hvd_losses_add(struct hvd_losses *losses, const struct hvd_loss *loss, char *expected)
{
	if (hvd_timer_runs(losses->judge)) {
		free(expected);
		if (losses->loss.of != loss->of || strcmp(losses->host, loss->host) != 0)
			return;
	} else {
		free(losses->expected);
		losses->expected = expected;
		snprintf(losses->host, sizeof(losses->host), "%s", loss->host);
	}
	losses->loss = *loss;
	losses->loss.host = losses->host;
	hvd_timer_at(losses->judge, hvd_deadline_in(loss->status < 0 ? ENDED_SECONDS : DIED_SECONDS));
}

void hvd_losses_rank_failed(struct hvd_losses *losses)
{
	losses->rank_failed = true;
}

static void on_judge(void *arg)
{
	struct hvd_losses *losses = arg;
	hvd_cleanup_free char *text = hvd_loss_text(&losses->loss);
	struct hvd_err why = {0};

	/* After a rank has failed, the step was probably ended, which may take longer on other hosts. */
	if (!losses->expected || losses->rank_failed) {
		hvd_log(losses->log, losses->rank_failed ? HVD_LOG_VERBOSE : HVD_LOG_WARN, "%s: %s; %s", losses->host,
			text, hvd_loss_outlook(&losses->loss));
		return;
	}
	hvd_err_set(&why, HVD_E_FAILED, "%s; %s and cannot rendezvous any longer; ending the launch", text,
		    losses->expected);
	hvd_err_hint(&why, "%s", HVD_LOSS_HINT);
	hvd_err_host(&why, losses->host);
	losses->failed(&why, losses->arg);
}

struct hvd_losses *hvd_losses_create(struct event_base *base, void (*failed)(const struct hvd_err *why, void *arg),
				     void *arg, const struct hvd_log *log)
{
	struct hvd_losses *losses = hvd_xcalloc(1, sizeof(*losses));

	losses->failed = failed;
	losses->arg = arg;
	losses->log = log;
	losses->judge = hvd_timer_new(base, on_judge, losses);
	return losses;
}

void hvd_losses_destroy(struct hvd_losses *losses)
{
	if (!losses)
		return;
	hvd_timer_free(losses->judge);
	free(losses->expected);
	free(losses);
}
