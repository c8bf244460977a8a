/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_notify.c - the agent notifies an elastic worker on its host that the hosts of the job have changed.
 *
 * The launcher does not do so itself, because a worker listens only on the job's network, to which the launcher's host
 * may not belong.
 *
 *   from the launcher   {"t":"notify", "id":N, "to":TEXT, "time":T}   to: the worker's addresses, as the worker has
 *                                                                         published them
 *                                                                         (lib/frameworks/worker_addrs.h)
 *   to the launcher     {"t":"notified", "id":N, "why":TEXT}          why the worker was not reached, or ""
 */
#include "agent.h"
#include "lib/frameworks/worker_client.h"
#include "lib/protocol/wire.h"

#include <string.h>

/* How long a worker may take to answer. It reads notifications in a thread of its own, also while it trains. */
#define NOTIFY_SECONDS 10.0
#define MAX_TEXT       65536

/* One notification at a time: a new one replaces one that is under way. */
struct worker_notify {
	struct hvd_of_world of;
	struct hvd_notify *notify;
	int64_t id;
};

static void on_done(const struct hvd_err *why, void *arg)
{
	struct worker_notify *wn = arg;

	wn->notify = NULL;
	hvd_of_world_send(&wn->of, json_pack("{s:s, s:I, s:s}", "t", "notified", "id", (json_int_t)wn->id, "why",
					     why->code ? why->msg : ""));
}

static void on_notify(void *arg, const json_t *msg)
{
	struct worker_notify *wn = arg;
	struct hvd_worker_addrs to = {0};
	struct hvd_err why = {0};
	const char *text;
	int64_t id, when;

	if (hvd_get_int(msg, "id", 0, UINT32_MAX, &id, NULL) != 0 ||
	    hvd_get_int(msg, "time", 0, INT64_MAX, &when, NULL) != 0 ||
	    hvd_get_str(msg, "to", MAX_TEXT, &text, NULL) != 0)
		return;
	hvd_notify_cancel(wn->notify);
	wn->notify = NULL;
	wn->id = id;
	/* The change is always called mixed. A worker that hears only of removed hosts does not synchronise its state,
	 * and then waits for others that come to the same generation for another reason, and do. */
	if (hvd_worker_addrs_parse(text, strlen(text), &to, &why) == 0)
		wn->notify = hvd_notify_send(wn->of.agent->base, &to, when, HVD_HOSTS_MIXED,
					     hvd_deadline_in(NOTIFY_SECONDS), on_done, wn);
	else
		on_done(&why, wn);
	hvd_worker_addrs_clear(&to);
}

static void end(void *self)
{
	hvd_notify_cancel(((struct worker_notify *)self)->notify);
}

const struct hvd_feature hvd_worker_notify_feature = {
	.size = sizeof(struct worker_notify),
	.by_world = true,
	.messages = (const struct hvd_agent_message[]){{"notify", on_notify}, {NULL, NULL}},
	.end = end,
};
