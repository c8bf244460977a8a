/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_try.c - a question lives from hvd_ready_try_begin() to `done`. It has one connection at a time; `step` says what is
 * awaited on it.
 */
#include "ready_try.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/addr.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_ADDRS   16
#define MOST_BYTES   65536 /* of an answer */
#define REST_SECONDS 0.5   /* for what follows the status */

struct hvd_ready_try {
	struct event_base *base;
	struct hvd_addr addrs[MOST_ADDRS];
	size_t n, at; /* those before `at` were tried */
	in_port_t port;
	char *path; /* NULL: a connection is enough */
	int fd;     /* -1: none */
	struct event *event;
	struct hvd_timer *timer; /* the end of the question; or `done` is due */
	bool asked, answered, over;
	char reply[HVD_HTTP_STATUS_LEN];
	size_t got;
	char why[128]; /* "" once it is up */
	void (*done)(const char *why, void *arg);
	void *arg;
};

int hvd_http_status(const char *bytes, size_t n)
{
	static const char form[] = "HTTP/1.0 000"; /* '0': any digit */
	_Static_assert(sizeof(form) - 1 == HVD_HTTP_STATUS_LEN, "its length");

	for (size_t i = 0; i < n && i < HVD_HTTP_STATUS_LEN; i++)
		if (form[i] == '0' ? bytes[i] < '0' || bytes[i] > '9' : bytes[i] != form[i])
			return -1;
	if (n < HVD_HTTP_STATUS_LEN)
		return 0;
	return bytes[9] == '0' ? -1 : (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + bytes[11] - '0';
}

/* ---- one connection ---- */

static void hang_up(struct hvd_ready_try *try)
{
	hvd_event_unwatch(&try->event);
	if (try->fd >= 0)
		close(try->fd);
	try->fd = -1;
	try->got = 0;
}

/* Call `done` from the event loop, and not from within hvd_ready_try_begin(). */
static void finish(struct hvd_ready_try *try)
{
	hang_up(try);
	try->over = true;
	hvd_timer_soon(try->timer);
}

static void on_timer(void *arg)
{
	struct hvd_ready_try *try = arg;

	if (!try->over && !try->answered)
		snprintf(try->why, sizeof(try->why), "port %d %s within %g s", (int)try->port,
			 try->asked ? "does not answer" : "does not take a connection", HVD_READY_TRY_SECONDS);
	hang_up(try);
	try->over = true;
	try->done(*try->why ? try->why : NULL, try->arg);
}

static void next(struct hvd_ready_try *try);

/* The status is known; the rest of the answer is read and dropped, for a server complains of clients that do not. */
static void take_status(struct hvd_ready_try *try, int status)
{
	try->answered = true;
	if (status >= 200 && status < 300)
		*try->why = '\0';
	else
		snprintf(try->why, sizeof(try->why), "the server at port %d answers with status %d", (int)try->port,
			 status);
	hvd_timer_at(try->timer, hvd_deadline_in(REST_SECONDS));
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_ready_try *try = arg;
	char bytes[4096];
	const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
	int status = -1;

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && try->got < sizeof(try->reply))
		memcpy(try->reply + try->got, bytes,
		       (size_t)n < sizeof(try->reply) - try->got ? (size_t)n : sizeof(try->reply) - try->got);
	try->got += n > 0 ? (size_t)n : 0;
	if (!try->answered && n > 0)
		status = hvd_http_status(try->reply, try->got);
	if (status > 0)
		take_status(try, status);
	else if (!try->answered && status < 0)
		snprintf(try->why, sizeof(try->why), "port %d takes connections, but does not answer in HTTP/1",
			 (int)try->port);
	if (n <= 0 || try->got > MOST_BYTES || (!try->answered && status < 0))
		finish(try);
}

static void ask(struct hvd_ready_try *try)
{
	const struct hvd_addr *addr = &try->addrs[try->at - 1];
	const bool v6 = addr->family == AF_INET6;
	char text[HVD_ADDR_TEXT];
	char *request =
		hvd_xasprintf("GET %s HTTP/1.1\r\nHost: %s%s%s:%d\r\nUser-Agent: hvd\r\nAccept: */*\r\n"
			      "Connection: close\r\n\r\n",
			      try->path, v6 ? "[" : "", hvd_addr_text(addr, text), v6 ? "]" : "", (int)try->port);
	const size_t len = strlen(request);
	/* A new connection has room for some hundred bytes. */
	const bool sent = send(try->fd, request, len, MSG_NOSIGNAL) == (ssize_t)len;

	free(request);
	try->asked = sent;
	if (sent)
		try->event = hvd_event_watch(try->base, try->fd, EV_READ | EV_PERSIST, on_answer, try);
	else
		next(try);
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_ready_try *try = arg;
	int error = 0;
	socklen_t len = sizeof(error);

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	hvd_event_unwatch(&try->event);
	if (error) {
		next(try);
	} else if (try->path) {
		ask(try);
	} else {
		*try->why = '\0';
		finish(try);
	}
}

/* Connect to the next address. */
static void next(struct hvd_ready_try *try)
{
	while (try->at < try->n) {
		struct sockaddr_storage ss;
		socklen_t len = hvd_addr_to_sockaddr(&try->addrs[try->at++], try->port, &ss);

		hang_up(try);
		try->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (try->fd < 0 || (connect(try->fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS))
			continue;
		try->event = hvd_event_watch(try->base, try->fd, EV_WRITE, on_connected, try);
		return;
	}
	finish(try);
}

/* ---- the addresses ---- */

static void add_addr(struct hvd_ready_try *try, const struct hvd_addr *addr)
{
	if (try->n < MOST_ADDRS)
		try->addrs[try->n++] = *addr;
}

static void find_addrs(struct hvd_ready_try *try)
{
	struct hvd_addr addr;
	struct ifaddrs *all;

	hvd_addr_parse("127.0.0.1", &addr);
	add_addr(try, &addr);
	hvd_addr_parse("::1", &addr);
	add_addr(try, &addr);
	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && (i->ifa_flags & IFF_UP) && hvd_addr_from_sockaddr(i->ifa_addr, &addr, NULL) == 0 &&
		    !hvd_addr_loopback(&addr) && !hvd_addr_link_local(&addr))
			add_addr(try, &addr);
	freeifaddrs(all);
}

/* ---- life ---- */

struct hvd_ready_try *hvd_ready_try_begin(struct event_base *base, in_port_t port, const char *path,
					  void (*done)(const char *why, void *arg), void *arg)
{
	struct hvd_ready_try *try = hvd_xcalloc(1, sizeof(*try));

	*try = (struct hvd_ready_try){.base = base,
				      .port = port,
				      .path = path ? hvd_xstrdup(path) : NULL,
				      .fd = -1,
				      .done = done,
				      .arg = arg};
	snprintf(try->why, sizeof(try->why), "nothing takes connections at port %d", (int)port);
	try->timer = hvd_timer_new(base, on_timer, try);
	hvd_timer_at(try->timer, hvd_deadline_in(HVD_READY_TRY_SECONDS));
	find_addrs(try);
	next(try);
	return try;
}

void hvd_ready_try_destroy(struct hvd_ready_try *try)
{
	if (!try)
		return;
	hang_up(try);
	hvd_timer_free(try->timer);
	free(try->path);
	free(try);
}
