/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who may connect to the rendezvous.
 *
 * Horovod's clients cannot prove who they are. So the server checks two things that a client cannot choose: the address
 * that it connects from; and, when that is an address of this host, the user who owns the client's socket.
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
};

/* At first any user may connect from other hosts, and only the effective user of this process from this host. */
struct hvd_rv_access *hvd_rv_access_create(void);
void hvd_rv_access_destroy(struct hvd_rv_access *ac); /* NULL is fine */

/* Let a numeric IPv4 or IPv6 address connect. After the first call only the addresses of these calls and loopback may
 * connect. Adding an address twice is fine. */
int hvd_rv_access_allow(struct hvd_rv_access *ac, const char *ip, struct hvd_err *err);
/* From now on only these addresses and loopback may connect, and not those that were added before. `n` may be 0. */
void hvd_rv_access_replace(struct hvd_rv_access *ac, const struct hvd_addr *addrs, size_t n);
/* May the address of `peer` connect now? The user is not checked. */
bool hvd_rv_access_listed(struct hvd_rv_access *ac, const struct sockaddr_storage *peer);

/* Let the processes of all users connect from this host. */
void hvd_rv_access_any_user(struct hvd_rv_access *ac, bool any);

/* Decide on an accepted TCP connection from `peer` to `local` (NULL: the address is asked of the socket). When the
 * connection comes from this host, *uid is the owner of the client's socket, or (uid_t)-1 when that is not known.
 * Otherwise *uid is not changed. Never waits for the network. */
enum hvd_rv_verdict hvd_rv_access_check(struct hvd_rv_access *ac, int fd, const struct sockaddr_storage *peer,
					const struct sockaddr_storage *local, uid_t *uid);

#endif
