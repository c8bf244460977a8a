/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_servers.h - a root and relays as processes of their own, which report what they have used.
 */
#ifndef HVD_BENCH_RELAY_SERVERS_H
#define HVD_BENCH_RELAY_SERVERS_H

#include "lib/process/rlimits.h"
#include "tests/unit/relay_node.h"

#include <linux/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
	double cpu;
	uint64_t in, out, connections;
	long kilobytes;
	int error;
	in_port_t port, relay_port;
};

/* A server in a process of its own. */
struct server {
	struct report *report; /* which both processes see */
	pid_t pid;
	int control; /* a byte asks for a report, and comes back; the end ends the process */
};

struct served {
	struct relay_node node;
	struct report *report;
	int control;
};

/* What went through connections to relays and to a parent, which are open as long as the server; `clients` is the port
 * of the others. */
static inline void count_relays(struct report *r, in_port_t clients)
{
	for (int fd = 3; fd < (int)hvd_nofile(); fd++) {
		struct tcp_info info;
		struct sockaddr_in here;
		socklen_t len = sizeof(info), here_len = sizeof(here);

		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || info.tcpi_state != 1 ||
		    getsockname(fd, (struct sockaddr *)&here, &here_len) != 0 || ntohs(here.sin_port) == clients)
			continue;
		r->in += info.tcpi_bytes_received;
		r->out += info.tcpi_bytes_acked;
		r->connections++;
	}
}

static inline void on_control(evutil_socket_t fd, short what, void *arg)
{
	struct served *s = arg;
	struct hvd_rv_stats stats;
	struct rusage ru;
	char byte;

	(void)what;
	if (read(fd, &byte, 1) != 1)
		_exit(0);
	getrusage(RUSAGE_SELF, &ru);
	hvd_rv_stats(s->node.rv, &stats);
	s->report->cpu = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
			 (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	s->report->kilobytes = ru.ru_maxrss;
	s->report->in = stats.bytes_in;
	s->report->out = stats.bytes_out;
	s->report->connections = stats.connections;
	count_relays(s->report, s->node.port);
	if (write(fd, &byte, 1) != 1)
		_exit(1);
}

static inline void serve(struct served *s, uint32_t relay_id, in_port_t parent, int ranks)
{
	struct hvd_rv_config cfg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	s->node.base = event_base_new();
	hvd_rv_config_init(&cfg);
	cfg.relay = relay_id > 0;
	cfg.relay_id = relay_id;
	hvd_addr_parse("127.0.0.1", &cfg.relay_addr);
	cfg.store.total_max = (size_t)16 << 30;
	if (relay_node_start(&s->node, &cfg, NULL) != 0 || relay_node_open(&s->node, 4096) != 0 ||
	    (!cfg.relay && hvd_rv_scope_size(s->node.rv, "global", (size_t)ranks, &s->node.err) != 0)) {
		fprintf(stderr, "relay_mesh: %s\n", s->node.err.msg);
		_exit(1);
	}
	if (cfg.relay)
		relay_node_connect(&s->node, parent, 60);
	/* Relays that connect before there is a parent are not passed on to it: an agent's relay takes them later. */
	while (cfg.relay && s->node.ups == 0)
		event_base_loop(s->node.base, EVLOOP_ONCE);
	event_add(event_new(s->node.base, s->control, EV_READ | EV_PERSIST, on_control, s), NULL);
	s->report->port = s->node.port;
	s->report->relay_port = s->node.relay_port;
	if (write(s->control, "", 1) != 1)
		_exit(1);
	event_base_dispatch(s->node.base);
	_exit(1);
}

static inline void server_die(const char *what)
{
	perror(what);
	exit(1);
}

static inline void start_server(struct server *s, uint32_t relay_id, in_port_t parent, int ranks)
{
	int fds[2];
	char byte;

	s->report = mmap(NULL, sizeof(*s->report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->report == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		server_die("start");
	s->control = fds[0];
	s->pid = fork();
	if (s->pid < 0)
		server_die("fork");
	if (s->pid == 0) {
		struct served served = {.report = s->report, .control = fds[1]};

		close(fds[0]);
		serve(&served, relay_id, parent, ranks);
	}
	close(fds[1]);
	if (read(s->control, &byte, 1) != 1)
		server_die("a server does not start");
}

/* What the server has used since it began. */
static inline const struct report *ask_server(struct server *s)
{
	char byte = 'r';

	if (write(s->control, &byte, 1) != 1 || read(s->control, &byte, 1) != 1)
		server_die("a server has ended");
	return s->report;
}

/* Print what it has used. One that was not started is fine. */
static inline void show_server(struct server *s, const char *name)
{
	const struct report *r = s->report;

	if (!r)
		return;
	ask_server(s);
	printf("  %-14s %8.2f s of a processor, %8llu connections, %8.1f MB in, %9.1f MB out, %6.0f MB of memory\n",
	       name, r->cpu, (unsigned long long)r->connections, (double)r->in / 1e6, (double)r->out / 1e6,
	       (double)r->kilobytes / 1024);
}

static inline void end_server(struct server *s)
{
	if (!s->report)
		return;
	close(s->control);
	kill(s->pid, SIGKILL); /* other servers may have the other end */
	waitpid(s->pid, NULL, 0);
}

#endif
