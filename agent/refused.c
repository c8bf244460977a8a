/* SPDX-License-Identifier: Apache-2.0 */
#include "refused.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/sock_diag.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGETS     32
#define FORGET      30    /* seconds without an attempt */
#define EVENTS_MOST 20000 /* in EVENTS_TIME seconds */
#define EVENTS_TIME 10    /* seconds */
#define PER_WAKE_UP 64

/* An address to which connections were refused. */
struct target {
	struct hvd_addr addr; /* none: free */
	in_port_t port;
	unsigned attempts;
	hvd_time first, last, reported;
};

struct hvd_refused {
	void (*report)(const struct hvd_addr *addr, in_port_t port, void *arg);
	void *arg;
	hvd_time patience;
	int fd;
	struct event *event;
	unsigned events; /* since then */
	hvd_time since;
	struct target targets[TARGETS];
};

static hvd_time nanoseconds(double n)
{
	return (hvd_time)(n * 1e9);
}

static struct target *find_target(struct hvd_refused *refused, const struct hvd_addr *addr, in_port_t port,
				  hvd_time now)
{
	struct target *oldest = &refused->targets[0];

	for (size_t i = 0; i < TARGETS; i++) {
		struct target *t = &refused->targets[i];

		if (t->port == port && hvd_addr_equal(&t->addr, addr) && now - t->last < nanoseconds(FORGET))
			return t;
		if (t->last < oldest->last)
			oldest = t;
	}
	*oldest = (struct target){.addr = *addr, .port = port, .first = now, .last = now};
	return oldest;
}

static void on_attempt(struct hvd_refused *refused, const struct hvd_addr *addr, in_port_t port)
{
	hvd_time now = hvd_now();
	struct target *t = find_target(refused, addr, port, now);

	t->attempts++;
	t->last = now;
	if (t->attempts < HVD_REFUSED_ATTEMPTS || now - t->first < refused->patience ||
	    (t->reported && now - t->reported < refused->patience) || hvd_addr_is_own(addr) <= 0)
		return;
	t->reported = now;
	refused->report(addr, port, refused->arg);
}

/* Was the socket that has ended never connected? */
static bool never_connected(const struct nlmsghdr *h)
{
	struct tcp_info info;

	return hvd_sock_diag_tcp_info(h, &info) >= offsetof(struct tcp_info, tcpi_bytes_received) &&
	       info.tcpi_rtt == 0 && info.tcpi_bytes_acked == 0;
}

static void on_message(struct hvd_refused *refused, const struct nlmsghdr *h)
{
	struct sockaddr_storage ss;
	struct inet_diag_msg m;
	struct hvd_addr addr = {0};
	in_port_t port;

	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(m)))
		return;
	memcpy(&m, NLMSG_DATA(h), sizeof(m));
	if (m.id.idiag_dport == 0 || !never_connected(h))
		return;
	addr.family = m.idiag_family == AF_INET ? AF_INET : AF_INET6;
	memcpy(&addr.u, m.id.idiag_dst, addr.family == AF_INET ? sizeof(addr.u.v4) : sizeof(addr.u.v6));
	/* There and back, for an IPv4-mapped address. */
	hvd_addr_to_sockaddr(&addr, ntohs(m.id.idiag_dport), &ss);
	if (hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, &port) == 0)
		on_attempt(refused, &addr, port);
}

static void stop(struct hvd_refused *refused)
{
	hvd_event_unwatch(&refused->event);
	if (refused->fd >= 0)
		close(refused->fd);
	refused->fd = -1;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	_Alignas(struct nlmsghdr) char buf[8192];
	struct hvd_refused *refused = arg;
	hvd_time now = hvd_now();

	(void)what;
	if (now - refused->since > nanoseconds(EVENTS_TIME)) {
		refused->since = now;
		refused->events = 0;
	}
	for (int i = 0; i < PER_WAKE_UP; i++) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)buf;
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		size_t left = n > 0 ? (size_t)n : 0;

		if (n <= 0)
			return; /* some were lost if there were too many, or there are no more */
		for (; left >= sizeof(*h) && NLMSG_OK(h, left); h = NLMSG_NEXT(h, left))
			on_message(refused, h);
		if (++refused->events > EVENTS_MOST) {
			stop(refused);
			return;
		}
	}
}

struct hvd_refused *hvd_refused_create(struct event_base *base, double seconds,
				       void (*report)(const struct hvd_addr *addr, in_port_t port, void *arg),
				       void *arg)
{
	static const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
						  .nl_groups = 1U << (SKNLGRP_INET_TCP_DESTROY - 1) |
							       1U << (SKNLGRP_INET6_TCP_DESTROY - 1)};
	struct hvd_refused *refused = hvd_xcalloc(1, sizeof(*refused));

	*refused = (struct hvd_refused){
		.report = report, .arg = arg, .since = hvd_now(), .patience = nanoseconds(seconds)};
	refused->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (refused->fd < 0 || bind(refused->fd, (const struct sockaddr *)&groups, sizeof(groups)) != 0) {
		hvd_refused_destroy(refused);
		return NULL;
	}
	refused->event = hvd_event_watch(base, refused->fd, EV_READ | EV_PERSIST, on_readable, refused);
	return refused;
}

void hvd_refused_destroy(struct hvd_refused *refused)
{
	if (!refused)
		return;
	stop(refused);
	free(refused);
}
