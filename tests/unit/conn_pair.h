/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_pair.h - for tests of connections: two ends of a real socket pair, in an event loop that always ends. A watchdog
 * of ten seconds breaks it, and then the test fails.
 */
#ifndef CONN_PAIR_H
#define CONN_PAIR_H

#include "lib/protocol/conn.h"
#include "unit.h"

#include <sys/socket.h>

static struct event_base *base;
static struct event *watchdog;
static bool too_long;
static int fds[2], fds_before;

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	too_long = true;
	event_base_loopbreak(base);
}

static inline int open_pair(void **state)
{
	struct timeval tv = {.tv_sec = 10};

	fds_before = open_fds();
	too_long = false;
	base = event_base_new();
	watchdog = evtimer_new(base, on_watchdog, NULL);
	evtimer_add(watchdog, &tv);
	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static inline int close_pair(void **state)
{
	event_free(watchdog);
	event_base_free(base);
	if (open_fds() != fds_before)
		print_error("%d descriptors are open, %d were\n", open_fds(), fds_before);
	return open_fds() == fds_before ? 0 : -1;
}

static inline void run(void)
{
	event_base_dispatch(base);
	assert_false(too_long);
}

static inline json_t *number(int n)
{
	return json_pack("{s:i}", "n", n);
}

#endif
