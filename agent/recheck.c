/* SPDX-License-Identifier: Apache-2.0 */
#include "recheck.h"

#include "lib/base/xalloc.h"
#include "lib/job/host_check.h"
#include "preflight.h"

#include <stdlib.h>

/* How long GPU memory may take to be free again after the end of the last rank: less than the driver waits for that
 * (launcher/elastic/machine_opts.c). */
#define HELD_SECONDS 1.5

struct hvd_recheck {
	struct event_base *base;
	void (*send)(json_t *msg, void *arg);
	void *arg;
	struct hvd_preflight *look; /* under way, or over; NULL: none */
	json_t *found;              /* what the first checks have found; NULL: nothing yet */
	json_t *mib;                /* the GPUs' memory is to be awaited; NULL: it is not, or no longer */
	bool ranks;                 /* the host has ranks */
};

static void forget(struct hvd_recheck *recheck)
{
	hvd_preflight_destroy(recheck->look);
	json_decref(recheck->found);
	json_decref(recheck->mib);
	recheck->look = NULL;
	recheck->found = recheck->mib = NULL;
}

static void answer(struct hvd_recheck *recheck)
{
	recheck->send(json_pack("{s:s, s:O}", "t", "checked", "preflight", recheck->found), recheck->arg);
	json_decref(recheck->found);
	recheck->found = NULL;
}

static void on_memory(json_t *found, void *arg)
{
	struct hvd_recheck *recheck = arg;
	json_t *held = json_object_get(found, "held");

	if (held)
		json_object_set(recheck->found, "held", held);
	answer(recheck);
}

/* Take the next step, if the ranks let it. */
static void go_on(struct hvd_recheck *recheck)
{
	struct hvd_preflight_order order = {.seconds = HELD_SECONDS, .mib = recheck->mib};

	if (!recheck->found || (recheck->mib && recheck->ranks))
		return;
	if (recheck->mib) {
		hvd_preflight_destroy(recheck->look);
		recheck->look = hvd_preflight_start(recheck->base, &order, on_memory, recheck, NULL);
		json_decref(recheck->mib);
		recheck->mib = NULL;
		if (recheck->look)
			return;
	}
	answer(recheck);
}

static void on_looked(json_t *found, void *arg)
{
	struct hvd_recheck *recheck = arg;

	recheck->found = json_incref(found);
	go_on(recheck);
}

void hvd_recheck_begin(struct hvd_recheck *recheck, const json_t *order, bool ranks)
{
	json_t *mib = json_object_get(order, "mib");
	struct hvd_preflight_order look;

	forget(recheck);
	if (hvd_preflight_order_read(order, &look, NULL) != 0)
		return;
	recheck->ranks = ranks;
	recheck->mib = hvd_host_check_is_mib(mib) ? json_incref(mib) : NULL;
	recheck->look = hvd_preflight_start(recheck->base, &look, on_looked, recheck, NULL);
}

void hvd_recheck_ranks_ended(struct hvd_recheck *recheck)
{
	recheck->ranks = false;
	go_on(recheck);
}

struct hvd_recheck *hvd_recheck_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg)
{
	struct hvd_recheck *recheck = hvd_xcalloc(1, sizeof(*recheck));

	*recheck = (struct hvd_recheck){.base = base, .send = send, .arg = arg};
	return recheck;
}

void hvd_recheck_destroy(struct hvd_recheck *recheck)
{
	if (!recheck)
		return;
	forget(recheck);
	free(recheck);
}
