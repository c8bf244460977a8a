/* SPDX-License-Identifier: Apache-2.0 */
#include "last_report.h"

#include "dial.h"
#include "driver_client.h"
#include "lib/base/deadline.h"
#include "lib/protocol/conn.h"

#include <event2/event.h>
#include <jansson.h>

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

static void send_last(const struct hvd_boot *boot, struct hvd_session *session, json_t *msg)
{
	struct last_report last = {.base = event_base_new(), .msg = msg};
	struct hvd_dial *link;

	if (last.base) {
		link = hvd_dial_create(last.base, boot, session, hvd_deadline_in(REPORT_SECONDS), on_up, on_down,
				       &last);
		event_base_dispatch(last.base);
		hvd_dial_destroy(link);
		event_base_free(last.base);
	}
	json_decref(msg);
}

void hvd_last_report_death(const struct hvd_boot *boot, struct hvd_session *session, const struct hvd_taskinfo *info,
			   pid_t pid, int status)
{
	send_last(boot, session,
		  json_pack("{s:s, s:I, s:I, s:i, s:I}", "t", "died", "node", (json_int_t)info->node, "pid",
			    (json_int_t)pid, "status", status, "ended", (json_int_t)hvd_now()));
}

void hvd_last_report_exit(const struct hvd_boot *boot, const struct hvd_rank_end *end)
{
	struct hvd_session session;
	json_t *msg;

	if (hvd_driver_client_session(boot, &session, NULL) != 0)
		return;
	msg = hvd_rank_end_json(end);
	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "id", json_integer((json_int_t)end->rank));
	send_last(boot, &session, msg);
}
