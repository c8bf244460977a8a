/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who may connect to the rendezvous.
 *
 * Horovod's clients cannot prove who they are. So the server checks two things that a client cannot choose: the address
 * from which it connects; and, if that is an address of this host, the user who owns the client's socket.
 *
 * The server looks that socket up by its addresses and ports. It must be the socket at the other end of the accepted
 * one, and not a later socket with the same port. It is the right one if the accepted socket is still ESTABLISHED or
 * CLOSE_WAIT after the look-up, for these reasons:
 *   - A socket in these states is in the kernel's table, where no other has the same addresses and ports. It leaves the
 *     table when a reset reaches it (tcp_done()), although it can then still be accepted and read. So it has been in
 *     the table since the connection was made, also at the time of the look-up.
 *   - While it is in the table, a SYN from the same port reaches it, and not the listening socket. The answer makes no
 *     connection. So a socket that gets the port later stays in SYN_SENT: after a reset that was lost or is on its way,
 *     after TIME_WAIT, or beside the first socket, which SO_BINDTODEVICE allows.
 *   - A look-up that finds a socket in SYN_SENT, or one that listens at that port, does not count.
 *
 * SYN cookies are an exception: the kernel keeps no record between its answer to a SYN and the client's next segment.
 * Two sockets with one port, one of them bound to a device, can then both consider themselves connected, and the
 * segment that arrives first makes the connection. So a connection that was made from a cookie must also show that the
 * received bytes were acknowledged to the socket of the look-up (HVD_RV_UNPROVEN).
 */
#ifndef HVD_RENDEZVOUS_ACCESS_H
#define HVD_RENDEZVOUS_ACCESS_H

#include "lib/base/err.h"
#include "lib/net/addr.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct hvd_rv_access;

enum hvd_rv_verdict {
	HVD_RV_WELCOME,
	HVD_RV_NOT_LISTED, /* the address is not one of those that may connect */
	HVD_RV_OTHER_USER, /* a process of another user of this host, or a process that has ended */
	HVD_RV_ENDED,      /* the client, of this host, has reset the connection: its owner is unknown */
	HVD_RV_UNPROVEN,   /* ask again when the client has sent something, or, if it has, a little later */
};

/* At first any user may connect from other hosts, and only the effective user of this process from this host. */
struct hvd_rv_access *hvd_rv_access_create(void);
void hvd_rv_access_destroy(struct hvd_rv_access *ac); /* NULL is fine */

/* Let a numeric IPv4 or IPv6 address connect. After the first call only the addresses of these calls and loopback may
 * connect. Adding an address twice is fine. */
int hvd_rv_access_allow(struct hvd_rv_access *ac, const char *ip, struct hvd_err *err);
/* From now on only these addresses and loopback may connect; addresses that were added before may not. `n` may be 0. */
void hvd_rv_access_replace(struct hvd_rv_access *ac, const struct hvd_addr *addrs, size_t n);
/* May the address of `peer` connect now? The user is not checked. */
bool hvd_rv_access_listed(struct hvd_rv_access *ac, const struct sockaddr_storage *peer);

/* Let the processes of all users connect from this host. */
void hvd_rv_access_any_user(struct hvd_rv_access *ac, bool any);

/* Decide on an accepted TCP connection from `peer` to `local` (NULL: the socket's own address), of which nothing may
 * have been read. If the connection comes from this host, *uid is the owner of the client's socket, or (uid_t)-1 if
 * that is not known. Otherwise *uid is unchanged. Never waits for the network. */
enum hvd_rv_verdict hvd_rv_access_check(struct hvd_rv_access *ac, int fd, const struct sockaddr_storage *peer,
					const struct sockaddr_storage *local, uid_t *uid);

#endif
