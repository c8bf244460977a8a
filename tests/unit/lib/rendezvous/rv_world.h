/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_world.h - for tests: a server and its clients over real sockets on loopback, in one process. The client's side turns
 * the event loop, and lets the time of test_clock.h pass, while it waits.
 */
#ifndef HVD_TESTS_RV_WORLD_H
#define HVD_TESTS_RV_WORLD_H

#include "lib/base/deadline.h"
#include "lib/rendezvous/server.h"
#include "relay_conns.h"
#include "tests/unit/loopback.h"
#include "tests/unit/tcpstore_bytes.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

struct world {
	struct event_base *base;
	struct hvd_rv *rv;   /* to which clients connect */
	struct hvd_rv *root; /* the same, unless `relayed` */
	bool relayed;        /* clients connect to a relay */
	struct hvd_rv_config cfg;
	struct hvd_log log;
	char said[4096]; /* what was logged so far */
	int log_fd;
	struct hvd_rv_init_event joins[64];
	size_t n_joins;
	struct bytes out; /* tcpstore_world.h: to be sent next */
};

static inline void on_init_event(void *arg, const struct hvd_rv_init_event *join)
{
	struct world *w = arg;

	w->joins[w->n_joins++ % 64] = *join;
}

/* The initial state of the test says whether it is `relayed`. */
static inline struct world *make_world(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int fds[2];

	assert_non_null(w);
	w->relayed = *state && *(const bool *)*state;
	w->base = event_base_new();
	hvd_rv_config_init(&w->cfg);
	w->cfg.init_event = on_init_event;
	w->cfg.init_event_arg = w;
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	w->log = hvd_log_make("t", HVD_LOG_VERBOSE);
	w->log.fd = fds[1];
	w->log_fd = fds[0];
	*state = w;
	return w;
}

TEARDOWN(teardown, struct world, w)
{
	hvd_rv_destroy(w->rv);
	if (w->root != w->rv)
		hvd_rv_destroy(w->root);
	hvd_rv_access_destroy(w->cfg.access);
	event_base_free(w->base);
	close(w->log.fd);
	close(w->log_fd);
	free(w->out.p);
}

/* On the first of the two addresses, or on both. */
static inline void begin_at(struct world *w, size_t n)
{
	static const char *const ips[] = {"127.0.0.1", "::1"};
	struct hvd_err err;

	w->root = w->rv = hvd_rv_create(w->base, &w->cfg, &w->log, &err);
	assert_non_null(w->rv);
	if (w->relayed)
		w->rv = relay_of(w->root, w->base, &w->cfg, &w->log);
	assert_int_equal(hvd_rv_listen(w->rv, ips, n, 0, 0, &err), 0);
}

static inline void begin(struct world *w)
{
	begin_at(w, 1);
}

/* So much time passes, at least a millisecond, in a fraction of that. */
static inline void turn(struct world *w, double seconds)
{
	hvd_time until = hvd_deadline_in(seconds);

	do {
		usleep(20);
		test_clock_pass(w->base, 0.001);
	} while (hvd_left(until) > 0);
}

/* What was logged, all of it. */
static inline const char *said(struct world *w)
{
	struct pollfd p = {w->log_fd, POLLIN, 0};
	size_t n = strlen(w->said);

	if (poll(&p, 1, 0) > 0) {
		ssize_t got = read(w->log_fd, w->said + n, sizeof(w->said) - 1 - n);

		w->said[n + (got > 0 ? (size_t)got : 0)] = '\0';
	}
	return w->said;
}

static inline struct hvd_rv_stats stats(struct world *w)
{
	struct hvd_rv_stats s;
	uint64_t joined;

	hvd_rv_stats(w->root, &s);
	joined = s.tcpstore_joined;
	hvd_rv_stats(w->rv, &s);
	s.tcpstore_joined = joined; /* who has come is known at the root */
	return s;
}

static inline int dial(struct world *w)
{
	return dial_loopback(hvd_rv_port(w->rv));
}

#endif
