/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event stays registered: epoll reports a socket that still has connections in its queue again in the next turn of
 * the event loop, and other events are handled in between.
 */
#include "accept.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hvd_acceptor {
	struct hvd_acceptor_ops ops;
	void *arg;
	int fd;
	struct hvd_timer *resume;
	struct event *readable;
	bool paused;    /* by the owner, or because no descriptor is left */
	unsigned turns; /* on the stack: a callback may call hvd_acceptor_turn() */
	bool gone;      /* was destroyed during a turn, whose end frees it */
};

static void pause_for_a_while(struct hvd_acceptor *ac)
{
	hvd_acceptor_pause(ac);
	hvd_timer_in_ms(ac->resume, HVD_ACCEPT_PAUSE_MS);
}

/* accept4() has failed. True to try again. */
static bool not_accepted(struct hvd_acceptor *ac, int error)
{
	switch (error) {
	case EINTR:
	case ECONNABORTED: /* the client has closed the connection */
		return true;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		if (ac->ops.full && ac->ops.full(ac->arg))
			return true;
		if (!ac->gone && !ac->paused)
			pause_for_a_while(ac);
		return false;
	default: /* EAGAIN, or an error of the network: the next turn will try again */
		return false;
	}
}

void hvd_acceptor_turn(struct hvd_acceptor *ac)
{
	ac->turns++;
	for (int i = 0; i < HVD_ACCEPT_TURN && !ac->gone && !ac->paused; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t len = sizeof(peer);
		int fd;

		if (ac->ops.ready && !ac->ops.ready(ac->arg))
			break;
		if (ac->gone || ac->paused)
			break;
		fd = accept4(ac->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			ac->ops.accepted(ac->arg, fd, &peer);
		else if (!not_accepted(ac, errno))
			break;
	}
	if (--ac->turns == 0 && ac->gone)
		free(ac);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	hvd_acceptor_turn(arg);
}

static void on_resume(void *arg)
{
	hvd_acceptor_resume(arg);
}

struct hvd_acceptor *hvd_acceptor_create(struct event_base *base, int fd, const struct hvd_acceptor_ops *ops, void *arg,
					 struct hvd_err *err)
{
	struct hvd_acceptor *ac = hvd_xcalloc(1, sizeof(*ac));

	ac->ops = *ops;
	ac->arg = arg;
	ac->fd = fd;
	ac->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, ac);
	ac->resume = hvd_timer_new(base, on_resume, ac);
	if (ac->readable && event_add(ac->readable, NULL) == 0)
		return ac;
	ac->fd = -1;
	hvd_acceptor_destroy(ac);
	hvd_err_set(err, HVD_E_SYS, "cannot wait for connections");
	return NULL;
}

void hvd_acceptor_destroy(struct hvd_acceptor *ac)
{
	if (!ac)
		return;
	if (ac->readable)
		event_free(ac->readable);
	hvd_timer_free(ac->resume);
	if (ac->fd >= 0)
		close(ac->fd);
	ac->gone = true;
	if (ac->turns == 0)
		free(ac);
}

void hvd_acceptor_pause(struct hvd_acceptor *ac)
{
	event_del(ac->readable);
	hvd_timer_stop(ac->resume);
	ac->paused = true;
}

void hvd_acceptor_resume(struct hvd_acceptor *ac)
{
	if (!ac->paused)
		return;
	hvd_timer_stop(ac->resume);
	ac->paused = false;
	event_add(ac->readable, NULL);
}
