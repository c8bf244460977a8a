/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recheck.c - an agent checks its host again while ranks are being ended (preflight.h), at the driver's order:
 *
 *   {"t":"check", "ms":N, "hook":PATH, "mib":[N,…]}
 *
 * The checks that need not wait for the ranks begin at once. Then, if the order has the memory that was in use on each
 * GPU before the ranks started ("mib"), the memory is awaited to be free again, once the last rank of the host has ended.
 * The answer is {"t":"checked", "preflight":{…}} (lib/host/host_check.h).
 */
#include "agent.h"
#include "lib/host/host_check.h"
#include "preflight.h"

/* How long GPU memory may take to be free again after the end of the last rank: less than the driver waits for that
 * (launcher/job/machine_opts.c). */
#define HELD_SECONDS 1.5

struct recheck {
	struct hvd_agent *agent;
	struct hvd_child_answer *check; /* under way, or over; NULL: none */
	json_t *result;                 /* of the first checks; NULL: there is none yet */
	json_t *mib;                    /* the GPUs' memory is to be awaited; NULL: it is not, or no longer */
	bool ranks;                     /* the ranks of the order's time have not all ended */
};

static bool has_ranks(const struct hvd_agent *agent)
{
	return agent->source->running(agent->ranks) > 0;
}

static void forget(void *arg)
{
	struct recheck *recheck = arg;

	hvd_child_answer_destroy(recheck->check);
	json_decref(recheck->result);
	json_decref(recheck->mib);
	recheck->check = NULL;
	recheck->result = recheck->mib = NULL;
}

static void answer(struct recheck *recheck)
{
	hvd_driver_client_send(recheck->agent->driver,
			       json_pack("{s:s, s:o}", "t", "checked", "preflight", recheck->result));
	recheck->result = NULL;
}

static void on_memory(json_t *result, void *arg)
{
	struct recheck *recheck = arg;
	json_t *held = json_object_get(result, "held");

	if (held)
		json_object_set(recheck->result, "held", held);
	answer(recheck);
}

/* Take the next step, if the ranks let it. */
static void go_on(struct recheck *recheck)
{
	struct hvd_preflight_order order = {.seconds = HELD_SECONDS, .mib = recheck->mib};

	if (!recheck->result || (recheck->mib && recheck->ranks))
		return;
	if (recheck->mib) {
		hvd_child_answer_destroy(recheck->check);
		recheck->check = hvd_preflight_start(recheck->agent->base, &order, on_memory, recheck, NULL);
		json_decref(recheck->mib);
		recheck->mib = NULL;
		if (recheck->check)
			return;
	}
	answer(recheck);
}

static void on_checked(json_t *result, void *arg)
{
	struct recheck *recheck = arg;

	recheck->result = hvd_preflight_result(result);
	go_on(recheck);
}

/* A check that is under way is given up for the new one. */
static void on_check(void *arg, const json_t *msg)
{
	struct recheck *recheck = arg;
	json_t *mib = json_object_get(msg, "mib");
	struct hvd_preflight_order order;

	forget(recheck);
	if (hvd_preflight_order_read(msg, &order, NULL) != 0)
		return;
	recheck->ranks = has_ranks(recheck->agent);
	recheck->mib = hvd_host_check_is_mib(mib) ? json_incref(mib) : NULL;
	recheck->check = hvd_preflight_start(recheck->agent->base, &order, on_checked, recheck, NULL);
}

static void on_rank_ended(void *arg, uint32_t rank)
{
	struct recheck *recheck = arg;

	(void)rank;
	if (!recheck->ranks || has_ranks(recheck->agent))
		return;
	recheck->ranks = false;
	go_on(recheck);
}

const struct hvd_feature hvd_recheck_feature = {
	.size = sizeof(struct recheck),
	.messages = (const struct hvd_agent_message[]){{"check", on_check}, {NULL, NULL}},
	.rank_ended = on_rank_ended,
	.end = forget,
};
