/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who may connect to the rendezvous.
 *
 * Clients cannot prove who they are. So the server checks two things that a client cannot choose: the address from which
 * it connects, and the user who owns the client's socket.
 *
 * That socket is looked up by its addresses and ports, by the server if the client is on this host. It must be the
 * socket at the other end of the accepted one, and not a later socket with the same port. It is the right one if the
 * accepted socket is still ESTABLISHED or CLOSE_WAIT after the look-up, for these reasons:
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
 *
 * If the client is on another host, that host looks the socket up (remote_owner.h), after the connection was accepted
 * here and before the answer has arrived. The reasons above are about this host's table and about the state of the socket
 * that was found, so they hold over a network:
 *   - Segments that were lost. If the client's reset or FIN was, the accepted socket stays open here while the port is
 *     given to somebody else there. The SYN of that socket reaches the accepted one, so it stays in SYN_SENT.
 *   - Segments that were delayed make a connection only from a SYN cookie: the last one of a client that has ended, while
 *     a later socket with its port considers itself connected. That socket has a higher initial sequence number, since
 *     the kernel counts it up by a clock, for longer than a cookie lasts. So what is acknowledged to it of the earlier
 *     client's bytes is less than all bytes that have arrived here. These are counted after the answer.
 *   - Routes: the look-up does not depend on interfaces, so the two directions may differ. Where an address or a port is
 *     translated on the way, no socket is found. The same holds for a socket in another network namespace.
 *   - Addresses: a host that has the same address as the client's has no socket that is connected to this one.
 * Sockets are not found, or count as another user's, rather than the other way round: a descriptor that was passed on
 * belongs to the user who has created the socket.
 */
#ifndef HVD_RENDEZVOUS_ACCESS_H
#define HVD_RENDEZVOUS_ACCESS_H

#include "lib/base/err.h"
#include "lib/net/addr.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct hvd_rv_access;

enum hvd_rv_verdict {
	HVD_RV_WELCOME,
	HVD_RV_NOT_LISTED, /* the address is not one of those that may connect */
	HVD_RV_OTHER_USER, /* a process of another user of this host, or a process that has ended */
	HVD_RV_ENDED,      /* the client, of this host, has reset the connection: its owner is unknown */
	HVD_RV_UNPROVEN,   /* ask again when the client has sent something, or, if it has, a little later */
	HVD_RV_OTHER_HOST, /* the address may connect; whose the client is, only its host can tell */
};

/* At first any address may connect. From this host only the effective user of this process may. */
struct hvd_rv_access *hvd_rv_access_create(void);
void hvd_rv_access_destroy(struct hvd_rv_access *ac); /* NULL is fine */

/* Let a numeric IPv4 or IPv6 address connect. After the first call only the addresses of these calls and loopback may
 * connect. Adding an address twice is fine. */
int hvd_rv_access_allow(struct hvd_rv_access *ac, const char *ip, struct hvd_err *err);
/* From now on only these addresses and loopback may connect; addresses that were added before may not. `n` may be 0. */
void hvd_rv_access_replace(struct hvd_rv_access *ac, const struct hvd_addr *addrs, size_t n);
/* May the address of `peer` connect now? The user is not checked. */
bool hvd_rv_access_listed(struct hvd_rv_access *ac, const struct sockaddr_storage *peer);

/* Let the processes of all users connect, from any host. */
void hvd_rv_access_any_user(struct hvd_rv_access *ac, bool any);

/* Decide on an accepted TCP connection from `peer` to `local` (NULL: the socket's own address), of which nothing may
 * have been read. If the connection comes from this host, *uid is the owner of the client's socket, or (uid_t)-1 if
 * that is not known. Otherwise *uid is unchanged. Never waits for the network. */
enum hvd_rv_verdict hvd_rv_access_check(struct hvd_rv_access *ac, int fd, const struct sockaddr_storage *peer,
					const struct sockaddr_storage *local, uid_t *uid);
/* Decide on it after the look-up of its client's socket. `owner` is what was found, as in lib/protocol/owner_question.h.
 * `has_syn`: the kernel has kept a record of the connection (sock_diag.h). */
enum hvd_rv_verdict hvd_rv_access_judge(int fd, bool has_syn, int64_t owner);

#endif
