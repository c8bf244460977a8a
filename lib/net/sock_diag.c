/* SPDX-License-Identifier: Apache-2.0 */
#include "sock_diag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel's numbers in TCP_INFO, in sock_diag's answers and in /proc/net/tcp; <netinet/tcp.h>, which has names for
 * them, has an older struct tcp_info. */
enum tcp_state {
	ESTABLISHED = 1,
	FIN_WAIT1 = 4,
	FIN_WAIT2 = 5,
	CLOSE_WAIT = 8
};

/* Bytes: two headers with all options, of IPv6 too. */
#define SYN_MAX 512

/* Can the client's end be in this state while the server's is open? */
static bool is_clients_end(unsigned state)
{
	return state == ESTABLISHED || state == FIN_WAIT1 || state == FIN_WAIT2;
}

void hvd_unmap_v4(struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (ss->ss_family != AF_INET6)
		return;
	memcpy(&in6, ss, sizeof(in6));
	if (!IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		return;
	in.sin_port = in6.sin6_port;
	memcpy(&in.sin_addr, &in6.sin6_addr.s6_addr[12], 4);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, &in, sizeof(in));
}

int hvd_peer_uid_open(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
}

/* The address in 32-bit words and the port, both in network byte order. Returns the number of words. */
static int split_addr(const struct sockaddr_storage *ss, uint32_t words[4], uint16_t *port_be)
{
	if (ss->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)ss;

		memset(words, 0, 16);
		memcpy(words, &in->sin_addr, 4);
		*port_be = in->sin_port;
		return 1;
	}
	memcpy(words, &((const struct sockaddr_in6 *)ss)->sin6_addr, 16);
	*port_be = ((const struct sockaddr_in6 *)ss)->sin6_port;
	return 4;
}

size_t hvd_sock_diag_tcp_info(const struct nlmsghdr *h, struct tcp_info *info)
{
	const struct rtattr *a = (const struct rtattr *)((const char *)NLMSG_DATA(h) + sizeof(struct inet_diag_msg));
	unsigned left = h->nlmsg_len - NLMSG_LENGTH(sizeof(struct inet_diag_msg));

	memset(info, 0, sizeof(*info));
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == INET_DIAG_INFO) {
			size_t n = RTA_PAYLOAD(a) < sizeof(*info) ? RTA_PAYLOAD(a) : sizeof(*info);

			memcpy(info, RTA_DATA(a), n);
			return n;
		}
	return 0;
}

int hvd_sock_diag_ask(int netlink_fd, uint32_t seq, uint16_t flags, const struct inet_diag_req_v2 *wanted)
{
	static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {.h = {.nlmsg_len = sizeof(q),
		     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		     .nlmsg_flags = NLM_F_REQUEST | flags,
		     .nlmsg_seq = seq},
	       .r = *wanted};

	return sendto(netlink_fd, &q, sizeof(q), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) == sizeof(q) ? 0
														   : -1;
}

int hvd_peer_uid_diag(int netlink_fd, uint32_t seq, const struct sockaddr_storage *peer,
		      const struct sockaddr_storage *local, uid_t *uid, uint64_t *acked)
{
	struct inet_diag_req_v2 wanted = {.sdiag_family = (uint8_t)peer->ss_family,
					  .sdiag_protocol = IPPROTO_TCP,
					  .idiag_ext = acked ? 1 << (INET_DIAG_INFO - 1) : 0,
					  .idiag_states = (uint32_t)-1,
					  .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
	_Alignas(struct nlmsghdr) char buf[4096];
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)buf;
	struct inet_diag_msg m;
	struct tcp_info info;
	uint32_t words[4];
	ssize_t n;

	if (netlink_fd < 0 || peer->ss_family != local->ss_family)
		return -1;
	split_addr(peer, words, &wanted.id.idiag_sport);
	memcpy(wanted.id.idiag_src, words, sizeof(words));
	split_addr(local, words, &wanted.id.idiag_dport);
	memcpy(wanted.id.idiag_dst, words, sizeof(words));
	if (hvd_sock_diag_ask(netlink_fd, seq, 0, &wanted) != 0)
		return -1;
	/* The kernel answers before sendto() returns. */
	do {
		n = recv(netlink_fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(*h) || h->nlmsg_len > (size_t)n)
			return -1;
	} while (h->nlmsg_seq != seq);
	if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		return e->error == -ENOENT ? 1 : -1;
	}
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(m)))
		return -1;
	memcpy(&m, NLMSG_DATA(h), sizeof(m));
	/* If no such socket is connected, the kernel answers with one that listens at the client's port. */
	if (m.idiag_inode == 0 || !is_clients_end(m.idiag_state))
		return 1;
	*uid = m.idiag_uid;
	if (acked) {
		hvd_sock_diag_tcp_info(h, &info);
		*acked = info.tcpi_bytes_acked;
	}
	return 0;
}

struct proc_want {
	uint32_t peer[4], local[4];
	uint16_t peer_port, local_port;
};

static void map_v4(uint32_t words[4])
{
	words[3] = words[0];
	words[0] = words[1] = 0;
	words[2] = htonl(0xffff);
}

/* Read "%08X…:%04X": `n` words, each printed as an integer of the host, and a port. Returns the length, or -1. */
static int read_addr(const char *text, int n, uint32_t words[4], unsigned *port)
{
	int used = 0;

	for (int i = 0; i < n; i++)
		if (sscanf(text + 8 * i, "%8x", &words[i]) != 1)
			return -1;
	if (sscanf(text + 8 * n, ":%x%n", port, &used) != 1)
		return -1;
	return 8 * n + used;
}

static int search_table(const char *path, int n, const struct proc_want *want, uid_t *uid)
{
	FILE *f = fopen(path, "re");
	char line[512];
	int found = 1;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		uint32_t src[4] = {0}, dst[4] = {0};
		unsigned sport, dport, state, owner;
		unsigned long inode;
		int at = 0, used;

		if (sscanf(line, " %*d: %n", &at) < 0 || at == 0)
			continue;
		used = read_addr(line + at, n, src, &sport);
		if (used < 0 || sport != ntohs(want->peer_port))
			continue;
		at += used + 1;
		used = read_addr(line + at, n, dst, &dport);
		if (used < 0 || dport != ntohs(want->local_port) || memcmp(src, want->peer, (size_t)n * 4) != 0 ||
		    memcmp(dst, want->local, (size_t)n * 4) != 0)
			continue;
		/* There can be a second one, which is bound to a device. Both must be the same user's. */
		if (sscanf(line + at + used, " %x %*x:%*x %*x:%*x %*x %u %*u %lu", &state, &owner, &inode) != 3 ||
		    inode == 0 || !is_clients_end(state) || (found == 0 && owner != *uid)) {
			found = 1;
			break;
		}
		*uid = owner;
		found = 0;
	}
	fclose(f);
	return found;
}

int hvd_peer_uid_proc(const struct sockaddr_storage *peer, const struct sockaddr_storage *local, uid_t *uid)
{
	struct proc_want want;
	int n, rc;

	if (peer->ss_family != local->ss_family)
		return -1;
	n = split_addr(peer, want.peer, &want.peer_port);
	split_addr(local, want.local, &want.local_port);
	if (n == 1) {
		rc = search_table("/proc/net/tcp", 1, &want, uid);
		if (rc != 1)
			return rc;
		/* An IPv6 socket with an IPv4 connection is listed with mapped addresses. */
		map_v4(want.peer);
		map_v4(want.local);
	}
	rc = search_table("/proc/net/tcp6", 4, &want, uid);
	return rc < 0 && n == 1 ? 1 : rc;
}

/* 0: the kernel does not say. */
static unsigned state_of(int fd, uint64_t *received)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return 0;
	if (received)
		*received = info.tcpi_bytes_received;
	return info.tcpi_state;
}

bool hvd_tcp_is_open(int fd, uint64_t *received)
{
	unsigned state = state_of(fd, received);

	return state == ESTABLISHED || state == CLOSE_WAIT;
}

bool hvd_tcp_is_established(int fd)
{
	return state_of(fd, NULL) == ESTABLISHED;
}

bool hvd_tcp_has_syn(int fd)
{
	char syn[SYN_MAX];
	socklen_t len = sizeof(syn);

	return getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, syn, &len) == 0 && len > 0;
}

void hvd_tcp_acknowledge(int fd)
{
	const int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}
