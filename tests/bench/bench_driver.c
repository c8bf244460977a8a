/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_driver - how the driver scales: register, probe and plan for simulated hosts.
 *
 *   bench_driver [HOSTS…]     default: 10 100 500 1000 2000
 *
 * One process is the real driver; another plays all node agents over loopback,
 * who come at once, each with its own connection and handshake (link.h), three interfaces (two networks
 * and one docker0), and a probe report in which everything went well. Printed
 * per number of hosts: the time from the first connection until every host has
 * its plan, the driver's CPU time, and its memory: the growth of its peak
 * resident size over that of a launch with one host.
 */
#include "launcher/driver/driver.h"
#include "lib/base/xalloc.h"
#include "lib/job/network.h"
#include "lib/job/node.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"
#include "task/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT 120.0

struct sim {
	struct event_base *base;
	struct hvd_session session;
	uint32_t n, planned;
	struct hvd_boot boot;
};

struct agent {
	struct sim *sim;
	uint32_t index;
	struct hvd_link *link;
	struct hvd_conn *conn;
};

static void set_iface(struct hvd_node_iface *iface, const char *name, int64_t ranking, const char *fmt, uint32_t i)
{
	char text[HVD_ADDR_TEXT];

	snprintf(iface->name, sizeof(iface->name), "%s", name);
	iface->kind = HVD_IFACE_ETHERNET;
	iface->numa = -1;
	iface->speed = 1000;
	iface->ranking = ranking;
	iface->n_addrs = 1;
	iface->addrs = hvd_xcalloc(1, sizeof(*iface->addrs));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof(text), fmt, i / 250, i % 250 + 1);
#pragma GCC diagnostic pop
	if (hvd_addr_parse(text, &iface->addrs[0]) != 0)
		abort();
}

static void send_register(struct agent *ag)
{
	struct hvd_node node = {.n_ranks = 1, .port = 1, .n_ifaces = 3};
	json_t *msg;

	node.name = hvd_xasprintf("node%04u", ag->index);
	node.host = hvd_xstrdup(node.name);
	snprintf(node.machine, sizeof(node.machine), "%032u", ag->index);
	node.ranks = hvd_xcalloc(1, sizeof(*node.ranks));
	node.ranks[0] = ag->index;
	node.ifaces = hvd_xcalloc(3, sizeof(*node.ifaces));
	set_iface(&node.ifaces[0], "ib0", 10, "10.1.%u.%u", ag->index);
	set_iface(&node.ifaces[1], "eth0", 20, "10.2.%u.%u", ag->index);
	set_iface(&node.ifaces[2], "docker0", 90, "172.17.0.1", ag->index);
	msg = hvd_node_to_json(&node, ag->index, ag->sim->n, ag->sim->n);
	hvd_conn_send(ag->conn, msg);
	hvd_node_clear(&node);
}

static void send_report(struct agent *ag, const json_t *order)
{
	json_t *edges = json_array(), *endpoints = json_array(), *target;
	size_t i;

	json_array_foreach(json_object_get(order, "targets"), i, target)
	{
		json_int_t to = json_integer_value(json_object_get(target, "n"));

		for (int a = 0; a < 3; a++)
			json_array_append_new(edges,
					      json_pack("[Iiiii]", to, a, a,
							a == 2 ? HVD_REACH_DUPLICATE : HVD_REACH_OK, a == 2 ? 0 : 100));
	}
	for (i = 0; i < json_array_size(json_object_get(order, "rendezvous")); i++)
		json_array_append_new(endpoints, json_pack("[iii]", (int)i, HVD_REACH_OK, 100));
	hvd_conn_send(ag->conn, json_pack("{s:s, s:o, s:o}", "t", "report", "edges", edges, "rendezvous", endpoints));
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
		send_report(ag, msg);
	else if (strcmp(type, "plan") == 0 && ++ag->sim->planned == ag->sim->n)
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
	send_register(ag);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)arg;
	fprintf(stderr, "bench_driver: %s\n", why->msg);
	exit(1);
}

/* ---- the driver's process ---- */

static void on_failed(const struct hvd_err *why, void *arg)
{
	(void)arg;
	fprintf(stderr, "bench_driver: %s: %s\n", why->host, why->msg);
	exit(1);
}

static void on_parent(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

static void run_driver(uint32_t n, const struct hvd_session *session, int to_parent, int from_parent)
{
	static const struct hvd_driver_ops ops = {.failed = on_failed};
	const struct hvd_launch_spec spec = {.frameworks = HVD_FW_AUTO, .deadlines = {.start = TIMEOUT}};
	struct hvd_driver_opts opts = {
		.spec = &spec, .rendezvous_here = true, .hosts = n, .ranks = n, .id_text = "fd:3"};
	struct hvd_log log = hvd_log_make("bench_driver", HVD_LOG_WARN);
	struct event_base *base = event_base_new();
	struct hvd_session own = *session;
	struct hvd_err err = {0};
	struct hvd_driver *driver = hvd_driver_create(base, &opts, &own, &ops, NULL, &log, &err);
	struct event *end = event_new(base, from_parent, EV_READ, on_parent, base);
	struct hvd_boot boot;

	if (!driver) {
		fprintf(stderr, "bench_driver: %s\n", err.msg);
		exit(1);
	}
	hvd_driver_boot(driver, &boot);
	if (write(to_parent, &boot.port, sizeof(boot.port)) != sizeof(boot.port))
		exit(1);
	event_add(end, NULL);
	event_base_dispatch(base);
	_exit(0);
}

struct figures {
	double seconds, cpu;
	long rss_kib;
};

static struct figures run(uint32_t n)
{
	struct hvd_identity identity = {.kind = HVD_ID_KEY};
	struct sim sim = {.n = n};
	struct agent *agents = hvd_xcalloc(n, sizeof(*agents));
	struct figures out = {0};
	struct rusage ru;
	int up[2], down[2], status;
	hvd_time began;
	pid_t pid;

	if (hvd_session_create(&sim.session, &identity, NULL) != 0 || pipe(up) != 0 || pipe(down) != 0)
		exit(1);
	pid = fork();
	if (pid == 0) {
		close(down[1]);
		run_driver(n, &sim.session, up[1], down[0]);
	}
	if (pid < 0 || read(up[0], &sim.boot.port, sizeof(sim.boot.port)) != sizeof(sim.boot.port))
		exit(1);
	sim.base = event_base_new();
	hvd_addr_parse("127.0.0.1", &sim.boot.addrs[0]);
	sim.boot.n_addrs = 1;
	began = hvd_now();
	for (uint32_t i = 0; i < n; i++) {
		agents[i].sim = &sim;
		agents[i].index = i;
		agents[i].link = hvd_link_create(sim.base, &sim.boot, &sim.session, hvd_deadline_in(TIMEOUT), on_up,
						 on_down, &agents[i]);
	}
	event_base_dispatch(sim.base);
	out.seconds = (double)(hvd_now() - began) / 1e9;
	close(down[1]);
	if (wait4(pid, &status, 0, &ru) != pid || status != 0)
		exit(1);
	out.cpu = (double)ru.ru_utime.tv_sec + (double)ru.ru_stime.tv_sec +
		  (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	out.rss_kib = ru.ru_maxrss;
	for (uint32_t i = 0; i < n; i++) {
		hvd_link_destroy(agents[i].link);
		hvd_conn_free(agents[i].conn);
	}
	event_base_free(sim.base);
	free(agents);
	close(up[0]);
	close(up[1]);
	close(down[0]);
	return out;
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {"10", "100", "500", "1000", "2000"};
	struct rlimit files;
	struct figures one = run(1);

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	printf("%8s %12s %14s %14s %16s\n", "hosts", "seconds", "ms per host", "driver CPU s", "bytes per host");
	for (int i = 0; i < (argc > 1 ? argc - 1 : 5); i++) {
		uint32_t n = (uint32_t)atoi(argc > 1 ? argv[i + 1] : usual[i]);
		struct figures f = run(n);

		printf("%8u %12.3f %14.3f %14.3f %16.0f\n", n, f.seconds, f.seconds * 1e3 / n, f.cpu,
		       (double)(f.rss_kib - one.rss_kib) * 1024 / n);
		fflush(stdout);
	}
	return 0;
}
