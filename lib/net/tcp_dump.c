/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_dump.h"

#include "sock_diag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#define ESTABLISHED 1 /* in sock_diag's questions and answers */
#define PART        32768

int hvd_tcp_dump_ask(int netlink_fd, sa_family_t family, uint32_t seq)
{
	const struct inet_diag_req_v2 wanted = {.sdiag_family = (uint8_t)family,
						.sdiag_protocol = IPPROTO_TCP,
						.idiag_ext = 1 << (INET_DIAG_INFO - 1),
						.idiag_states = 1U << ESTABLISHED};

	return hvd_sock_diag_ask(netlink_fd, seq, NLM_F_DUMP, &wanted);
}

static void on_message(const struct nlmsghdr *h, void (*fn)(const struct hvd_tcp_end *end, void *arg), void *arg)
{
	struct hvd_tcp_end end = {0};
	struct inet_diag_msg m;
	struct tcp_info info;

	memcpy(&m, NLMSG_DATA(h), sizeof(m));
	if (m.idiag_state != ESTABLISHED || hvd_sock_diag_tcp_info(h, &info) <= offsetof(struct tcp_info, tcpi_pmtu))
		return;
	end.inode = m.idiag_inode;
	end.family = m.idiag_family;
	end.port = m.id.idiag_sport;
	end.peer_port = m.id.idiag_dport;
	memcpy(end.addr, m.id.idiag_src, sizeof(end.addr));
	memcpy(end.peer, m.id.idiag_dst, sizeof(end.peer));
	end.sent_ms = info.tcpi_last_data_sent;
	end.received_ms = info.tcpi_last_data_recv;
	fn(&end, arg);
}

enum hvd_tcp_dump_state hvd_tcp_dump_read(int netlink_fd, uint32_t seq,
					  void (*fn)(const struct hvd_tcp_end *end, void *arg), void *arg)
{
	_Alignas(struct nlmsghdr) char buf[PART];
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)buf;
	ssize_t n = recv(netlink_fd, buf, sizeof(buf), MSG_DONTWAIT);
	size_t left = n > 0 ? (size_t)n : 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return HVD_TCP_DUMP_WAIT;
	if (n <= 0)
		return HVD_TCP_DUMP_FAILED;
	for (; left >= sizeof(*h) && NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_seq != seq)
			continue; /* an answer to an earlier question, which was given up */
		if (h->nlmsg_type == NLMSG_DONE)
			return HVD_TCP_DUMP_DONE;
		if (h->nlmsg_type == NLMSG_ERROR)
			return HVD_TCP_DUMP_FAILED;
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			on_message(h, fn, arg);
	}
	return HVD_TCP_DUMP_MORE;
}

bool hvd_tcp_end_is_local(const struct hvd_tcp_end *end)
{
	const uint32_t loopback[4] = {[3] = htonl(1)};
	const uint32_t mapped[3] = {[2] = htonl(0xffff)};
	const uint32_t *v4 = NULL;

	if (memcmp(end->addr, end->peer, sizeof(end->addr)) == 0)
		return true;
	if (end->family == AF_INET)
		v4 = &end->peer[0];
	else if (memcmp(end->peer, mapped, sizeof(mapped)) == 0)
		v4 = &end->peer[3];
	return v4 ? ntohl(*v4) >> 24 == 127 : memcmp(end->peer, loopback, sizeof(loopback)) == 0;
}
