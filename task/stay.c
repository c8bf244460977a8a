/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process ends with the tasks: when they have ended, slurmstepd has told of it, and the driver knows of the ranks
 * that have failed. All of this takes some milliseconds, or HVD_STEP_SEEN_MS where somebody does not answer.
 *
 * The connection to the driver is made once. Messages wait for it in `queue`. When it cannot be made, or has ended, the
 * driver is gone, and with it the launch; the ranks' standard error is still passed on.
 */
#include "stay.h"

#include "last_report.h"
#include "lib/base/xalloc.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/step_note.h"
#include "link.h"
#include "rank_watch.h"
#include "resident.h"
#include "stay_ranks.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long after the start to connect: so much, and up to two seconds more, which differ from host to host. */
#define CONNECT_SECONDS 1.0
/* How long the connection may take at the end to send what is queued. */
#define LAST_SECONDS 0.2

/* Those that Slurm sends to all processes of a step that is to end. */
static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
#define N_SIGNALS (sizeof(ends) / sizeof(ends[0]))

struct stay {
	const struct hvd_stay_opts *opts;
	struct hvd_session session;
	struct event_base *base;
	struct hvd_resident *resident;
	struct hvd_relay *relay;
	struct event *drop_relay, *connect, *late, *signals[N_SIGNALS];
	struct hvd_stay_ranks *ranks; /* NULL: nothing is told here */
	struct hvd_rank_watch *watch; /* … and nothing is asked */
	struct hvd_link *link;
	struct hvd_conn *conn;
	json_t *queue; /* messages that wait for the connection */
	bool unreachable;
};

/* ---- the driver ---- */

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	hvd_rank_watch_message(((struct stay *)arg)->watch, msg);
}

/* The driver has what was sent, or never will. */
static void settled(struct stay *stay)
{
	if (stay->ranks)
		hvd_stay_ranks_told(stay->ranks);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct stay *stay = arg;

	(void)why;
	hvd_conn_free(conn);
	stay->conn = NULL;
	stay->unreachable = true;
	settled(stay);
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	(void)conn;
	settled(arg);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed, .drained = on_drained};
	struct stay *stay = arg;
	size_t i;
	json_t *msg;

	stay->conn = conn;
	hvd_conn_set_ops(conn, &ops, stay);
	hvd_conn_set_low(conn, 1);
	hvd_conn_send(conn, json_pack("{s:s, s:I}", "t", "stay", "node", (json_int_t)stay->opts->info->node));
	json_array_foreach(stay->queue, i, msg)
	{
		hvd_conn_send(conn, json_incref(msg));
	}
	json_array_clear(stay->queue);
	if (hvd_conn_queued(conn) == 0)
		settled(stay);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct stay *stay = arg;

	hvd_debug(&stay->resident->log, "%s: the driver is gone: %s", stay->opts->info->name, why->msg);
	stay->unreachable = true;
	settled(stay);
}

static void connect_now(struct stay *stay)
{
	event_del(stay->connect);
	if (!stay->link)
		stay->link = hvd_link_create(stay->base, stay->opts->boot, &stay->session,
					     hvd_deadline_in(stay->opts->boot->timeout), on_up, on_down, stay);
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	connect_now(arg);
}

/* ---- ranks ---- */

static void on_answer(json_t *msg, void *arg)
{
	struct stay *stay = arg;

	if (stay->conn)
		hvd_conn_send(stay->conn, msg);
	else
		json_decref(msg);
}

static bool on_asked_over(void *arg)
{
	return hvd_resident_tasks_over(((struct stay *)arg)->resident);
}

static void on_began(uint32_t rank, pid_t pid, void *arg)
{
	hvd_rank_watch_add(((struct stay *)arg)->watch, rank, pid);
}

static void on_output(size_t bytes, void *arg)
{
	hvd_rank_watch_output(((struct stay *)arg)->watch, bytes);
}

/* That a rank has ended well is told where there is a connection, or with what follows. */
static bool on_ended(const struct hvd_rank_end *end, void *arg)
{
	struct stay *stay = arg;
	json_t *msg;

	hvd_rank_watch_remove(stay->watch, end->rank);
	if (stay->unreachable)
		return true;
	msg = hvd_rank_end_json(end);
	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "rank", json_integer((json_int_t)end->rank));
	if (stay->conn)
		hvd_conn_send(stay->conn, msg);
	else
		json_array_append_new(stay->queue, msg);
	if (end->status == 0 || (stay->conn && hvd_conn_queued(stay->conn) == 0))
		return true;
	connect_now(stay);
	return stay->unreachable;
}

static void on_seen(void *arg)
{
	struct stay *stay = arg;

	if (event_pending(stay->late, EV_TIMEOUT, NULL) && !hvd_stay_ranks_left(stay->ranks))
		event_base_loopbreak(stay->base);
}

/* ---- life ---- */

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(((struct stay *)arg)->base);
}

static void on_over(void *arg)
{
	struct stay *stay = arg;
	struct timeval tv = {.tv_usec = HVD_STEP_SEEN_MS * 1000};

	if (stay->ranks && hvd_stay_ranks_left(stay->ranks))
		evtimer_add(stay->late, &tv);
	else
		event_base_loopbreak(stay->base);
}

static void on_drop_relay(evutil_socket_t fd, short what, void *arg)
{
	struct stay *stay = arg;

	(void)fd;
	(void)what;
	hvd_relay_destroy(stay->relay);
	stay->relay = NULL;
	if (!stay->ranks)
		event_base_loopbreak(stay->base);
}

static void on_relay_lost(void *arg)
{
	event_active(((struct stay *)arg)->drop_relay, EV_TIMEOUT, 0);
}

static bool begin_relay(struct stay *stay)
{
	struct hvd_err why = {0};

	if (!stay->opts->relay.plan)
		return true;
	stay->relay = hvd_relay_create(stay->base, &stay->opts->relay, on_relay_lost, stay, &stay->resident->log, &why);
	if (stay->relay)
		return true;
	hvd_err_host(&why, stay->opts->info->name);
	hvd_log_err(&stay->resident->log, &why);
	return false;
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	hvd_stay_ranks_signalled(((struct stay *)arg)->ranks);
}

static void begin_ranks(struct stay *stay, const int *error_files)
{
	struct hvd_stay_ranks_opts opts = {.notes = HVD_STEP_NOTES_FD,
					   .answers = HVD_STEP_SEEN_FD,
					   .error_files = error_files,
					   .info = stay->opts->info,
					   .lines = stay->opts->boot->stderr_lines,
					   .over = on_asked_over,
					   .began = on_began,
					   .ended = on_ended,
					   .output = on_output,
					   .seen = on_seen,
					   .arg = stay};
	struct timeval tv = hvd_left_tv(hvd_deadline_in(CONNECT_SECONDS + (double)(stay->opts->info->node % 64) / 32));

	if (!stay->opts->notes)
		return;
	stay->watch = hvd_rank_watch_create(stay->base, on_answer, stay, &stay->resident->log);
	stay->ranks = hvd_stay_ranks_create(stay->base, &opts);
	evtimer_add(stay->connect, &tv);
	for (size_t i = 0; i < N_SIGNALS; i++) {
		stay->signals[i] = evsignal_new(stay->base, ends[i], on_signal, stay);
		if (stay->signals[i])
			event_add(stay->signals[i], NULL);
	}
}

/* What is queued is sent, if the driver takes it soon. */
static void end(struct stay *stay)
{
	hvd_relay_destroy(stay->relay);
	hvd_stay_ranks_destroy(stay->ranks);
	hvd_rank_watch_destroy(stay->watch);
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (stay->signals[i])
			event_free(stay->signals[i]);
	event_free(stay->drop_relay);
	event_free(stay->connect);
	event_free(stay->late);
	hvd_link_destroy(stay->link);
	/* The driver takes a connection that ends without this for the loss of the process. */
	if (stay->conn)
		hvd_conn_send(stay->conn, json_pack("{s:s}", "t", "done"));
	hvd_conn_finish(stay->conn, hvd_deadline_in(LAST_SECONDS));
	event_base_dispatch(stay->base);
}

struct start {
	const struct hvd_stay_opts *opts;
	struct hvd_session *session;
	const int *error_files;
};

static void run(struct hvd_resident *self, void *arg)
{
	const struct start *start = arg;
	struct stay stay = {.opts = start->opts, .session = *start->session, .resident = self};

	stay.base = event_base_new();
	if (!stay.base)
		return;
	stay.queue = json_array();
	stay.drop_relay = evtimer_new(stay.base, on_drop_relay, &stay);
	stay.connect = evtimer_new(stay.base, on_connect, &stay);
	stay.late = evtimer_new(stay.base, on_late, &stay);
	if (!stay.drop_relay || !stay.connect || !stay.late || (!begin_relay(&stay) && !stay.opts->notes))
		return;
	begin_ranks(&stay, start->error_files);
	malloc_trim(0);
	hvd_resident_watch(self, stay.base, on_over, &stay);
	event_base_dispatch(stay.base);
	hvd_resident_unwatch(self);
	end(&stay);
}

/* In the watchdog: the process has ended before the tasks. If it has ended by itself it has said why. */
static void on_lost(pid_t pid, int status, int spare, struct hvd_step_tasks *tasks, void *arg)
{
	const struct start *start = arg;

	if (status != 0)
		hvd_last_report_death(start->opts->boot, start->session, start->opts->info,
				      start->opts->relay.plan ? "relay" : "agent", pid, status);
	if (start->opts->notes)
		hvd_stay_ranks_pass_on(spare, tasks);
}

/* A pipe for each rank. The process keeps both ends: without a writing end the reading end would always be at its
 * end. ends[0] to ends[n - 1] are reading ends. */
static size_t open_error_files(uint32_t n, int *ends_of)
{
	for (uint32_t i = 0; i < n; i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) != 0)
			pair[0] = pair[1] = 0;
		ends_of[i] = pair[0];
		ends_of[n + i] = pair[1];
	}
	return 2 * (size_t)n;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] > 0)
			close(fds[i]);
}

int hvd_stay_begin(const struct hvd_stay_opts *opts, struct hvd_stay *stay, const struct hvd_log *log,
		   struct hvd_err *err)
{
	uint32_t n = opts->notes ? opts->info->local_size : 0;
	struct hvd_relay_sockets *sockets = opts->relay.sockets;
	struct hvd_session session = {0};
	size_t n_reserved = opts->reserved ? opts->reserved->n : 0;
	int *keep = hvd_xcalloc(2 * (size_t)n + n_reserved + 6, sizeof(*keep));
	struct start start = {.opts = opts, .session = &session, .error_files = n ? keep : NULL};
	struct hvd_resident_opts resident = {.name = opts->relay.plan ? "hvd-relay" : "hvd-resident",
					     .task = opts->task,
					     .keep = keep,
					     .spare = opts->notes ? HVD_STEP_SPARE_FD : 0,
					     .log = log,
					     .run = run,
					     .arg = &start,
					     .lost = on_lost};
	pid_t pid = -1;

	hvd_raise_nofile();
	resident.n_keep = open_error_files(n, keep);
	if (opts->relay.plan && sockets->port)
		keep[resident.n_keep++] = sockets->fd;
	if (opts->relay.plan && sockets->network_port)
		keep[resident.n_keep++] = sockets->network;
	if (opts->relay.plan && sockets->children_port)
		keep[resident.n_keep++] = sockets->children;
	if (opts->notes) {
		keep[resident.n_keep++] = HVD_STEP_NOTES_FD;
		keep[resident.n_keep++] = HVD_STEP_SEEN_FD;
	}
	for (size_t i = 0; i < n_reserved; i++)
		keep[resident.n_keep++] = opts->reserved->fds[i];
	if (hvd_agent_session(opts->boot, &session, err) == 0)
		pid = hvd_resident_start(&resident, err);
	close_all(keep, 2 * (size_t)n);
	hvd_relay_sockets_close(sockets);
	if (opts->notes) {
		close(HVD_STEP_NOTES_FD);
		close(HVD_STEP_SPARE_FD);
		close(HVD_STEP_SEEN_FD);
	}
	*stay = (struct hvd_stay){.pid = pid, .error_files = keep};
	if (pid < 0 || n == 0)
		hvd_stay_clear(stay);
	return pid > 0 ? 0 : -1;
}

void hvd_stay_clear(struct hvd_stay *stay)
{
	free(stay->error_files);
	*stay = (struct hvd_stay){0};
}
