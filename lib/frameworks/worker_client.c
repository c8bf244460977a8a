/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_client.c - one notification: up to one connection for each of the worker's addresses.
 *
 * Horovod's driver pings a worker before it notifies it. That is not needed here: an acknowledgement with a valid
 * signature proves the same, one round trip earlier. When an address does not answer within PATIENCE the next one is
 * tried in addition. If two requests arrive, the second does nothing, since it has the same timestamp. A connection
 * that was made is never closed without a request, since that would leave a traceback on the worker's stderr.
 */
#include "worker_client.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "worker_message.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that an address has for its answer before the next one is tried too. */
#define PATIENCE 0.25

struct attempt {
	struct hvd_notify *owner;
	struct bufferevent *bev; /* NULL: the attempt has not begun, or has failed */
	bool connected;
};

struct hvd_notify {
	struct event_base *base;
	struct hvd_worker_addrs to;
	struct attempt *attempts; /* one for each address */
	size_t begun, open;       /* attempts that have begun; of these, those that have not failed */
	unsigned char frame[HVD_MESSAGE_MAX_FRAME];
	size_t frame_len;
	struct hvd_timer *next;     /* begins the next attempt */
	struct hvd_timer *deadline; /* gives up */
	struct hvd_err why;         /* the failure that tells most so far */
	hvd_notify_done *done;
	void *arg;
};

static void destroy(struct hvd_notify *n)
{
	for (size_t i = 0; i < n->begun; i++)
		if (n->attempts[i].bev)
			bufferevent_free(n->attempts[i].bev);
	hvd_timer_free(n->next);
	hvd_timer_free(n->deadline);
	free(n->attempts);
	hvd_worker_addrs_clear(&n->to);
	free(n);
}

static void finish(struct hvd_notify *n, const struct hvd_err *why)
{
	const struct hvd_err copy = *why;
	hvd_notify_done *done = n->done;
	void *arg = n->arg;

	destroy(n);
	done(&copy, arg);
}

static const struct hvd_worker_addr *address(const struct attempt *a)
{
	return &a->owner->to.v[a - a->owner->attempts];
}

/* An attempt has failed. Remember the reason, unless a more informative one is known than that an address cannot be
 * reached, and go on with the next address. */
static void failed(struct attempt *a, struct hvd_err *why)
{
	struct hvd_notify *n = a->owner;
	char text[HVD_ADDR_TEXT];

	hvd_err_prefix(why, "the worker at %s port %u", hvd_addr_text(&address(a)->addr, text),
		       (unsigned)address(a)->port);
	if (n->why.code == HVD_OK || n->why.code == HVD_E_NET)
		n->why = *why;
	bufferevent_free(a->bev);
	a->bev = NULL;
	n->open--;
	if (n->begun < n->to.n)
		hvd_timer_soon(n->next);
	else if (n->open == 0)
		finish(n, &n->why);
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct attempt *a = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t have = evbuffer_get_length(in), len;
	struct hvd_message msg;
	struct hvd_err why = {0};
	const unsigned char *bytes;

	if (have < HVD_MESSAGE_HEAD)
		return;
	bytes = evbuffer_pullup(in, -1);
	if (hvd_message_length(bytes, &len, &why) == 0) {
		if (have < len)
			return;
		if (hvd_message_read(&a->owner->to.key, bytes, len, &msg, &why) == 0) {
			if (msg.kind == HVD_MESSAGE_ACK) {
				finish(a->owner, &why);
				return;
			}
			hvd_err_set(&why, HVD_E_PROTO, "its answer is not an acknowledgement");
		}
	}
	failed(a, &why);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct attempt *a = arg;
	struct hvd_err why = {0};
	int error = EVUTIL_SOCKET_ERROR();

	if (what & BEV_EVENT_CONNECTED) {
		a->connected = true;
		bufferevent_write(bev, a->owner->frame, a->owner->frame_len);
		bufferevent_enable(bev, EV_READ | EV_WRITE);
		return;
	}
	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	if (a->connected)
		hvd_err_set(&why, HVD_E_PROTO, "it closed the connection without an answer%s%s",
			    what & BEV_EVENT_ERROR ? ": " : "",
			    what & BEV_EVENT_ERROR ? evutil_socket_error_to_string(error) : "");
	else
		hvd_err_set(&why, HVD_E_NET, "it cannot be reached: %s", evutil_socket_error_to_string(error));
	failed(a, &why);
}

static void begin_next(void *arg)
{
	struct hvd_notify *n = arg;
	struct attempt *a = &n->attempts[n->begun];
	struct sockaddr_storage ss;
	struct hvd_err why = {0};
	socklen_t len;

	if (n->begun == n->to.n)
		return;
	len = hvd_addr_to_sockaddr(&n->to.v[n->begun].addr, n->to.v[n->begun].port, &ss);
	n->begun++;
	n->open++;
	if (n->begun < n->to.n)
		hvd_timer_at(n->next, hvd_deadline_in(PATIENCE));
	a->owner = n;
	a->bev = bufferevent_socket_new(n->base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	bufferevent_setcb(a->bev, on_read, NULL, on_event, a);
	if (bufferevent_socket_connect(a->bev, (struct sockaddr *)&ss, (int)len) == 0)
		return;
	hvd_err_set(&why, HVD_E_NET, "it cannot be reached: %s", evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
	failed(a, &why);
}

static void on_deadline(void *arg)
{
	struct hvd_notify *n = arg;
	struct hvd_err why = {0};
	char text[HVD_ADDR_TEXT];

	hvd_err_set(&why, HVD_E_TIMEOUT, "the worker at %s port %u did not answer in time",
		    hvd_addr_text(&n->to.v[0].addr, text), (unsigned)n->to.v[0].port);
	finish(n, &why);
}

struct hvd_notify *hvd_notify_send(struct event_base *base, const struct hvd_worker_addrs *to, int64_t timestamp,
				   enum hvd_hosts_change change, hvd_time deadline, hvd_notify_done *done, void *arg)
{
	const struct hvd_message msg = {HVD_MESSAGE_HOSTS_UPDATED, timestamp, change, NULL};
	struct hvd_notify *n = hvd_xcalloc(1, sizeof(*n));

	n->base = base;
	n->to = *to;
	n->to.v = hvd_xcalloc(to->n, sizeof(*to->v));
	memcpy(n->to.v, to->v, to->n * sizeof(*to->v));
	n->attempts = hvd_xcalloc(to->n, sizeof(*n->attempts));
	n->frame_len = hvd_message_frame(&to->key, &msg, n->frame);
	n->done = done;
	n->arg = arg;
	n->next = hvd_timer_new(base, begin_next, n);
	n->deadline = hvd_timer_new(base, on_deadline, n);
	hvd_timer_at(n->deadline, deadline);
	hvd_timer_soon(n->next);
	return n;
}

void hvd_notify_cancel(struct hvd_notify *n)
{
	if (n)
		destroy(n);
}
