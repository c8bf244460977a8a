/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_agents - the agents of many hosts in one process, for a real hvdrun --launcher=join with an elastic job.
 *
 *   sim_agents [-n HOSTS] [-f FIRST] [-s SLOTS] [-u SECONDS] ADDRESS KEY_FILE     1000 hosts, sim0000 …, of 8 slots
 *
 * Each host has a connection of its own, and speaks the protocol of hvd-agent connect. Its ranks are numbers: one runs
 * from the order to start it until the order to stop it, which it obeys at once. All networks connect all hosts. With -u
 * each host reports every so many seconds what all of its ranks use.
 *
 * Commands on stdin, one in a line; the end of stdin ends all agents:
 *   fail RANK        the rank ends by SIGKILL
 *   silence HOST     the host is cut off: its kernel takes and answers nothing from now on
 * On stdout:
 *   connected N      all hosts have connected
 *   admitted N       all hosts are part of the job
 *   running R N T F  the last rank of a generation was started, of N that run here, after R restarts: T milliseconds
 *                    after the last old rank's end, F after the last "fail" or "silence"; -1 if there was none
 *   ended N          the driver has told all agents but N to end, and they have
 */
#include "agent/dial.h"
#include "agent/taskinfo.h"
#include "lib/base/xalloc.h"
#include "lib/host/join.h"
#include "lib/host/rank_end.h"
#include "lib/host/rank_usage.h"
#include "lib/protocol/preamble.h"
#include "sim_host.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <linux/filter.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT 300.0

struct worker {
	uint32_t id;
	int rank;
};

struct sim {
	struct event_base *base;
	struct hvd_session session;
	struct hvd_boot boot;
	struct agent *agents;
	uint32_t n, first, connected, admitted, ended, silenced;
	int slots;
	double usage;        /* seconds between two reports; 0 = none */
	long running, world; /* ranks here, and of the generation */
	int restarts;
	hvd_time last_end, fault;
};

struct agent {
	struct sim *sim;
	uint32_t index;       /* 0 … */
	uint32_t node, nodes; /* the host's number in the job */
	struct hvd_dial *link;
	struct hvd_conn *conn; /* NULL: none yet, or no longer */
	bool silent, over;
	struct event *tried, *report;
	int64_t tried_host;
	struct worker *workers;
	int n_workers;
};

static void die(const char *what)
{
	fprintf(stderr, "sim_agents: %s\n", what);
	exit(1);
}

static double ms_since(hvd_time then, hvd_time now)
{
	return then ? (double)(now - then) / 1e6 : -1;
}

/* ---- ranks ---- */

/* Rank `i` of the host has ended. */
static void end_worker(struct agent *ag, int i, int status)
{
	const struct hvd_rank_end end = {.status = status, .local_rank = (uint32_t)i, .pid = 1, .ended_at = hvd_now()};
	json_t *msg = hvd_rank_end_json(&end);

	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "id", json_integer(ag->workers[i].id));
	hvd_conn_send(ag->conn, msg);
	ag->workers[i] = ag->workers[--ag->n_workers];
	if (--ag->sim->running == 0)
		ag->sim->last_end = hvd_now();
}

static void on_stop(struct agent *ag, const json_t *msg)
{
	json_int_t id = json_integer_value(json_object_get(msg, "id"));

	for (int i = 0; i < ag->n_workers; i++)
		if (ag->workers[i].id == id) {
			end_worker(ag, i, SIGTERM);
			return;
		}
}

static long number_in(const json_t *env, const char *name)
{
	const char *text = json_string_value(json_object_get(env, name));

	return text ? strtol(text, NULL, 10) : 0;
}

static void on_start(struct agent *ag, const json_t *msg)
{
	const json_t *env = json_object_get(msg, "env");
	struct sim *sim = ag->sim;
	hvd_time now;

	ag->workers = hvd_xrealloc(ag->workers, (size_t)ag->n_workers + 1, sizeof(*ag->workers));
	ag->workers[ag->n_workers++] = (struct worker){
		.id = (uint32_t)json_integer_value(json_object_get(msg, "id")),
		.rank = (int)json_integer_value(json_object_get(msg, "rank")),
	};
	sim->running++;
	sim->world = number_in(env, "WORLD_SIZE");
	sim->restarts = (int)number_in(env, "TORCHELASTIC_RESTART_COUNT");
	if (sim->running < sim->world)
		return;
	now = hvd_now();
	printf("running %d %ld %.1f %.1f\n", sim->restarts, sim->running, ms_since(sim->last_end, now),
	       ms_since(sim->fault, now));
}

static void fail_rank(struct sim *sim, int rank)
{
	for (uint32_t h = 0; h < sim->n; h++)
		for (int i = 0; i < sim->agents[h].n_workers; i++)
			if (sim->agents[h].workers[i].rank == rank) {
				sim->fault = hvd_now();
				end_worker(&sim->agents[h], i, SIGKILL);
				return;
			}
	die("no such rank runs here");
}

/* ---- a host that is cut off, and its witnesses ---- */

static void silence_host(struct sim *sim, uint32_t index)
{
	static const int off = 0;
	struct sock_filter nothing = {.code = BPF_RET | BPF_K, .k = 0};
	struct sock_fprog filter = {.len = 1, .filter = &nothing};
	struct agent *ag = index < sim->n ? &sim->agents[index] : NULL;

	if (!ag || !ag->conn)
		die("no such host is connected here");
	if (setsockopt(hvd_conn_fd(ag->conn), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0 ||
	    setsockopt(hvd_conn_fd(ag->conn), SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off)) != 0)
		die("cannot cut a host off");
	ag->silent = true;
	sim->fault = hvd_now();
	sim->silenced++;
	sim->running -= ag->n_workers;
	ag->n_workers = 0;
}

static void on_tried(evutil_socket_t fd, short what, void *arg)
{
	struct agent *ag = arg;

	(void)fd;
	(void)what;
	if (ag->conn)
		hvd_conn_send(ag->conn, json_pack("{s:s, s:I, s:b}", "t", "tried", "n", (json_int_t)ag->tried_host,
						  "answered", false));
}

static void on_try(struct agent *ag, const json_t *msg)
{
	json_int_t host = json_integer_value(json_object_get(msg, "n")),
		   ms = json_integer_value(json_object_get(msg, "ms"));
	struct timeval tv;
	bool silent = false;

	for (uint32_t h = 0; h < ag->sim->n; h++)
		silent |= ag->sim->agents[h].silent && ag->sim->agents[h].node == host;
	if (!silent) {
		hvd_conn_send(ag->conn, json_pack("{s:s, s:I, s:b}", "t", "tried", "n", host, "answered", true));
		return;
	}
	if (!ag->tried)
		ag->tried = evtimer_new(ag->sim->base, on_tried, ag);
	ag->tried_host = host;
	tv = (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	evtimer_add(ag->tried, &tv);
}

/* ---- what ranks use ---- */

static void on_report(evutil_socket_t fd, short what, void *arg)
{
	struct agent *ag = arg;
	json_t *ranks = json_array();

	(void)fd;
	(void)what;
	for (int i = 0; i < ag->n_workers; i++) {
		const uint32_t rank = (uint32_t)ag->workers[i].rank;
		const struct hvd_rank_usage uses = {.rank = rank,
						    .cpu = 900 + rank % 90,
						    .delay = rank % 7,
						    .memory = 1000000000 + (int64_t)rank * 4096,
						    .read = 1000000 + rank,
						    .written = rank,
						    .output = rank % 60,
						    .awaited = rank % 100,
						    .gpu = 800 + rank % 100,
						    .gpu_memory = 8000000000};

		json_array_append_new(ranks, hvd_rank_usage_json(&uses));
	}
	if (ag->conn && !ag->silent && ag->n_workers > 0)
		hvd_conn_send(ag->conn, json_pack("{s:s, s:O}", "t", "usage", "ranks", ranks));
	json_decref(ranks);
}

static void report_often(struct agent *ag)
{
	const struct timeval tv = {.tv_sec = (time_t)ag->sim->usage,
				   .tv_usec = (suseconds_t)((ag->sim->usage - (double)(time_t)ag->sim->usage) * 1e6)};

	ag->report = event_new(ag->sim->base, -1, EV_PERSIST, on_report, ag);
	event_add(ag->report, &tv);
}

/* ---- the connection ---- */

static void check_ended(struct sim *sim)
{
	if (sim->ended + sim->silenced < sim->n)
		return;
	printf("ended %u\n", sim->silenced);
	event_base_loopexit(sim->base, &(struct timeval){.tv_usec = 100000}); /* for what is still to be sent */
}

static void on_end(struct agent *ag)
{
	struct hvd_conn *conn = ag->conn;

	while (ag->n_workers > 0)
		end_worker(ag, 0, SIGTERM);
	hvd_conn_send(conn, json_pack("{s:s, s:b}", "t", "done", "munge", true));
	hvd_conn_send(conn, json_pack("{s:s, s:i}", "t", "ended", "status", 0));
	ag->conn = NULL;
	hvd_conn_linger(conn, hvd_deadline_in(10));
	ag->sim->ended++;
	check_ended(ag->sim);
}

static void on_plan(struct agent *ag)
{
	hvd_conn_watch_host(ag->conn);
	if (ag->sim->usage > 0)
		report_often(ag);
	if (++ag->sim->admitted == ag->sim->n)
		printf("admitted %u\n", ag->sim->n);
}

static void take_args(struct agent *ag, const void *data, size_t len)
{
	struct hvd_preamble pre;
	struct hvd_taskinfo info = {0};
	const char *host = NULL, *ranks = NULL;
	struct hvd_err err = {0};

	if (hvd_preamble_parse_whole(data, len, &pre, &err) != 0)
		die(err.msg);
	for (size_t i = 0; i < pre.args.n; i++) {
		if (strncmp(pre.args.v[i], "--host=", 7) == 0)
			host = pre.args.v[i] + 7;
		else if (strncmp(pre.args.v[i], "--ranks=", 8) == 0)
			ranks = pre.args.v[i] + 8;
	}
	if (!host || !ranks || hvd_taskinfo_host(host, ranks, &info, &err) != 0)
		die("the arguments of hvd-agent host have no --host and --ranks");
	ag->node = info.node;
	ag->nodes = info.nodes;
	hvd_taskinfo_free(&info);
	hvd_preamble_clear(&pre);
}

static void on_preamble(unsigned channel, const void *data, size_t len, void *arg)
{
	struct agent *ag = arg;

	hvd_conn_mute(ag->conn, channel);
	hvd_conn_open(ag->conn, HVD_CHANNEL_STDIN, HVD_JOIN_PIECE, NULL, NULL);
	take_args(ag, data, len);
	hvd_conn_send(ag->conn, sim_registration(ag->node, ag->nodes, (uint32_t)ag->sim->slots));
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct agent *ag = arg;
	const char *type = json_string_value(json_object_get(msg, "t"));

	if (ag->silent || !type)
		return;
	if (strcmp(type, "probe") == 0) {
		hvd_conn_send(conn, sim_report(msg));
	} else if (strcmp(type, "plan") == 0) {
		on_plan(ag);
	} else if (strcmp(type, "ping") == 0) {
		hvd_conn_send(conn, json_pack("{s:s}", "t", "pong"));
	} else if (strcmp(type, "try") == 0) {
		on_try(ag, msg);
	} else if (strcmp(type, "start") == 0) {
		on_start(ag, msg);
	} else if (strcmp(type, "stop") == 0) {
		on_stop(ag, msg);
	} else if (strcmp(type, "end") == 0 || strcmp(type, "failed") == 0) {
		on_end(ag);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct agent *ag = arg;

	hvd_conn_free(conn);
	ag->conn = NULL;
	if (ag->silent)
		return;
	fprintf(stderr, "sim_agents: sim%04u: the connection has ended: %s\n", ag->sim->first + ag->index, why->msg);
	ag->sim->running -= ag->n_workers;
	ag->n_workers = 0;
	ag->sim->ended++;
	check_ended(ag->sim);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct agent *ag = arg;
	struct hvd_join_offer offer = {.slots = ag->sim->slots, .index = (int)(ag->sim->first + ag->index)};

	snprintf(offer.host, sizeof(offer.host), "sim%04u", ag->sim->first + ag->index);
	snprintf(offer.machine, sizeof(offer.machine), "%032u", ag->sim->first + ag->index);
	ag->conn = conn;
	hvd_conn_set_ops(conn, &ops, ag);
	hvd_conn_open(conn, HVD_CHANNEL_PREAMBLE, 2 * HVD_PREAMBLE_MAX, on_preamble, ag);
	hvd_conn_send(conn, hvd_join_offer(&offer));
	if (++ag->sim->connected == ag->sim->n)
		printf("connected %u\n", ag->sim->n);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)arg;
	die(why->msg);
}

/* ---- commands ---- */

static void on_commands(struct bufferevent *bev, void *arg)
{
	struct sim *sim = arg;
	unsigned n;
	char *line;

	while ((line = evbuffer_readln(bufferevent_get_input(bev), NULL, EVBUFFER_EOL_LF))) {
		if (sscanf(line, "fail %u", &n) == 1)
			fail_rank(sim, (int)n);
		else if (sscanf(line, "silence %u", &n) == 1)
			silence_host(sim, n - sim->first);
		else
			die("unknown command");
		free(line);
	}
}

static void on_stdin_ended(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	event_base_loopbreak(((struct sim *)arg)->base);
}

static void run(struct sim *sim)
{
	struct bufferevent *commands = bufferevent_socket_new(sim->base, STDIN_FILENO, 0);

	evutil_make_socket_nonblocking(STDIN_FILENO);
	bufferevent_setcb(commands, on_commands, NULL, on_stdin_ended, sim);
	bufferevent_enable(commands, EV_READ);
	sim->agents = hvd_xcalloc(sim->n, sizeof(*sim->agents));
	for (uint32_t i = 0; i < sim->n; i++) {
		struct agent *ag = &sim->agents[i];

		ag->sim = sim;
		ag->index = ag->node = i;
		ag->link = hvd_dial_create(sim->base, &sim->boot, &sim->session, hvd_deadline_in(TIMEOUT), on_up,
					   on_down, ag);
	}
	event_base_dispatch(sim->base);
}

int main(int argc, char **argv)
{
	struct sim sim = {.n = 1000, .slots = 8};
	struct hvd_err err = {0};
	struct rlimit files;
	int opt;

	while ((opt = getopt(argc, argv, "n:f:s:u:")) != -1) {
		if (opt == 'n')
			sim.n = (uint32_t)atoi(optarg);
		else if (opt == 'f')
			sim.first = (uint32_t)atoi(optarg);
		else if (opt == 's')
			sim.slots = atoi(optarg);
		else if (opt == 'u')
			sim.usage = atof(optarg);
		else
			return 2;
	}
	if (optind + 2 != argc || sim.n == 0 || sim.slots < 1)
		die("usage: sim_agents [-n HOSTS] [-f FIRST] [-s SLOTS] [-u SECONDS] ADDRESS KEY_FILE");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (hvd_join_address_parse(argv[optind], &sim.boot, &err) != 0 ||
	    hvd_key_read_file(argv[optind + 1], &sim.session.identity.key, &err) != 0)
		die(err.msg);
	memcpy(sim.session.id, sim.boot.session, sizeof(sim.session.id));
	sim.session.identity.kind = HVD_ID_KEY;
	hvd_session_bind_key(&sim.session);
	sim.base = event_base_new();
	run(&sim);
	return 0;
}
