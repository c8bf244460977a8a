/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real static job of two hosts, and two processes that have proven to belong to the launch and say what they like: the
 * input is a JSON list of messages, the first for one of them, the second for the other, and so on. null ends a
 * connection.
 */
#include "agent/dial.h"
#include "fuzz.h"
#include "lib/protocol/wire.h"
#include "tests/unit/static_job.h"

#define PEERS 2

struct run {
	struct event_base *base;
	struct static_job job;
	struct hvd_dial *links[PEERS];
	struct hvd_conn *conns[PEERS];
	unsigned up;
};

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)arg;
	must(json_is_object(msg) && json_is_string(json_object_get(msg, "t")));
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct run *run = arg;

	(void)why;
	for (int i = 0; i < PEERS; i++)
		if (run->conns[i] == conn)
			run->conns[i] = NULL;
	hvd_conn_free(conn);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct run *run = arg;

	run->conns[run->up++] = conn;
	hvd_conn_set_ops(conn, &ops, run);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)why;
	(void)arg;
	must(false);
}

/* By RST: runs follow each other too fast for ports that wait. */
static void break_off(struct hvd_conn **conn)
{
	struct linger now = {.l_onoff = 1};

	if (*conn)
		setsockopt(hvd_conn_fd(*conn), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	hvd_conn_free(*conn);
	*conn = NULL;
}

/* All that is under way between the two ends, which are in one loop. */
static void settle(struct run *run)
{
	for (int i = 0; i < 6; i++)
		event_base_loop(run->base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *list = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *msg;
	const struct hvd_launch_spec spec = {
		.frameworks = HVD_FW_AUTO, .relay_fan_out = HVD_RELAY_FAN_OUT, .deadlines = {.start = 60}};
	struct hvd_driver_opts opts = {.spec = &spec,
				       .loopback = true,
				       .mode = size % 3 ? HVD_START_PLUGIN : HVD_START_HOSTS,
				       .id_text = "fd:9"};
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = {{1, 2, 3}}};
	struct hvd_log log = hvd_log_make("fuzz", HVD_LOG_DEBUG);
	struct hvd_session session, shim;
	struct run run = {0};
	size_t i;

	if (!json_is_array(list)) {
		json_decref(list);
		return 0;
	}
	log.fd = -1;
	run.base = event_base_new();
	must(hvd_session_create(&session, &id, NULL) == 0);
	must(static_job_create(&run.job, run.base, &opts, &session, &log, NULL) == 0);
	shim = session;
	for (i = 0; i < PEERS; i++)
		run.links[i] =
			hvd_dial_create(run.base, &run.job.boot, &shim, hvd_deadline_in(60), on_up, on_down, &run);
	while (run.up < PEERS)
		event_base_loop(run.base, EVLOOP_ONCE);
	json_array_foreach(list, i, msg)
	{
		struct hvd_conn **conn = &run.conns[i % PEERS];

		if (*conn && json_is_object(msg)) {
			hvd_conn_send(*conn, json_incref(msg));
		} else if (json_is_null(msg)) {
			break_off(conn);
		}
		settle(&run);
		must(run.job.started <= 1 && run.job.failed <= 1);
		must(!run.job.failed || (run.job.why.code != HVD_OK && run.job.why.msg[0]));
	}
	hvd_agent_registry_end_ranks(run.job.starter.job->agents);
	settle(&run);
	for (i = 0; i < PEERS; i++) {
		hvd_dial_destroy(run.links[i]);
		break_off(&run.conns[i]);
	}
	static_job_destroy(&run.job);
	event_base_loop(run.base, EVLOOP_NONBLOCK);
	event_base_free(run.base);
	json_decref(list);
	return 0;
}
