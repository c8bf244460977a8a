/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peeruid.h - the user who owns the other end of a TCP connection between two processes of this host.
 */
#ifndef HVD_RENDEZVOUS_PEERUID_H
#define HVD_RENDEZVOUS_PEERUID_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* A netlink descriptor for hvd_peer_uid_diag(), or -1. The caller closes it. */
int hvd_peer_uid_open(void);

/*
 * Find the owner of the socket whose own address is `peer` and whose peer's address is `local`. Returns 0 with *uid; 1
 * when there is no such socket or no process has it open any more (the kernel then reports user 0, which is wrong); -1
 * when the kernel could not be asked. `seq` must be another number for each call: it tells the answer from a late one
 * to an earlier call.
 */
int hvd_peer_uid_diag(int netlink_fd, uint32_t seq, const struct sockaddr_storage *peer,
		      const struct sockaddr_storage *local, uid_t *uid);
/* The same from /proc/net/tcp and tcp6. Slow when there are many sockets. */
int hvd_peer_uid_proc(const struct sockaddr_storage *peer, const struct sockaddr_storage *local, uid_t *uid);

/* Turn ::ffff:a.b.c.d into a.b.c.d, in place. */
void hvd_unmap_v4(struct sockaddr_storage *ss);

#endif
