/* SPDX-License-Identifier: Apache-2.0 */
#include "last_report.h"

#include "lib/base/deadline.h"
#include "lib/protocol/conn.h"
#include "link.h"

#include <event2/event.h>

/* How long to try. */
#define REPORT_SECONDS 3.0

struct last_report {
	struct event_base *base;
	json_t *msg;
};

static void on_up(struct hvd_conn *conn, void *arg)
{
	struct last_report *report = arg;

	hvd_conn_send(conn, json_incref(report->msg));
	hvd_conn_finish(conn, hvd_deadline_in(REPORT_SECONDS));
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)why; /* the driver is gone: the launch had ended before */
	event_base_loopbreak(((struct last_report *)arg)->base);
}

void hvd_last_report_send(const struct hvd_boot *boot, struct hvd_session *session, json_t *msg)
{
	struct last_report last = {.base = event_base_new(), .msg = msg};
	struct hvd_link *link;

	if (last.base) {
		link = hvd_link_create(last.base, boot, session, hvd_deadline_in(REPORT_SECONDS), on_up, on_down,
				       &last);
		event_base_dispatch(last.base);
		hvd_link_destroy(link);
		event_base_free(last.base);
	}
	json_decref(msg);
}

void hvd_last_report_death(const struct hvd_boot *boot, struct hvd_session *session, const struct hvd_taskinfo *info,
			   const char *serves, pid_t pid, int status)
{
	hvd_last_report_send(boot, session,
			     json_pack("{s:s, s:I, s:s, s:I, s:i, s:I}", "t", "died", "node", (json_int_t)info->node,
				       "serves", serves, "pid", (json_int_t)pid, "status", status, "ended",
				       (json_int_t)hvd_wall_now()));
}
