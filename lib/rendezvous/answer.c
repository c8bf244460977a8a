/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending an answer, and what happens to the connection after it.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define DRAIN_TIME  2.0
#define WRITE_STALL 10.0

/* The answer is sent: close the connection, or wait for the next request. */
static void answered(struct conn *c)
{
	hvd_rv_value_unref(c->value);
	c->value = NULL;
	c->at = 0;
	if (!c->close_after) {
		c->has_asked = true;
		hvd_rv_conn_state(c, CONN_HEAD);
		return;
	}
	/* When input has not been read, close() sends a reset, and a client that has not read the answer yet loses it.
	 * So shut the connection for writing, and read until the client closes it. */
	if (!c->drain_after && c->buf_len == 0) {
		hvd_rv_conn_close(c);
		return;
	}
	shutdown(c->fd, SHUT_WR);
	hvd_rv_conn_state(c, CONN_DRAIN);
	c->limit = hvd_deadline_in(DRAIN_TIME);
	hvd_rv_conn_progress(c, DRAIN_TIME);
	hvd_rv_conn_watch(c, EV_READ);
}

void hvd_rv_conn_flush(struct conn *c)
{
	size_t body = c->value && c->body_follows ? c->value->len : 0;
	ssize_t n;

	for (;;) {
		struct iovec iov[2] = {{0}};
		struct msghdr msg = {.msg_iov = iov};

		if (c->at < c->out_len)
			iov[msg.msg_iovlen++] = (struct iovec){c->out + c->at, c->out_len - c->at};
		if (body > 0) {
			size_t from = c->at > c->out_len ? c->at - c->out_len : 0;

			iov[msg.msg_iovlen++] = (struct iovec){c->value->data + from, body - from};
		}
		/* With MSG_MORE the kernel keeps the answer until close(), and sends both in one segment. */
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | (c->close_after ? MSG_MORE : 0));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		c->at += (size_t)n;
		c->rv->stats.bytes_out += (uint64_t)n;
		if (c->at == c->out_len + body) {
			answered(c);
			return;
		}
	}
	if (errno != EAGAIN) {
		hvd_rv_conn_close(c);
		return;
	}
	if (c->state != CONN_WRITE) {
		hvd_rv_conn_state(c, CONN_WRITE);
		c->limit = hvd_rv_body_limit(body);
	}
	hvd_rv_conn_progress(c, WRITE_STALL);
	hvd_rv_conn_watch(c, EV_WRITE);
}

static void count_answer(struct hvd_rv_stats *s, int status)
{
	if (status == 200) {
		s->ok++;
		return;
	}
	if (status == 404) {
		s->not_found++;
		return;
	}
	s->errors++;
	if (status == 413)
		s->refused_size++;
	else if (status == 507)
		s->refused_room++;
	else if (status == 408)
		s->timeouts++;
	else if (status < 500 || status == 501 || status == 505)
		s->refused_malformed++;
}

void hvd_rv_conn_send(struct conn *c, int status, struct hvd_rv_value *value)
{
	enum hvd_http_after after = HVD_HTTP_AFTER_KEEP;

	count_answer(&c->rv->stats, status);
	if (c->rv->stopping)
		c->close_after = true;
	if (c->close_after)
		after = HVD_HTTP_AFTER_CLOSE;
	else if (c->http10)
		after = HVD_HTTP_AFTER_KEEP_10;
	c->out_len = (unsigned char)hvd_http_head(c->out, status, value ? value->len : 0, after);
	c->at = 0;
	if (value)
		hvd_rv_value_ref(value);
	hvd_rv_value_unref(c->value);
	c->value = value;
	hvd_rv_conn_flush(c);
	/* Requests that came meanwhile are handled by a new callback: a call from here could nest once for each waiting
	 * connection. */
	if (c->state == CONN_HEAD) {
		if (c->buf_len > 0 && c->watching)
			event_active(&c->ev, EV_READ, 1);
		hvd_rv_conn_progress(c, c->rv->cfg.idle);
	}
}

void hvd_rv_conn_refuse(struct conn *c, int status)
{
	c->close_after = c->drain_after = true;
	c->body_follows = false;
	hvd_rv_conn_send(c, status, NULL);
}

void hvd_rv_conn_release(struct conn *c, bool close_after)
{
	c->close_after |= close_after;
	if (c->state == CONN_WAITING) {
		hvd_rv_store_unwait(c->rv->store, &c->waiter);
		hvd_rv_conn_send(c, 404, NULL);
	} else if (c->state == CONN_TAKEN) {
		bool may_wait = c->lookup.key && c->rv->stopping; /* a GET, as far as is known */

		c->hooked = false;
		hvd_rv_conn_send(c, may_wait ? 404 : 503, NULL);
		hvd_rv_request_abandon(c);
	}
}
