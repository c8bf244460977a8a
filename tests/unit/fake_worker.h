/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_worker.h - the notification service of an elastic worker, as far as a driver sees it.
 */
#ifndef HVD_TESTS_FAKE_WORKER_H
#define HVD_TESTS_FAKE_WORKER_H

#include "lib/frameworks/worker_addrs.h"
#include "lib/frameworks/worker_message.h"
#include "lib/net/listen.h"
#include "tests/unit/worker_addrs_text.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct fake_worker {
	struct event_base *base;
	struct evconnlistener *listener;
	in_port_t port;
	struct hvd_key key;
	bool mute; /* takes requests, and answers none */
	int heard; /* requests that were signed and read */
	struct hvd_message last;
	struct hvd_err err;                              /* of the last that was not */
	void (*told)(struct fake_worker *fw, void *arg); /* after each request; may be NULL */
	void *arg;
};

static inline void fake_worker_over(struct bufferevent *bev, short what, void *arg)
{
	(void)what;
	(void)arg;
	bufferevent_free(bev);
}

static inline void fake_worker_sent(struct bufferevent *bev, void *arg)
{
	(void)arg;
	bufferevent_free(bev);
}

static inline void fake_worker_read(struct bufferevent *bev, void *arg)
{
	struct fake_worker *fw = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct hvd_message answer = {.kind = HVD_MESSAGE_ACK, .source = "127.0.0.1"};
	unsigned char frame[HVD_MESSAGE_MAX_FRAME];
	const unsigned char *bytes = evbuffer_pullup(in, -1);
	size_t have = evbuffer_get_length(in), len;

	if (have < HVD_MESSAGE_HEAD || (hvd_message_length(bytes, &len, &fw->err) == 0 && have < len))
		return;
	if (hvd_message_read(&fw->key, bytes, have, &fw->last, &fw->err) != 0) {
		bufferevent_free(bev);
		return;
	}
	fw->heard++;
	evbuffer_drain(in, have);
	if (!fw->mute) {
		if (fw->last.kind == HVD_MESSAGE_PING)
			answer.kind = HVD_MESSAGE_PONG;
		bufferevent_setcb(bev, NULL, fake_worker_sent, fake_worker_over, fw);
		bufferevent_write(bev, frame, hvd_message_frame(&fw->key, &answer, frame));
	}
	if (fw->told)
		fw->told(fw, fw->arg);
}

static inline void fake_worker_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len,
				      void *arg)
{
	struct fake_worker *fw = arg;
	struct bufferevent *bev = bufferevent_socket_new(fw->base, fd, BEV_OPT_CLOSE_ON_FREE);

	(void)l;
	(void)sa;
	(void)len;
	bufferevent_setcb(bev, fake_worker_read, NULL, fake_worker_over, fw);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

/* Listens on 127.0.0.1; *fw must be zeroed and its key set. */
static inline int fake_worker_open(struct fake_worker *fw, struct event_base *base, struct hvd_err *err)
{
	int fd = hvd_listen_any(true, 0, 0, &fw->port, err);

	if (fd < 0)
		return -1;
	fw->base = base;
	fw->listener = evconnlistener_new(base, fake_worker_accept, fw, LEV_OPT_CLOSE_ON_FREE, 0, fd);
	return fw->listener ? 0 : -1;
}

static inline void fake_worker_close(struct fake_worker *fw)
{
	if (fw->listener)
		evconnlistener_free(fw->listener);
	fw->listener = NULL;
}

/* What it would PUT. Caller frees. */
static inline char *fake_worker_put(const struct fake_worker *fw)
{
	struct hvd_worker_addr one = {.iface = "lo", .port = fw->port};
	const struct hvd_worker_addrs addrs = {.v = &one, .n = 1, .key = fw->key};

	hvd_addr_parse("127.0.0.1", &one.addr);
	return worker_addrs_text(&addrs);
}

#endif
