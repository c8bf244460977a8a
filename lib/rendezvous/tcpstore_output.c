/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending answers. Those to one read() go to ts->out, and out together. What the socket does not take is kept in
 * segments: bytes, or a value by reference.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define OUT_HIGH    (1 << 20)  /* bytes of answers that are not sent, with which no request is begun */
#define OUT_MAX     (64 << 20) /* bytes of memory for answers, without the values */
#define COPY_MAX    4096       /* a value that is longer is sent from where it is stored */
#define SEGMENT     16384      /* bytes of memory for answers at a time */
#define SEND_PIECES 64
#define OUT_STALL   300.0 /* seconds without progress in the middle of an answer */

/* Answers that wait to be sent: bytes, or a value. */
struct hvd_tcpstore_segment {
	struct hvd_tcpstore_segment *next;
	struct hvd_rv_value *value; /* NULL: `bytes` */
	size_t at, len, room;
	char bytes[];
};

static void free_segment(struct hvd_tcpstore_conn *c, struct hvd_tcpstore_segment *s)
{
	size_t size = sizeof(*s) + s->room;

	c->out_charged -= size;
	hvd_rv_refund(hvd_tcpstore_budget(c), size);
	hvd_rv_value_unref(s->value);
	free(s);
}

void hvd_tcpstore_drop_output(struct hvd_tcpstore_conn *c)
{
	while (c->first_out) {
		struct hvd_tcpstore_segment *s = c->first_out;

		c->first_out = s->next;
		free_segment(c, s);
	}
}

/* NULL, with the connection closed, when there is no memory. */
static struct hvd_tcpstore_segment *new_segment(struct hvd_tcpstore_conn *c, size_t room)
{
	struct hvd_tcpstore_segment *s;
	size_t size = sizeof(*s) + room;

	if (c->out_charged + size > OUT_MAX || !hvd_rv_charge(hvd_tcpstore_budget(c), size)) {
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it does not read its answers, and there is no room for more");
		return NULL;
	}
	c->out_charged += size;
	s = hvd_xcalloc(1, size);
	s->room = room;
	if (c->last_out && c->first_out)
		c->last_out->next = s;
	else
		c->first_out = s;
	c->last_out = s;
	return s;
}

static void keep_bytes(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	while (len > 0 && !c->dead) {
		struct hvd_tcpstore_segment *s = c->first_out ? c->last_out : NULL;
		size_t n;

		if (!s || s->value || s->len == s->room)
			s = new_segment(c, SEGMENT);
		if (!s)
			return;
		n = len < s->room - s->len ? len : s->room - s->len;
		memcpy(s->bytes + s->len, data, n);
		s->len += n;
		c->out_left += n;
		data += n;
		len -= n;
	}
}

/* Keep a value of which `at` bytes were sent. */
static void keep_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v, size_t at)
{
	struct hvd_tcpstore_segment *s = at < v->len ? new_segment(c, 0) : NULL;

	if (!s)
		return;
	s->value = hvd_rv_value_ref(v);
	s->at = at;
	s->len = v->len;
	c->out_left += v->len - at;
}

/* Send these pieces. Returns how many bytes the socket took; the connection is closed after an error. */
static size_t send_pieces(struct hvd_tcpstore_conn *c, struct iovec *iov, size_t n)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t sent;

	do
		sent = n == 1 ? send(c->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL)
			      : sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno != EAGAIN)
		hvd_tcpstore_close(c, HVD_LOG_VERBOSE, strerror(errno));
	c->ts->rv->stats.bytes_out += sent > 0 ? (uint64_t)sent : 0;
	return sent > 0 ? (size_t)sent : 0;
}

bool hvd_tcpstore_may_ask(const struct hvd_tcpstore_conn *c)
{
	return !c->asks && (c->wire.in_list || c->out_left <= OUT_HIGH);
}

void hvd_tcpstore_expect_output(struct hvd_tcpstore_conn *c)
{
	if (c->dead || !c->first_out)
		return;
	hvd_rv_arm(c->ts->rv, &c->spoke, hvd_deadline_in(OUT_STALL));
	hvd_tcpstore_watch(c, hvd_tcpstore_may_ask(c) ? EV_READ | EV_WRITE : EV_WRITE);
}

void hvd_tcpstore_send_current(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	struct hvd_tcpstore *ts = c->ts;
	struct iovec iov[2] = {{ts->out, ts->out_len}, {v ? v->data : NULL, v ? v->len : 0}};
	size_t len = ts->out_len, sent;

	ts->out_len = 0;
	sent = send_pieces(c, iov, v ? 2 : 1);
	if (c->dead)
		return;
	if (sent < len)
		keep_bytes(c, ts->out + sent, len - sent);
	if (v && !c->dead)
		keep_value(c, v, sent > len ? sent - len : 0);
}

void hvd_tcpstore_send(struct hvd_tcpstore_conn *c, const void *data, size_t len)
{
	struct hvd_tcpstore *ts = c->ts;
	const char *p = data;

	if (c->dead || len == 0)
		return;
	if (!c->first_out && c == ts->current) {
		if (len > sizeof(ts->out) - ts->out_len && ts->out_len > 0)
			hvd_tcpstore_send_current(c, NULL);
		if (c->dead)
			return;
		if (!c->first_out && len <= sizeof(ts->out)) {
			memcpy(ts->out + ts->out_len, p, len);
			ts->out_len += len;
			return;
		}
	}
	if (!c->first_out) {
		struct iovec iov = {(void *)(uintptr_t)p, len};
		size_t sent = send_pieces(c, &iov, 1);

		p += sent;
		len -= sent;
	}
	if (c->dead || len == 0)
		return;
	keep_bytes(c, p, len);
	if (c != ts->current)
		hvd_tcpstore_expect_output(c);
}

void hvd_tcpstore_send_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	char len[8];

	hvd_tcpstore_put_u64(&c->wire, v->len, len);
	hvd_tcpstore_send(c, len, sizeof(len));
	if (c->dead)
		return;
	if (v->len <= COPY_MAX)
		hvd_tcpstore_send(c, v->data, v->len);
	else if (c->first_out)
		keep_value(c, v, 0);
	else
		hvd_tcpstore_send_current(c, v); /* values are sent to nobody else */
}

void hvd_tcpstore_flush(struct hvd_tcpstore_conn *c)
{
	while (c->first_out && !c->dead) {
		struct iovec iov[SEND_PIECES];
		size_t n = 0, want = 0, sent;

		for (struct hvd_tcpstore_segment *s = c->first_out; s && n < SEND_PIECES; s = s->next, n++) {
			iov[n].iov_base = (s->value ? (char *)s->value->data : s->bytes) + s->at;
			iov[n].iov_len = s->len - s->at;
			want += iov[n].iov_len;
		}
		sent = send_pieces(c, iov, n);
		if (c->dead)
			return;
		c->out_left -= sent;
		want -= sent;
		while (sent > 0 || (c->first_out && c->first_out->at == c->first_out->len)) {
			struct hvd_tcpstore_segment *s = c->first_out;
			size_t part = sent < s->len - s->at ? sent : s->len - s->at;

			s->at += part;
			sent -= part;
			if (s->at == s->len) {
				c->first_out = s->next;
				free_segment(c, s);
			}
		}
		if (want > 0)
			return;
	}
}
