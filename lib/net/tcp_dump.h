/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_dump.h - all established TCP connections of this host (of its network namespace), and how long ago data was last sent
 * and received over each, as sock_diag(7) has it.
 */
#ifndef HVD_TCP_DUMP_H
#define HVD_TCP_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* One end of a connection. Addresses and ports are as in struct inet_diag_sockid, in network byte order. */
struct hvd_tcp_end {
	uint32_t inode; /* of the socket, as in the links of /proc/PID/fd; 0: no process has it open */
	sa_family_t family;
	uint16_t port, peer_port;
	uint32_t addr[4], peer[4];
	uint32_t sent_ms, received_ms; /* so long ago; since the connection was made, if there was no data */
};

enum hvd_tcp_dump_state {
	HVD_TCP_DUMP_MORE, /* read on, soon */
	HVD_TCP_DUMP_WAIT, /* read on when the descriptor is readable */
	HVD_TCP_DUMP_DONE,
	HVD_TCP_DUMP_FAILED
};

/* Ask for all connections of AF_INET or AF_INET6. `netlink_fd` is one of hvd_peer_uid_open(); `seq` is a new number for each
 * call. -1 if the kernel cannot be asked. */
int hvd_tcp_dump_ask(int netlink_fd, sa_family_t family, uint32_t seq);
/* Read the next part of the answer, of at most some hundred connections, and call `fn` for each. */
enum hvd_tcp_dump_state hvd_tcp_dump_read(int netlink_fd, uint32_t seq,
					  void (*fn)(const struct hvd_tcp_end *end, void *arg), void *arg);

/* Are both ends on this host? */
bool hvd_tcp_end_is_local(const struct hvd_tcp_end *end);

#endif
