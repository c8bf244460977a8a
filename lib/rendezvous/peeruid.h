/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peeruid.h - whose socket is at the other end of a local TCP connection.
 */
#ifndef HVD_RENDEZVOUS_PEERUID_H
#define HVD_RENDEZVOUS_PEERUID_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* A netlink descriptor for hvd_peer_uid_diag(), or -1 when there is none to be had. */
int hvd_peer_uid_open(void);

/*
 * The owner of the socket that has `peer` as its own address and `local` as its peer's. Returns 0; 1 when there
 * is no such socket or no process holds it any more (the kernel then reports user 0, which must not be believed);
 * -1 when the question could not be asked. `seq` is another number for each question, which tells its answer from one
 * to a question that was given up.
 */
int hvd_peer_uid_diag(int netlink_fd, uint32_t seq, const struct sockaddr_storage *peer,
		      const struct sockaddr_storage *local, uid_t *uid);
/* The same from /proc/net/tcp and tcp6. Slow where there are many sockets. */
int hvd_peer_uid_proc(const struct sockaddr_storage *peer, const struct sockaddr_storage *local, uid_t *uid);

/* Turn ::ffff:a.b.c.d into a.b.c.d, in place. */
void hvd_unmap_v4(struct sockaddr_storage *ss);

#endif
