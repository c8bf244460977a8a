/* SPDX-License-Identifier: Apache-2.0 */
#include "iface_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ENTRIES 65536
#define BUF_SIZE    (64 * 1024) /* the kernel's datagrams are up to 32 KiB long */
#define MAX_TRIES   5           /* how often an interrupted dump is repeated */

void hvd_nl_clear(struct hvd_nl_dump *d)
{
	if (!d)
		return;
	free(d->links);
	free(d->addrs);
	memset(d, 0, sizeof(*d));
}

typedef void (*attr_fn)(void *arg, unsigned type, const unsigned char *data, size_t len);

/* Call `fn` for each attribute up to the first malformed one; what follows it is ignored, as the kernel does. */
static void each_attr(const unsigned char *p, size_t len, attr_fn fn, void *arg)
{
	while (len >= sizeof(struct rtattr)) {
		struct rtattr rta;
		size_t step;

		memcpy(&rta, p, sizeof(rta));
		if (rta.rta_len < sizeof(rta) || rta.rta_len > len)
			return;
		fn(arg, rta.rta_type & NLA_TYPE_MASK, p + sizeof(rta), rta.rta_len - sizeof(rta));
		step = RTA_ALIGN(rta.rta_len);
		if (step >= len)
			return;
		p += step;
		len -= step;
	}
}

static uint32_t u32(const unsigned char *data, size_t len)
{
	uint32_t v = 0;

	if (len >= sizeof(v))
		memcpy(&v, data, sizeof(v));
	return v;
}

static void copy_text(char *to, size_t room, const unsigned char *data, size_t len)
{
	size_t n = strnlen((const char *)data, len);

	if (n >= room)
		n = room - 1;
	memcpy(to, data, n);
	to[n] = '\0';
}

static void info_attr(void *arg, unsigned type, const unsigned char *data, size_t len)
{
	struct hvd_nl_link *l = arg;

	if (type == IFLA_INFO_KIND)
		copy_text(l->kind, sizeof(l->kind), data, len);
}

static void link_attr(void *arg, unsigned type, const unsigned char *data, size_t len)
{
	struct hvd_nl_link *l = arg;

	switch (type) {
	case IFLA_IFNAME:
		copy_text(l->name, sizeof(l->name), data, len);
		break;
	case IFLA_MTU:
		l->mtu = u32(data, len) <= INT32_MAX ? (int)u32(data, len) : -1;
		break;
	case IFLA_MASTER:
		l->master = u32(data, len) <= INT32_MAX ? (int)u32(data, len) : 0;
		break;
	case IFLA_ADDRESS:
		if (len <= sizeof(l->hw)) {
			memcpy(l->hw, data, len);
			l->hw_len = len;
		}
		break;
	case IFLA_LINKINFO:
		each_attr(data, len, info_attr, l);
		break;
	default:
		break;
	}
}

struct addr_attrs {
	struct hvd_nl_addr *a;
	const unsigned char *address, *local;
	size_t address_len, local_len;
};

static void addr_attr(void *arg, unsigned type, const unsigned char *data, size_t len)
{
	struct addr_attrs *at = arg;

	switch (type) {
	case IFA_ADDRESS: /* on a point-to-point link the other end's address; elsewhere the same as IFA_LOCAL */
		at->address = data;
		at->address_len = len;
		break;
	case IFA_LOCAL: /* this host's address; IPv6 has it on point-to-point links only */
		at->local = data;
		at->local_len = len;
		break;
	case IFA_FLAGS:
		at->a->flags = u32(data, len);
		break;
	case IFA_LABEL:
		copy_text(at->a->label, sizeof(at->a->label), data, len);
		break;
	default:
		break;
	}
}

static int too_short(struct hvd_err *err)
{
	return hvd_err_set(err, HVD_E_PROTO, "a message of the kernel about interfaces is too short");
}

static int too_many(struct hvd_err *err)
{
	return hvd_err_set(err, HVD_E_LIMIT, "this host has more than %d interfaces or addresses", MAX_ENTRIES);
}

static int take_link(struct hvd_nl_dump *d, const unsigned char *p, size_t len, struct hvd_err *err)
{
	struct hvd_nl_link link = {.mtu = -1};
	struct ifinfomsg ifi;

	if (len < sizeof(ifi))
		return too_short(err);
	memcpy(&ifi, p, sizeof(ifi));
	link.index = ifi.ifi_index;
	link.flags = ifi.ifi_flags;
	link.arp = ifi.ifi_type;
	if (len > NLMSG_ALIGN(sizeof(ifi)))
		each_attr(p + NLMSG_ALIGN(sizeof(ifi)), len - NLMSG_ALIGN(sizeof(ifi)), link_attr, &link);
	/* The name becomes a part of paths in sysfs, so it must be no path itself. */
	if (link.index <= 0 || !link.name[0] || strchr(link.name, '/') || strcmp(link.name, ".") == 0 ||
	    strcmp(link.name, "..") == 0)
		return 0;
	if (d->n_links >= MAX_ENTRIES)
		return too_many(err);
	d->links = hvd_xgrow(d->links, d->n_links, &d->room_links, sizeof(*d->links));
	d->links[d->n_links++] = link;
	return 0;
}

static int take_addr(struct hvd_nl_dump *d, const unsigned char *p, size_t len, struct hvd_err *err)
{
	struct hvd_nl_addr addr = {0};
	struct addr_attrs at = {.a = &addr};
	struct ifaddrmsg ifa;
	size_t want;

	if (len < sizeof(ifa))
		return too_short(err);
	memcpy(&ifa, p, sizeof(ifa));
	if (ifa.ifa_family != AF_INET && ifa.ifa_family != AF_INET6)
		return 0;
	want = ifa.ifa_family == AF_INET ? 4 : 16;
	addr.index = ifa.ifa_index <= INT32_MAX ? (int)ifa.ifa_index : 0;
	addr.addr.family = ifa.ifa_family;
	addr.prefix = ifa.ifa_prefixlen;
	addr.scope = ifa.ifa_scope;
	addr.flags = ifa.ifa_flags; /* only the low 8 bits; the attribute IFA_FLAGS has all */
	if (len > NLMSG_ALIGN(sizeof(ifa)))
		each_attr(p + NLMSG_ALIGN(sizeof(ifa)), len - NLMSG_ALIGN(sizeof(ifa)), addr_attr, &at);
	if (at.local && at.local_len == want)
		memcpy(&addr.addr.u, at.local, want);
	else if (at.address && at.address_len == want)
		memcpy(&addr.addr.u, at.address, want);
	else
		return 0;
	if (addr.index <= 0 || (size_t)addr.prefix > want * 8)
		return 0;
	if (d->n_addrs >= MAX_ENTRIES)
		return too_many(err);
	d->addrs = hvd_xgrow(d->addrs, d->n_addrs, &d->room_addrs, sizeof(*d->addrs));
	d->addrs[d->n_addrs++] = addr;
	return 0;
}

/* Read the error code that NLMSG_ERROR has and NLMSG_DONE may have. */
static int take_end(const unsigned char *p, size_t len, bool needed, struct hvd_err *err)
{
	int32_t code = 0;

	if (len >= sizeof(code))
		memcpy(&code, p, sizeof(code));
	else if (needed)
		return too_short(err);
	if (code >= 0)
		return 0;
	errno = code > INT32_MIN ? -code : EPROTO;
	return hvd_err_sys(err, "the kernel refuses to list the interfaces");
}

int hvd_nl_parse(struct hvd_nl_dump *d, const void *buf, size_t len, uint32_t seq, struct hvd_err *err)
{
	const unsigned char *p = buf;

	while (len > 0) {
		struct nlmsghdr h;
		const unsigned char *body = p + NLMSG_HDRLEN;
		size_t n, step;
		int rc = 0;

		if (len < sizeof(h))
			return too_short(err);
		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < NLMSG_HDRLEN || h.nlmsg_len > len)
			return too_short(err);
		n = h.nlmsg_len - NLMSG_HDRLEN;
		if (h.nlmsg_seq == seq) {
			if (h.nlmsg_flags & NLM_F_DUMP_INTR)
				d->interrupted = true;
			if (h.nlmsg_type == NLMSG_DONE || h.nlmsg_type == NLMSG_ERROR)
				return take_end(body, n, h.nlmsg_type == NLMSG_ERROR, err) < 0 ? -1 : 1;
			if (h.nlmsg_type == RTM_NEWLINK)
				rc = take_link(d, body, n, err);
			else if (h.nlmsg_type == RTM_NEWADDR)
				rc = take_addr(d, body, n, err);
			if (rc < 0)
				return -1;
		}
		step = NLMSG_ALIGN((size_t)h.nlmsg_len);
		if (step >= len)
			break;
		p += step;
		len -= step;
	}
	return 0;
}

static int request(int fd, uint16_t type, uint32_t seq, struct hvd_err *err)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg ifi; /* for RTM_GETADDR an ifaddrmsg, which is shorter, of zeros too */
		struct rtattr mask_attr;
		uint32_t mask;
	} req = {
		.h = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = seq},
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (type == RTM_GETLINK) {
		/* Do not send counters, which are most of a link's message. Kernels that do not know the mask ignore
		 * it. */
		req.mask_attr.rta_type = IFLA_EXT_MASK;
		req.mask_attr.rta_len = RTA_LENGTH(sizeof(req.mask));
		req.mask = RTEXT_FILTER_SKIP_STATS;
		req.h.nlmsg_len = sizeof(req);
	} else {
		req.h.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg));
	}
	if (sendto(fd, &req, req.h.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return hvd_err_sys(err, "cannot ask the kernel for interfaces");
	return 0;
}

/* Receive one datagram from the kernel; those of other senders are ignored. Returns its length, or -1. */
static ssize_t receive(int fd, void *buf, hvd_time deadline, struct hvd_err *err)
{
	for (;;) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		struct sockaddr_nl from = {0};
		struct iovec iov = {.iov_base = buf, .iov_len = BUF_SIZE};
		struct msghdr msg = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
		ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

		if (n >= 0 && (msg.msg_flags & MSG_TRUNC))
			return hvd_err_set(err, HVD_E_PROTO, "a message of the kernel about interfaces is too long");
		if (n >= 0 && msg.msg_namelen == sizeof(from) && from.nl_pid == 0)
			return n;
		if (n >= 0 || errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return hvd_err_sys(err, "cannot receive the kernel's answer about interfaces");
		n = poll(&pfd, 1, hvd_left_ms(deadline));
		if (n == 0)
			return hvd_err_set(err, HVD_E_TIMEOUT, "the kernel did not list the interfaces in time");
		if (n < 0 && errno != EINTR)
			return hvd_err_sys(err, "cannot wait for the kernel");
	}
}

static int dump(struct hvd_nl_dump *d, int fd, uint16_t type, uint32_t seq, void *buf, hvd_time deadline,
		struct hvd_err *err)
{
	int rc;

	if (request(fd, type, seq, err) < 0)
		return -1;
	do {
		ssize_t n = receive(fd, buf, deadline, err);

		rc = n < 0 ? -1 : hvd_nl_parse(d, buf, (size_t)n, seq, err);
	} while (rc == 0);
	return rc < 0 ? -1 : 0;
}

int hvd_nl_query(struct hvd_nl_dump *d, hvd_time deadline, struct hvd_err *err)
{
	hvd_cleanup_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	hvd_cleanup_free void *buf = NULL;
	uint32_t seq = 0;
	int rc;

	memset(d, 0, sizeof(*d));
	if (fd < 0)
		return hvd_err_sys(err, "cannot open a netlink socket");
	buf = hvd_xcalloc(BUF_SIZE, 1);
	for (int tries = 0;; tries++) {
		rc = dump(d, fd, RTM_GETLINK, ++seq, buf, deadline, err);
		if (rc == 0)
			rc = dump(d, fd, RTM_GETADDR, ++seq, buf, deadline, err);
		if (rc < 0 || !d->interrupted || tries >= MAX_TRIES)
			break;
		hvd_nl_clear(d);
	}
	if (rc < 0)
		hvd_nl_clear(d);
	return rc;
}
