/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock_diag.h - TCP sockets as the kernel reports them (sock_diag(7)): who owns the other end of a connection between two
 * processes of this host, and in what state a connection is.
 */
#ifndef HVD_SOCK_DIAG_H
#define HVD_SOCK_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* <linux/tcp.h> has struct tcp_info, and does not go with <netinet/tcp.h>. */
struct inet_diag_req_v2;
struct nlmsghdr;
struct tcp_info;

/* A netlink descriptor for hvd_peer_uid_diag(), or -1. The caller closes it. */
int hvd_peer_uid_open(void);

/*
 * Find the owner of the socket whose own address is `peer` and whose peer's address is `local`. Returns 0 with *uid; 1
 * if there is no such client; -1 if the kernel could not be asked. There is no such client if no socket has these
 * addresses, if the socket still connects or listens, or if no process has it open any longer (the kernel then reports
 * user 0, which is wrong). `seq` must be a new number for each call: it tells the answer from a late answer to an
 * earlier call. `acked` may be NULL. Otherwise *acked is how much of the socket's output was acknowledged: its SYN,
 * which counts as 1, and bytes; 0 if the kernel does not report it.
 */
int hvd_peer_uid_diag(int netlink_fd, uint32_t seq, const struct sockaddr_storage *peer,
		      const struct sockaddr_storage *local, uid_t *uid, uint64_t *acked);
/* The same from /proc/net/tcp and tcp6. Slow when there are many sockets. */
int hvd_peer_uid_proc(const struct sockaddr_storage *peer, const struct sockaddr_storage *local, uid_t *uid);

/* Is the connection of an accepted socket open: can the client still send, or has it at most ended its own direction?
 * `received` may be NULL; else *received is how many bytes have arrived. */
bool hvd_tcp_is_open(int fd, uint64_t *received);
/* Is the connection open in both directions? */
bool hvd_tcp_is_established(int fd);
/* Did the kernel keep a record of the connection since its SYN? It does not for a connection from a SYN cookie. The
 * listening socket must have TCP_SAVE_SYN. True once for each connection: the kernel then forgets the SYN. */
bool hvd_tcp_has_syn(int fd);
/* Acknowledge at once the bytes that have arrived. */
void hvd_tcp_acknowledge(int fd);

/* Turn ::ffff:a.b.c.d into a.b.c.d, in place. */
void hvd_unmap_v4(struct sockaddr_storage *ss);

/* Ask the kernel for TCP sockets. `flags` are NLM_F_DUMP, or 0 for one socket. -1: it cannot be asked. */
int hvd_sock_diag_ask(int netlink_fd, uint32_t seq, uint16_t flags, const struct inet_diag_req_v2 *wanted);

/* The TCP_INFO behind a struct inet_diag_msg, which `h` must have. Returns how many bytes of *info the kernel has
 * filled (0 if it sent none); the other bytes are zero. */
size_t hvd_sock_diag_tcp_info(const struct nlmsghdr *h, struct tcp_info *info);

#endif
