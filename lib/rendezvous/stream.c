/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that the socket does not take is kept in segments: bytes, or a value by reference.
 */
#include "internal.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define SEGMENT     16384 /* bytes of memory for output at a time, where they are counted */
#define SEND_PIECES 64

struct hvd_rv_segment {
	struct hvd_rv_segment *next;
	struct hvd_rv_value *value; /* NULL: `bytes` */
	size_t at, len, room;
	char bytes[];
};

/* --- begin and end --- */

void hvd_rv_stream_move(struct hvd_rv_stream *s, struct hvd_rv_streams *to)
{
	TAILQ_REMOVE(s->list, s, link);
	s->list = to;
	TAILQ_INSERT_TAIL(to, s, link);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_rv_stream *s = arg;

	(void)fd;
	hvd_rv_reap(s->rv);
	s->ops->ready(s, what);
}

static void on_due(struct hvd_rv_timer *timer)
{
	struct hvd_rv_stream *s =
		(struct hvd_rv_stream *)(void *)((char *)timer - offsetof(struct hvd_rv_stream, timer));

	s->ops->due(s);
}

void hvd_rv_stream_watch(struct hvd_rv_stream *s, short events)
{
	if (s->watching == events)
		return;
	if (s->watching)
		event_del(&s->ev);
	s->watching = events;
	if (!events)
		return;
	event_assign(&s->ev, s->rv->base, s->fd, (short)(events | EV_PERSIST), on_event, s);
	event_add(&s->ev, NULL);
}

void hvd_rv_stream_open(struct hvd_rv_stream *s, struct hvd_rv *rv, const struct hvd_rv_stream_ops *ops, int fd,
			const struct hvd_addr *peer, struct hvd_rv_streams *list)
{
	s->rv = rv;
	s->ops = ops;
	s->fd = fd;
	s->timer.due = on_due;
	s->list = list;
	TAILQ_INSERT_TAIL(list, s, link);
	hvd_peer_table_add(rv->peers, peer, &s->entry);
	if (++rv->stats.conns_now > rv->stats.conns_peak)
		rv->stats.conns_peak = rv->stats.conns_now;
}

static void free_segment(struct hvd_rv_stream *s)
{
	struct hvd_rv_segment *seg = s->first_out;

	s->first_out = seg->next;
	if (s->ops->out_max > 0) {
		s->out_charged -= sizeof(*seg) + seg->room;
		hvd_rv_refund(hvd_rv_store_budget(s->rv->store), sizeof(*seg) + seg->room);
	}
	hvd_rv_value_unref(seg->value);
	free(seg);
}

int hvd_rv_stream_release(struct hvd_rv_stream *s)
{
	int fd = s->fd;

	hvd_rv_stream_watch(s, 0);
	hvd_rv_timer_wheel_remove(&s->rv->wheel, &s->timer);
	while (s->first_out)
		free_segment(s);
	hvd_peer_table_remove(s->rv->peers, &s->entry);
	s->rv->stats.conns_now--;
	s->closed = true;
	s->fd = -1;
	hvd_rv_stream_move(s, &s->rv->closed);
	return fd;
}

void hvd_rv_stream_close(struct hvd_rv_stream *s)
{
	if (!s->closed)
		close(hvd_rv_stream_release(s));
}

/* --- input --- */

ssize_t hvd_rv_stream_read(struct hvd_rv_stream *s, void *into, size_t room)
{
	ssize_t n;

	do
		n = recv(s->fd, into, room, 0);
	while (n < 0 && errno == EINTR);
	s->rv->stats.bytes_in += n > 0 ? (uint64_t)n : 0;
	if (n < 0 && errno != EAGAIN)
		s->ops->close(s, HVD_LOG_DEBUG, strerror(errno));
	return n;
}

void hvd_rv_stream_make_room(struct hvd_rv_stream *s, size_t room)
{
	s->in = hvd_xrealloc(s->in, room, 1);
	s->in_room = room;
}

void hvd_rv_stream_keep(struct hvd_rv_stream *s, const char *data, size_t len)
{
	s->in_len = len;
	if (len == 0) {
		free(s->in);
		s->in = NULL;
		s->in_room = 0;
	} else if (data != s->in) {
		memmove(s->in, data, len);
	}
}

/* --- output --- */

/* NULL, with the stream closed, when there is no room. */
static struct hvd_rv_segment *new_segment(struct hvd_rv_stream *s, size_t room)
{
	struct hvd_rv_segment *seg;
	size_t size = sizeof(*seg) + room;

	if (s->ops->out_max > 0) {
		if (s->out_charged + size > s->ops->out_max ||
		    !hvd_rv_charge(hvd_rv_store_budget(s->rv->store), size)) {
			s->ops->close(s, HVD_LOG_WARN, "it does not read its answers, and there is no room for more");
			return NULL;
		}
		s->out_charged += size;
	}
	seg = hvd_xcalloc(1, size);
	seg->room = room;
	if (s->first_out)
		s->last_out->next = seg;
	else
		s->first_out = seg;
	s->last_out = seg;
	return seg;
}

static void keep_bytes(struct hvd_rv_stream *s, const char *data, size_t len)
{
	while (len > 0) {
		struct hvd_rv_segment *seg = s->first_out ? s->last_out : NULL;
		size_t n;

		if (!seg || seg->value || seg->len == seg->room)
			seg = new_segment(s, s->ops->out_max > 0 ? SEGMENT : len);
		if (!seg)
			return;
		n = len < seg->room - seg->len ? len : seg->room - seg->len;
		memcpy(seg->bytes + seg->len, data, n);
		seg->len += n;
		s->out_left += n;
		data += n;
		len -= n;
	}
}

/* Keep a value of which `at` bytes were sent. */
static void keep_value(struct hvd_rv_stream *s, struct hvd_rv_value *v, size_t at)
{
	struct hvd_rv_segment *seg = at < v->len ? new_segment(s, 0) : NULL;

	if (!seg)
		return;
	seg->value = hvd_rv_value_ref(v);
	seg->at = at;
	seg->len = v->len;
	s->out_left += v->len - at;
}

/* Returns how many bytes the socket took; the stream is closed after an error. */
static size_t send_pieces(struct hvd_rv_stream *s, struct iovec *iov, size_t n, int flags)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t sent;

	do
		sent = n == 1 ? send(s->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL | flags)
			      : sendmsg(s->fd, &msg, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno != EAGAIN)
		s->ops->close(s, HVD_LOG_VERBOSE, strerror(errno));
	s->rv->stats.bytes_out += sent > 0 ? (uint64_t)sent : 0;
	return sent > 0 ? (size_t)sent : 0;
}

void hvd_rv_stream_send(struct hvd_rv_stream *s, const void *data, size_t len, struct hvd_rv_value *v, int flags)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)data, len}, {v ? v->data : NULL, v ? v->len : 0}};
	size_t sent = s->first_out ? 0 : send_pieces(s, iov, v && v->len > 0 ? 2 : 1, flags);

	if (!s->closed && sent < len)
		keep_bytes(s, (const char *)data + sent, len - sent);
	if (!s->closed && v)
		keep_value(s, v, sent > len ? sent - len : 0);
}

void hvd_rv_stream_flush(struct hvd_rv_stream *s, int flags)
{
	while (s->first_out) {
		struct iovec iov[SEND_PIECES];
		size_t n = 0, want = 0, sent;

		for (struct hvd_rv_segment *seg = s->first_out; seg && n < SEND_PIECES; seg = seg->next, n++) {
			iov[n].iov_base = (seg->value ? (char *)seg->value->data : seg->bytes) + seg->at;
			iov[n].iov_len = seg->len - seg->at;
			want += iov[n].iov_len;
		}
		sent = send_pieces(s, iov, n, flags);
		if (s->closed)
			return;
		s->out_left -= sent;
		want -= sent;
		while (s->first_out && s->first_out->len - s->first_out->at <= sent) {
			sent -= s->first_out->len - s->first_out->at;
			free_segment(s);
		}
		if (sent > 0)
			s->first_out->at += sent;
		if (want > 0)
			return;
	}
}

/* --- all streams --- */

static void resume_accepting(struct hvd_rv *rv)
{
	if (!rv->paused || rv->stopping || rv->stats.conns_now >= rv->cfg.conns_max)
		return;
	rv->paused = false;
	for (size_t i = 0; i < rv->n_listeners; i++)
		hvd_acceptor_resume(rv->listeners[i]->acceptor);
}

void hvd_rv_reap(struct hvd_rv *rv)
{
	struct hvd_rv_stream *s;

	while ((s = TAILQ_FIRST(&rv->closed))) {
		TAILQ_REMOVE(&rv->closed, s, link);
		free(s->in);
		s->ops->free(s);
	}
	resume_accepting(rv);
}

static void on_tick(void *arg)
{
	struct hvd_rv *rv = arg;
	hvd_time now = hvd_now();
	struct hvd_rv_timer *s;

	hvd_rv_reap(rv);
	while ((s = hvd_rv_timer_wheel_due(&rv->wheel, now)))
		s->due(s);
	hvd_rv_reap(rv);
	if (rv->wheel.n == 0 && !rv->paused)
		hvd_timer_stop(rv->tick);
}

void hvd_rv_arm(struct hvd_rv *rv, struct hvd_rv_timer *s, hvd_time deadline)
{
	if (s)
		hvd_rv_timer_wheel_set(&rv->wheel, s, deadline);
	if (!hvd_timer_runs(rv->tick))
		hvd_timer_every_ms(rv->tick, HVD_RV_TIMER_WHEEL_TICK / 1000000);
}

void hvd_rv_streams_init(struct hvd_rv *rv)
{
	rv->peers = hvd_peer_table_create();
	hvd_rv_timer_wheel_init(&rv->wheel);
	TAILQ_INIT(&rv->closed);
	rv->tick = hvd_timer_new(rv->base, on_tick, rv);
}
