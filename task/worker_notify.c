/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_notify.h"

#include "lib/base/xalloc.h"
#include "lib/frameworks/worker_client.h"
#include "lib/protocol/wire.h"

#include <stdlib.h>
#include <string.h>

/* A worker that trains reads its notifications in a thread of its own, at once. */
#define NOTIFY_SECONDS 10.0
#define MAX_TEXT       65536

struct hvd_worker_notify {
	struct event_base *base;
	void (*answer)(json_t *msg, void *arg);
	void *arg;
	struct hvd_notify *notify;
	int64_t worker;
};

static void on_done(const struct hvd_err *why, void *arg)
{
	struct hvd_worker_notify *notice = arg;

	notice->notify = NULL;
	notice->answer(json_pack("{s:s, s:I, s:s}", "t", "notified", "worker", (json_int_t)notice->worker, "why",
				 why->code ? why->msg : ""),
		       notice->arg);
}

void hvd_worker_notify_pass(struct hvd_worker_notify *notice, const json_t *msg)
{
	struct hvd_worker_addrs to = {0};
	struct hvd_err why = {0};
	const char *text;
	int64_t worker, when;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) != 0 ||
	    hvd_get_int(msg, "time", 0, INT64_MAX, &when, NULL) != 0 ||
	    hvd_get_str(msg, "to", MAX_TEXT, &text, NULL) != 0)
		return;
	hvd_notify_cancel(notice->notify);
	notice->notify = NULL;
	notice->worker = worker;
	/* Always as a mixed change: a worker that was told of removed hosts only skips its state sync, which those that
	 * come to the same generation for another reason do not. */
	if (hvd_worker_addrs_parse(text, strlen(text), &to, &why) == 0)
		notice->notify = hvd_notify_send(notice->base, &to, when, HVD_HOSTS_MIXED,
						 hvd_deadline_in(NOTIFY_SECONDS), on_done, notice);
	else
		on_done(&why, notice);
	hvd_worker_addrs_clear(&to);
}

struct hvd_worker_notify *hvd_worker_notify_create(struct event_base *base, void (*answer)(json_t *msg, void *arg),
						   void *arg)
{
	struct hvd_worker_notify *notice = hvd_xcalloc(1, sizeof(*notice));

	notice->base = base;
	notice->answer = answer;
	notice->arg = arg;
	return notice;
}

void hvd_worker_notify_destroy(struct hvd_worker_notify *notice)
{
	if (!notice)
		return;
	hvd_notify_cancel(notice->notify);
	free(notice);
}
