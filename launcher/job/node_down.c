/* SPDX-License-Identifier: Apache-2.0 */
#include "node_down.h"

#include "ask.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "slurm/slurm.h"

#include <stdio.h>
#include <stdlib.h>

/* How often it is polled which ranks have ended. */
#define POLL_SECONDS 2
/* Polls from one question to Slurm to the next, at most. Ranks may end at different times for hours. When all have ended,
 * srun goes on for seconds or, because of an epilog, for minutes, and the user waits for nothing but the answer. */
#define MOST_POLLS     32
#define MOST_POLLS_ALL 4
/* A controller that takes longer to answer is asked again later; and, when the job has ended, no more. */
#define PATIENT_SECONDS 10
#define ANSWER_SECONDS  2.0

struct hvd_node_down {
	struct hvd_timer *poll;
	struct hvd_ask *ask;
	char *hosts; /* that are asked about */
	unsigned polls, wait;
	bool all; /* ask about all hosts */
	const struct hvd_job_policy *policy;
	void (*down)(const char *host, void *arg);
	void *arg;
};

/* In the child. */
static void ask_for_name(int out, void *arg)
{
	const struct hvd_node_down *down = arg;
	hvd_cleanup_free char *name = hvd_slurm_node_down(down->hosts, hvd_deadline_in(PATIENT_SECONDS));

	if (name)
		dprintf(out, "%s", name);
}

/* One of the hosts is down. */
static void found(struct hvd_node_down *down, const char *name)
{
	if (!down->policy->hosts_change)
		hvd_timer_stop(down->poll);
	down->down(name, down->arg);
}

static void on_answer(const char *answer, void *arg)
{
	struct hvd_node_down *down = arg;

	if (answer && *answer && hvd_timer_runs(down->poll))
		found(down, answer);
}

static void on_poll(void *arg)
{
	struct hvd_node_down *down = arg;
	char *hosts = down->policy->ops->hosts(down->policy, down->all ? HVD_HOSTS_ALL : HVD_HOSTS_BEHIND);
	unsigned most = down->all ? MOST_POLLS_ALL : MOST_POLLS;

	if (!hosts) {
		down->polls = 0;
		down->wait = 1;
	} else if (++down->polls >= down->wait) {
		down->polls = 0;
		down->wait = down->wait * 2 < most ? down->wait * 2 : most;
		free(down->hosts);
		down->hosts = hosts;
		hvd_ask_now(down->ask);
		return;
	}
	free(hosts);
}

void hvd_node_down_ask(struct hvd_node_down *down)
{
	hvd_cleanup_free char *hosts = down->policy->ops->hosts(down->policy, HVD_HOSTS_LEFT), *name = NULL;

	if (hosts && hvd_timer_runs(down->poll))
		name = hvd_slurm_node_down(hosts, hvd_deadline_in(ANSWER_SECONDS));
	if (name)
		found(down, name);
}

void hvd_node_down_ask_of_all(struct hvd_node_down *down)
{
	if (!down->all) {
		down->polls = 0;
		down->wait = 1;
	}
	down->all = true;
}

struct hvd_node_down *hvd_node_down_watch(struct event_base *base, const struct hvd_job_policy *policy,
					  void (*fn)(const char *host, void *arg), void *arg)
{
	struct hvd_node_down *down = hvd_xcalloc(1, sizeof(*down));

	down->wait = 1;
	down->policy = policy;
	down->down = fn;
	down->arg = arg;
	down->ask = hvd_ask_create(base, ask_for_name, down, PATIENT_SECONDS + 1, on_answer, down);
	down->poll = hvd_timer_new(base, on_poll, down);
	hvd_timer_every_ms(down->poll, POLL_SECONDS * 1000);
	return down;
}

void hvd_node_down_destroy(struct hvd_node_down *down)
{
	if (!down)
		return;
	hvd_ask_destroy(down->ask);
	hvd_timer_free(down->poll);
	free(down->hosts);
	free(down);
}
