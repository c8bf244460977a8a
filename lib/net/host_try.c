/* SPDX-License-Identifier: Apache-2.0 */
#include "host_try.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct attempt {
	struct hvd_host_try *tries;
	int fd; /* -1: it has failed */
	struct event *writable;
};

struct hvd_host_try {
	struct attempt attempts[HVD_HOST_TRY_ADDRS];
	size_t n, failed;
	struct hvd_timer *timer;
	void (*done)(bool answered, void *arg);
	void *arg;
};

static void end_attempt(struct attempt *at)
{
	if (at->writable)
		event_free(at->writable);
	if (at->fd >= 0)
		close(at->fd);
	at->writable = NULL;
	at->fd = -1;
}

static void finish(struct hvd_host_try *tries, bool answered)
{
	for (size_t i = 0; i < tries->n; i++)
		end_attempt(&tries->attempts[i]);
	hvd_timer_stop(tries->timer);
	tries->done(answered, tries->arg);
}

static void on_result(struct attempt *at, int error)
{
	struct hvd_host_try *tries = at->tries;

	if (error == 0 || error == ECONNREFUSED) {
		finish(tries, true);
		return;
	}
	end_attempt(at);
	if (++tries->failed == tries->n)
		finish(tries, false);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	int error = 0;
	socklen_t len = sizeof(error);

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	on_result(arg, error);
}

static void on_timer(void *arg)
{
	finish(arg, false);
}

/* False: it has failed already. */
static bool start(struct attempt *at, struct event_base *base, const struct hvd_addr *addr, in_port_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(addr, port, &ss);

	at->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (at->fd < 0)
		return false;
	/* A result that is there at once makes the socket writable as well. */
	if (connect(at->fd, (const struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS && errno != ECONNREFUSED) {
		end_attempt(at);
		return false;
	}
	at->writable = event_new(base, at->fd, EV_WRITE, on_writable, at);
	event_add(at->writable, NULL);
	return true;
}

struct hvd_host_try *hvd_host_try_begin(struct event_base *base, const struct hvd_addr *addrs, size_t n, in_port_t port,
					int ms, void (*done)(bool answered, void *arg), void *arg)
{
	struct hvd_host_try *tries = hvd_xcalloc(1, sizeof(*tries));

	tries->done = done;
	tries->arg = arg;
	tries->timer = hvd_timer_new(base, on_timer, tries);
	for (size_t i = 0; i < n && tries->n < HVD_HOST_TRY_ADDRS; i++) {
		struct attempt *at = &tries->attempts[tries->n++];

		*at = (struct attempt){.tries = tries, .fd = -1};
		if (addrs[i].family == AF_UNSPEC || !start(at, base, &addrs[i], port))
			tries->failed++;
	}
	hvd_timer_in_ms(tries->timer, tries->failed < tries->n ? ms : 0);
	return tries;
}

void hvd_host_try_destroy(struct hvd_host_try *tries)
{
	if (!tries)
		return;
	for (size_t i = 0; i < tries->n; i++)
		end_attempt(&tries->attempts[i]);
	hvd_timer_free(tries->timer);
	free(tries);
}
