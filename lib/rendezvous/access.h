/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who may connect.
 *
 * Horovod's clients cannot prove who they are, so two things are looked at that
 * they cannot choose: the address that they connect from, and, when that is an
 * address of this very host, the user whose socket it is.
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

/* An address as IPv6, in its mapped form where it is IPv4: one kind to compare. */
struct in6_addr hvd_rv_mapped(const struct sockaddr_storage *ss);

enum hvd_rv_verdict {
	HVD_RV_WELCOME,
	HVD_RV_NOT_LISTED, /* the address is not in the set */
	HVD_RV_OTHER_USER, /* a process of another user on this host, or one that has gone already */
};

/* Anyone may connect from other hosts, and this process's effective user from this one. */
struct hvd_rv_access *hvd_rv_access_create(void);
void hvd_rv_access_destroy(struct hvd_rv_access *ac); /* NULL is fine */

/* Add a numeric IPv4 or IPv6 address. From the first one on only listed addresses may connect, besides
 * loopback, which only this host's own processes can use. Adding one twice is fine. */
int hvd_rv_access_allow(struct hvd_rv_access *ac, const char *ip, struct hvd_err *err);
/* These, and no others, instead of all that were added: from now on only they may connect, and loopback. None is fine.
 * Costs one sort, however many there are. */
void hvd_rv_access_replace(struct hvd_rv_access *ac, const struct hvd_addr *addrs, size_t n);
/* Would the address of `peer` be let in now? Whose process it is is not asked. */
bool hvd_rv_access_listed(struct hvd_rv_access *ac, const struct sockaddr_storage *peer);

/* Let another user's processes connect from this host, too. */
void hvd_rv_access_allow_uid(struct hvd_rv_access *ac, uid_t uid);
/* Ask no process of this host who it belongs to. */
void hvd_rv_access_any_user(struct hvd_rv_access *ac, bool any);

/* Judge an accepted TCP connection from `peer` to `local`; NULL: the socket knows. When it comes from this host, *uid
 * is whose it is, or (uid_t)-1 when that is not known; otherwise it is not touched. Never blocks on the network. */
enum hvd_rv_verdict hvd_rv_access_check(struct hvd_rv_access *ac, int fd, const struct sockaddr_storage *peer,
					const struct sockaddr_storage *local, uid_t *uid);

#endif
