/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_notify.h"

#include "lib/base/xalloc.h"
#include "lib/frameworks/worker_client.h"
#include "lib/protocol/wire.h"

#include <stdlib.h>
#include <string.h>

/* How long a worker may take to answer. It reads notifications in a thread of its own, also while it trains. */
#define NOTIFY_SECONDS 10.0
#define MAX_TEXT       65536

struct hvd_worker_notify {
	struct event_base *base;
	void (*answer)(json_t *msg, void *arg);
	void *arg;
	struct hvd_notify *notify;
	int64_t id;
};

static void on_done(const struct hvd_err *why, void *arg)
{
	struct hvd_worker_notify *wn = arg;

	wn->notify = NULL;
	wn->answer(json_pack("{s:s, s:I, s:s}", "t", "notified", "id", (json_int_t)wn->id, "why",
			     why->code ? why->msg : ""),
		   wn->arg);
}

void hvd_worker_notify_pass(struct hvd_worker_notify *wn, const json_t *msg)
{
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
		wn->notify = hvd_notify_send(wn->base, &to, when, HVD_HOSTS_MIXED, hvd_deadline_in(NOTIFY_SECONDS),
					     on_done, wn);
	else
		on_done(&why, wn);
	hvd_worker_addrs_clear(&to);
}

struct hvd_worker_notify *hvd_worker_notify_create(struct event_base *base, void (*answer)(json_t *msg, void *arg),
						   void *arg)
{
	struct hvd_worker_notify *wn = hvd_xcalloc(1, sizeof(*wn));

	wn->base = base;
	wn->answer = answer;
	wn->arg = arg;
	return wn;
}

void hvd_worker_notify_destroy(struct hvd_worker_notify *wn)
{
	if (!wn)
		return;
	hvd_notify_cancel(wn->notify);
	free(wn);
}
