/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_client.h - an HTTP request as Horovod's HTTPStore makes it, for the load generators.
 *
 * Each request has a connection of its own. Head and body are in one segment; there are Host and Content-Length
 * headers, and no Connection header. The client closes the connection as soon as the body of the answer is complete,
 * even when the server has not closed. Non-blocking, driven by the caller's epoll loop.
 */
#ifndef HVD_BENCH_RV_CLIENT_H
#define HVD_BENCH_RV_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct rv_call {
	int fd;
	uint32_t events; /* what epoll waits for */
	char head[256];
	size_t head_len;
	const char *body; /* not owned */
	size_t body_len, sent;
	char in[512]; /* the head of the answer and the bytes that came with it */
	size_t in_len;
	int status;
	size_t want, got; /* bytes of the answer's body */
	bool have_head;
};

static inline double rv_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline void rv_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static inline void rv_watch(struct rv_call *c, int ep, uint32_t events, void *tag)
{
	struct epoll_event ev = {.events = events, .data.ptr = tag};

	if (c->events == events)
		return;
	if (epoll_ctl(ep, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &ev) != 0)
		rv_die("epoll_ctl");
	c->events = events;
}

static inline void rv_close(struct rv_call *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* Begin a request. c->status is the status of the answer once rv_step() returns 1. */
static inline void rv_start(struct rv_call *c, int ep, void *tag, uint16_t port, const char *method, const char *path,
			    const char *body, size_t body_len)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		rv_die("socket");
	c->head_len = (size_t)snprintf(c->head, sizeof(c->head),
				       "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n", method, path,
				       body_len);
	c->body = body;
	c->body_len = body_len;
	c->sent = c->in_len = c->want = c->got = 0;
	c->have_head = false;
	c->status = 0;
	c->events = 0;
	if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS)
		rv_die("connect");
	rv_watch(c, ep, EPOLLOUT, tag);
}

static inline int rv_send(struct rv_call *c, int ep, void *tag)
{
	while (c->sent < c->head_len + c->body_len) {
		struct iovec iov[2] = {{0}};
		struct msghdr msg = {.msg_iov = iov};
		size_t from = c->sent > c->head_len ? c->sent - c->head_len : 0;
		ssize_t n;

		if (c->sent < c->head_len)
			iov[msg.msg_iovlen++] = (struct iovec){c->head + c->sent, c->head_len - c->sent};
		if (c->body_len > from)
			iov[msg.msg_iovlen++] = (struct iovec){(void *)(uintptr_t)(c->body + from), c->body_len - from};
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		c->sent += (size_t)n;
	}
	rv_watch(c, ep, EPOLLIN, tag);
	return 0;
}

/* Continue after an event. 1: the answer is complete and the connection closed; 0: not yet; -1: the request failed. */
static inline int rv_step(struct rv_call *c, int ep, void *tag, char *sink, size_t sink_size)
{
	if (c->sent < c->head_len + c->body_len)
		return rv_send(c, ep, tag);
	for (;;) {
		ssize_t n = c->have_head ? recv(c->fd, sink, sink_size, 0)
					 : recv(c->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len, 0);
		const char *end, *length;

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			rv_close(c);
			return -1;
		}
		if (c->have_head) {
			c->got += (size_t)n;
		} else {
			c->in_len += (size_t)n;
			c->in[c->in_len] = '\0';
			end = strstr(c->in, "\r\n\r\n");
			if (!end)
				continue;
			length = strstr(c->in, "Content-Length: ");
			c->status = atoi(c->in + 9);
			c->want = length && length < end ? strtoull(length + 16, NULL, 10) : 0;
			c->got = c->in_len - (size_t)(end + 4 - c->in);
			c->have_head = true;
		}
		if (c->got >= c->want) {
			rv_close(c);
			return 1;
		}
	}
}

#endif
