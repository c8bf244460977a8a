/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-rendezvous - the rendezvous server as a program of its own, for jobs that no launcher of this suite has started.
 *
 * It ends on SIGTERM and SIGINT, when the descriptor of --parent-fd is at its end, and after --idle-exit seconds
 * without a connection. Then it finishes the requests under way for STOP_TIME seconds at most.
 */
#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/timer.h"
#include "lib/process/rlimits.h"
#include "lib/rendezvous/server.h"
#include "rvoptions.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STOP_TIME 5.0

static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

struct program {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_log log;
	bool json;
	double idle_exit;
	uint64_t seen; /* connections that had been accepted at the last check for --idle-exit */
	hvd_time last_use;
	struct hvd_signal_watch *signals[N_SIGNALS];
	struct event *parent;    /* NULL without --parent-fd */
	struct hvd_timer *idler; /* NULL without --idle-exit */
};

/* Errors of the output are ignored: the server goes on when nobody reads it any longer. */
static void print_json(json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);

	json_decref(line);
	if (text) {
		printf("%s\n", text);
		fflush(stdout);
	}
	free(text);
}

static void addr_text(const struct sockaddr_storage *ss, char host[NI_MAXHOST])
{
	if (getnameinfo((const struct sockaddr *)ss, sizeof(*ss), host, NI_MAXHOST, NULL, 0, NI_NUMERICHOST) != 0)
		strcpy(host, "?");
}

static void print_start(const struct program *p)
{
	json_t *addresses = json_array();
	struct sockaddr_storage ss;
	char host[NI_MAXHOST];
	unsigned port = hvd_rv_port(p->rv);

	for (size_t i = 0; hvd_rv_listener(p->rv, i, &ss) == 0; i++) {
		addr_text(&ss, host);
		if (p->json)
			json_array_append_new(addresses, json_string(host));
		else
			printf(strchr(host, ':') ? "listening on [%s]:%u\n" : "listening on %s:%u\n", host, port);
	}
	fflush(stdout);
	if (p->json)
		print_json(json_pack("{s:s, s:i, s:O, s:i}", "event", "listening", "pid", (int)getpid(), "addresses",
				     addresses, "port", (int)port));
	json_decref(addresses);
}

static void print_stats(const struct program *p)
{
	struct hvd_rv_stats s;

	hvd_rv_stats(p->rv, &s);
	if (!p->json) {
		printf("%llu requests on %llu connections: %llu GET, %llu PUT, %llu DELETE; %llu found, %llu not, %llu "
		       "errors; %llu waited\n",
		       (unsigned long long)s.requests, (unsigned long long)s.connections, (unsigned long long)s.gets,
		       (unsigned long long)s.puts, (unsigned long long)s.deletes, (unsigned long long)s.ok,
		       (unsigned long long)s.not_found, (unsigned long long)s.errors, (unsigned long long)s.waited);
		fflush(stdout);
		return;
	}
#define I(name, value) #name, (json_int_t)(value)
	print_json(json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"event", "statistics", I(connections, s.connections), I(requests, s.requests), I(gets, s.gets),
		I(puts, s.puts), I(deletes, s.deletes), I(ok, s.ok), I(not_found, s.not_found), I(errors, s.errors),
		I(held, s.waited), I(refused_address, s.refused_address), I(refused_user, s.refused_user),
		I(refused_malformed, s.refused_malformed), I(refused_size, s.refused_size),
		I(refused_room, s.refused_room), I(timeouts, s.timeouts), I(hold_limit, s.wait_limit),
		I(paused, s.paused), I(bytes_in, s.bytes_in), I(bytes_out, s.bytes_out),
		I(connections_now, s.conns_now), I(connections_peak, s.conns_peak), I(held_peak, s.waiting_peak),
		I(stored_bytes, s.store.bytes), I(stored_bytes_peak, s.store.bytes_peak), I(stored_keys, s.store.keys),
		I(stored_scopes, s.store.scopes), I(tcpstore_requests, s.tcpstore_requests),
		I(tcpstore_joined, s.tcpstore_joined), I(tcpstore_old, s.tcpstore_old), I(tcpstore_now, s.tcpstore_now),
		I(tcpstore_peak, s.tcpstore_peak)));
#undef I
}

static void on_stopped(void *arg)
{
	struct program *p = arg;

	event_base_loopbreak(p->base);
}

static void stop(struct program *p, const char *why)
{
	hvd_verbose(&p->log, "ending: %s", why);
	hvd_rv_stop(p->rv, STOP_TIME, on_stopped, p);
}

static void on_signal(int sig, void *arg)
{
	if (sig == SIGUSR1)
		print_stats(arg);
	else
		stop(arg, sig == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void on_parent(evutil_socket_t fd, short what, void *arg)
{
	char buf[256];
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		stop(arg, "the parent has ended");
}

static void on_idle_look(void *arg)
{
	struct program *p = arg;
	struct hvd_rv_stats s;

	hvd_rv_stats(p->rv, &s);
	if (s.connections != p->seen || s.conns_now > 0) {
		p->seen = s.connections;
		p->last_use = hvd_now();
	} else if (hvd_now() - p->last_use >= (hvd_time)(p->idle_exit * 1e9)) {
		stop(p, "no connection for the time of --idle-exit");
	}
}

static int add_events(struct program *p, const struct hvd_rvoptions *o, struct hvd_err *err)
{
	for (size_t i = 0; i < N_SIGNALS; i++)
		p->signals[i] = hvd_signal_watch(p->base, signals[i], on_signal, p);
	if (o->parent_fd >= 0) {
		/* The flags of a descriptor belong to all of its copies, in other processes, too. So the descriptor
		 * stays blocking, and is read only when it is readable. Registering a regular file fails. */
		p->parent = event_new(p->base, o->parent_fd, EV_READ | EV_PERSIST, on_parent, p);
		if (!p->parent || event_add(p->parent, NULL) != 0)
			return hvd_err_set(err, HVD_E_USAGE, "descriptor %d of --parent-fd is not a pipe or socket",
					   o->parent_fd);
	}
	p->last_use = hvd_now();
	if (o->idle_exit > 0) {
		p->idler = hvd_timer_new(p->base, on_idle_look, p);
		hvd_timer_every_ms(p->idler, o->idle_exit < 2 ? (int64_t)(o->idle_exit * 250) : 500);
	}
	return 0;
}

static int set_access(struct hvd_rv_access *ac, const struct hvd_rvoptions *o, struct hvd_err *err)
{
	hvd_rv_access_any_user(ac, o->any_user);
	for (size_t i = 0; i < o->allows.n; i++)
		if (hvd_rv_access_allow(ac, o->allows.v[i], err) != 0)
			return -1;
	return 0;
}

static int set_scopes(struct hvd_rv *rv, struct hvd_rvoptions *o, struct hvd_err *err)
{
	for (size_t i = 0; i < o->scopes.n; i++) {
		char *eq = strrchr(o->scopes.v[i], '=');
		int rc;

		*eq = '\0';
		rc = hvd_rv_scope_size(rv, o->scopes.v[i], (size_t)strtoull(eq + 1, NULL, 10), err);
		*eq = '=';
		if (rc != 0)
			return -1;
	}
	return 0;
}

static int run(struct program *p, struct hvd_rvoptions *o, struct hvd_err *err)
{
	p->base = event_base_new();
	if (!p->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	p->rv = hvd_rv_create(p->base, &o->cfg, &p->log, err);
	if (!p->rv || set_scopes(p->rv, o, err) != 0 || add_events(p, o, err) != 0 ||
	    hvd_rv_listen(p->rv, (const char *const *)o->binds.v, o->binds.n, o->port.lo, o->port.hi, err) != 0)
		return -1;
	hvd_rv_tcpstore_ranks(p->rv, o->ranks);
	print_start(p);
	event_base_dispatch(p->base);
	print_stats(p);
	return 0;
}

int main(int argc, char **argv)
{
	struct hvd_rvoptions o;
	struct program p = {.log = hvd_log_make("hvd-rendezvous", HVD_LOG_INFO)};
	struct hvd_err err = {0};
	int rc;

	hvd_rvoptions_init(&o);
	rc = hvd_rvoptions_parse(&o, argc, argv, &err);
	if (rc < 0 && !err.hint[0])
		hvd_err_hint(&err, "See hvd-rendezvous --help.");
	if (rc == 0) {
		signal(SIGPIPE, SIG_IGN);
		hvd_raise_nofile();
		p.log.level = o.verbose > 1 ? HVD_LOG_DEBUG : o.verbose ? HVD_LOG_VERBOSE : HVD_LOG_INFO;
		p.json = o.json;
		p.idle_exit = o.idle_exit;
		o.cfg.access = hvd_rv_access_create();
		rc = set_access(o.cfg.access, &o, &err);
		if (rc == 0)
			rc = run(&p, &o, &err);
	}
	if (rc < 0)
		hvd_log_err(&p.log, &err);
	for (size_t i = 0; i < N_SIGNALS; i++)
		hvd_signal_unwatch(p.signals[i]);
	if (p.parent)
		event_free(p.parent);
	hvd_timer_free(p.idler);
	hvd_rv_destroy(p.rv);
	hvd_rv_access_destroy(o.cfg.access);
	if (p.base)
		event_base_free(p.base);
	hvd_rvoptions_free(&o);
	return rc < 0 ? hvd_err_status(&err) : 0;
}
