/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_driver - how the driver scales: register, probe and plan for simulated hosts.
 *
 *   bench_driver [-r RANKS] [-m SOCKET] [HOSTS…]     default: 1 rank on each host; 10 100 500 1000 2000 hosts
 *
 * One process is the real driver; another plays all node agents over loopback, who come at once, each with its own
 * connection and handshake (agent/dial.h). Both are new processes for each number of hosts. Printed is the time from
 * the first connection until every host has the plans of its ranks, the driver's CPU time, and for each host: the
 * driver's memory (the growth of its peak resident size), and the bytes that it has sent and received.
 */
#include "agent/dial.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"
#include "sim_host.h"
#include "tests/unit/static_job.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT 300.0
/* Agents connect to so many addresses of loopback: from one address to one port there are 28,000 connections at
 * most. */
#define LOOPBACKS 8

struct sim {
	struct event_base *base;
	struct hvd_session session;
	uint32_t n, ranks, planned;
	struct hvd_boot boot[LOOPBACKS];
	uint64_t received, sent; /* bytes, of all agents */
};

struct agent {
	struct sim *sim;
	uint32_t index;
	struct hvd_dial *link;
	struct hvd_conn *conn;
};

static void count_bytes(struct agent *ag)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(hvd_conn_fd(ag->conn), IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return;
	ag->sim->received += info.tcpi_bytes_received;
	ag->sim->sent += info.tcpi_bytes_acked;
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct agent *ag = arg;
	struct hvd_err err = {0};
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, &err) != 0)
		exit(1);
	if (strcmp(type, "probe") == 0)
		hvd_conn_send(ag->conn, sim_report(msg));
	if (strcmp(type, "plan") != 0)
		return;
	count_bytes(ag);
	if (++ag->sim->planned == ag->sim->n)
		event_base_loopbreak(ag->sim->base);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct agent *ag = arg;

	(void)why;
	hvd_conn_free(conn);
	ag->conn = NULL;
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct agent *ag = arg;

	ag->conn = conn;
	hvd_conn_set_ops(conn, &ops, ag);
	hvd_conn_send(conn, sim_registration(ag->index, ag->sim->n, ag->sim->ranks));
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)arg;
	fprintf(stderr, "bench_driver: %s\n", why->msg);
	exit(1);
}

/* ---- the driver's process ---- */

/* A start that fails is logged as an error. */
static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "bench_driver: %s\n", text);
	if (level == HVD_LOG_ERROR)
		exit(1);
}

static void on_parent(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

static void run_driver(uint32_t n, uint32_t ranks, const struct hvd_session *session, int to_parent, int from_parent)
{
	const struct hvd_launch_spec spec = {
		.frameworks = HVD_FW_AUTO, .relay_fan_out = HVD_RELAY_FAN_OUT, .deadlines = {.start = TIMEOUT}};
	struct hvd_driver_opts opts = {.spec = &spec, .hosts = n, .ranks = n * ranks, .id_text = "fd:3"};
	struct hvd_log log = hvd_log_make("bench_driver", HVD_LOG_WARN);
	struct event_base *base = event_base_new();
	struct hvd_session own = *session;
	long peak = sim_peak_kib();
	struct hvd_err err = {0};
	struct event *end = event_new(base, from_parent, EV_READ, on_parent, base);
	struct static_job job;

	log.sink = on_log;
	if (static_job_create(&job, base, &opts, &own, &log, &err) != 0) {
		fprintf(stderr, "bench_driver: %s; %s\n", err.msg, err.hint);
		_exit(1);
	}
	if (write(to_parent, &job.boot.port, sizeof(job.boot.port)) != sizeof(job.boot.port))
		_exit(1);
	event_add(end, NULL);
	event_base_dispatch(base);
	peak = sim_peak_kib() - peak;
	_exit(write(to_parent, &peak, sizeof(peak)) == sizeof(peak) ? 0 : 1);
}

struct figures {
	double seconds, cpu, received, sent;
	long kib;
};

static void connect_all(struct sim *sim, struct agent *agents)
{
	char text[HVD_ADDR_TEXT];

	for (uint32_t i = 0; i < LOOPBACKS; i++) {
		sim->boot[i].port = sim->boot[0].port;
		snprintf(text, sizeof(text), "127.0.0.%u", i + 1);
		hvd_addr_parse(text, &sim->boot[i].addrs[0]);
		sim->boot[i].n_addrs = 1;
	}
	for (uint32_t i = 0; i < sim->n; i++) {
		agents[i].sim = sim;
		agents[i].index = i;
		agents[i].link = hvd_dial_create(sim->base, &sim->boot[i % LOOPBACKS], &sim->session,
						 hvd_deadline_in(TIMEOUT), on_up, on_down, &agents[i]);
	}
}

static struct figures run(uint32_t n, uint32_t ranks, const char *munge)
{
	struct hvd_identity identity = {.kind = munge ? HVD_ID_MUNGE : HVD_ID_KEY, .munge_socket = munge};
	struct sim sim = {.n = n, .ranks = ranks};
	struct figures out = {0};
	struct agent *agents;
	struct rusage ru;
	int up[2], down[2], status;
	hvd_time began;
	pid_t pid;

	if (hvd_session_create(&sim.session, &identity, NULL) != 0 || pipe(up) != 0 || pipe(down) != 0)
		exit(1);
	pid = fork();
	if (pid == 0) {
		close(down[1]);
		run_driver(n, ranks, &sim.session, up[1], down[0]);
	}
	close(up[1]);
	if (pid < 0 || read(up[0], &sim.boot[0].port, sizeof(sim.boot[0].port)) != sizeof(sim.boot[0].port))
		exit(1);
	agents = hvd_xcalloc(n, sizeof(*agents));
	sim.base = event_base_new();
	began = hvd_now();
	connect_all(&sim, agents);
	event_base_dispatch(sim.base);
	out.seconds = (double)(hvd_now() - began) / 1e9;
	close(down[1]);
	if (read(up[0], &out.kib, sizeof(out.kib)) != sizeof(out.kib) || wait4(pid, &status, 0, &ru) != pid ||
	    status != 0)
		exit(1);
	out.cpu = (double)ru.ru_utime.tv_sec + (double)ru.ru_stime.tv_sec +
		  (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	out.received = (double)sim.sent;
	out.sent = (double)sim.received;
	return out;
}

/* Run in a new process, which ends with it. */
static void measure(uint32_t n, uint32_t ranks, const char *munge)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct figures f = run(n, ranks, munge);

		printf("%8u %10.3f %12.3f %12.3f %14.0f %12.0f %12.0f\n", n, f.seconds, f.cpu, f.cpu * 1e3 / n,
		       (double)f.kib * 1024 / n, f.sent / n, f.received / n);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		exit(1);
}

/* Two processes have a connection for each host. Root may raise its hard limit. */
static void raise_files(rlim_t want)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	if (files.rlim_max < want && geteuid() == 0)
		files.rlim_max = want;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {"10", "100", "500", "1000", "2000", NULL};
	const char *const *hosts = usual;
	const char *munge = NULL;
	uint32_t ranks = 1;
	int opt;

	while ((opt = getopt(argc, argv, "r:m:")) != -1) {
		if (opt == 'r')
			ranks = (uint32_t)atoi(optarg);
		else if (opt == 'm')
			munge = optarg;
		else
			return 2;
	}
	if (optind < argc)
		hosts = (const char *const *)argv + optind;
	raise_files(65536);
	printf("%8s %10s %12s %12s %14s %12s %12s\n", "hosts", "seconds", "CPU s", "CPU ms/host", "memory/host",
	       "sent/host", "got/host");
	fflush(stdout);
	for (; *hosts; hosts++)
		measure((uint32_t)atoi(*hosts), ranks, munge);
	return 0;
}
