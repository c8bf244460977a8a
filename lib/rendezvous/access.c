/* SPDX-License-Identifier: Apache-2.0 */
#include "access.h"

#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/net/sock_diag.h"
#include "lib/protocol/owner_question.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCAL_AGE 5.0 /* seconds after which the list of this host's addresses is read again */

/* A set of addresses. It is sorted when it is first searched, so that adding many costs one sort. */
struct addr_set {
	struct hvd_addr *v;
	size_t n, room;
	bool sorted;
};

struct hvd_rv_access {
	struct addr_set allowed;
	bool listed; /* only `allowed` and loopback may connect */
	struct addr_set local;
	hvd_time local_until;
	uid_t uid;
	bool any_user;
	int netlink_fd;
	uint32_t questions;
};

static int compare(const void *a, const void *b)
{
	return hvd_addr_compare(a, b);
}

static bool set_has(struct addr_set *set, const struct hvd_addr *addr)
{
	if (set->n == 0)
		return false;
	if (!set->sorted)
		qsort(set->v, set->n, sizeof(*set->v), compare);
	set->sorted = true;
	return bsearch(addr, set->v, set->n, sizeof(*set->v), compare);
}

static void set_append(struct addr_set *set, const struct hvd_addr *addr)
{
	set->v = hvd_xgrow(set->v, set->n, &set->room, sizeof(*set->v));
	set->v[set->n++] = *addr;
	set->sorted = false;
}

struct hvd_rv_access *hvd_rv_access_create(void)
{
	struct hvd_rv_access *ac = hvd_xcalloc(1, sizeof(*ac));

	ac->netlink_fd = hvd_peer_uid_open();
	ac->uid = geteuid();
	return ac;
}

void hvd_rv_access_destroy(struct hvd_rv_access *ac)
{
	if (!ac)
		return;
	if (ac->netlink_fd >= 0)
		close(ac->netlink_fd);
	free(ac->allowed.v);
	free(ac->local.v);
	free(ac);
}

int hvd_rv_access_allow(struct hvd_rv_access *ac, const char *ip, struct hvd_err *err)
{
	struct sockaddr_storage ss;
	struct hvd_addr addr;

	if (hvd_sockaddr_parse(ip, &ss) != 0)
		return hvd_err_set(err, HVD_E_USAGE, "'%s' is not an IPv4 or IPv6 address", ip);
	hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, NULL);
	set_append(&ac->allowed, &addr);
	ac->listed = true;
	return 0;
}

void hvd_rv_access_replace(struct hvd_rv_access *ac, const struct hvd_addr *addrs, size_t n)
{
	ac->allowed.n = 0;
	ac->listed = true;
	for (size_t i = 0; i < n; i++)
		set_append(&ac->allowed, &addrs[i]);
}

void hvd_rv_access_any_user(struct hvd_rv_access *ac, bool any)
{
	ac->any_user = any;
}

static void refresh_local(struct hvd_rv_access *ac)
{
	struct ifaddrs *list;

	if (getifaddrs(&list) != 0)
		return; /* the old list is better than none */
	ac->local.n = 0;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct hvd_addr addr;

		if (i->ifa_addr && hvd_addr_from_sockaddr(i->ifa_addr, &addr, NULL) == 0)
			set_append(&ac->local, &addr);
	}
	freeifaddrs(list);
	ac->local_until = hvd_deadline_in(LOCAL_AGE);
}

static bool is_local(struct hvd_rv_access *ac, const struct hvd_addr *from)
{
	if (hvd_addr_loopback(from))
		return true;
	if (hvd_now() >= ac->local_until)
		refresh_local(ac);
	return set_has(&ac->local, from);
}

static bool is_listed(struct hvd_rv_access *ac, const struct hvd_addr *from)
{
	return !ac->listed || hvd_addr_loopback(from) || set_has(&ac->allowed, from);
}

bool hvd_rv_access_listed(struct hvd_rv_access *ac, const struct sockaddr_storage *peer)
{
	struct hvd_addr from;

	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &from, NULL);
	return is_listed(ac, &from);
}

enum hvd_rv_verdict hvd_rv_access_judge(int fd, bool has_syn, int64_t owner)
{
	uint64_t received = 0;

	if (owner < 0)
		return HVD_RV_OTHER_USER;
	if (!hvd_tcp_is_open(fd, &received))
		return HVD_RV_ENDED;
	return has_syn || (received > 0 && (uint64_t)owner > received) ? HVD_RV_WELCOME : HVD_RV_UNPROVEN;
}

/* `from` and `to` are this host's. The order matters: see access.h. */
static enum hvd_rv_verdict check_owner(struct hvd_rv_access *ac, int fd, const struct sockaddr_storage *from,
				       const struct sockaddr_storage *to, uid_t *uid)
{
	uint64_t acked = 0;
	bool has_syn;
	int rc;

	if (!hvd_tcp_is_open(fd, NULL)) /* in a flood most are not, and asking this is quick */
		return HVD_RV_ENDED;
	has_syn = hvd_tcp_has_syn(fd);
	if (!has_syn)
		hvd_tcp_acknowledge(fd);
	rc = hvd_peer_uid_diag(ac->netlink_fd, ++ac->questions, from, to, uid, has_syn ? NULL : &acked);
	if (rc < 0)
		rc = hvd_peer_uid_proc(from, to, uid);
	return hvd_rv_access_judge(fd, has_syn, rc == 0 && *uid == ac->uid ? (int64_t)acked : HVD_OWNER_OTHER);
}

enum hvd_rv_verdict hvd_rv_access_check(struct hvd_rv_access *ac, int fd, const struct sockaddr_storage *peer,
					const struct sockaddr_storage *local, uid_t *uid)
{
	struct sockaddr_storage from = *peer, to = {0};
	socklen_t len = sizeof(to);
	struct hvd_addr addr;

	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &addr, NULL);
	if (!is_listed(ac, &addr))
		return HVD_RV_NOT_LISTED;
	if (ac->any_user)
		return HVD_RV_WELCOME;
	if (!is_local(ac, &addr))
		return HVD_RV_OTHER_HOST;
	*uid = (uid_t)-1;
	if (local)
		to = *local;
	else if (getsockname(fd, (struct sockaddr *)&to, &len) != 0)
		return HVD_RV_OTHER_USER;
	hvd_unmap_v4(&from);
	hvd_unmap_v4(&to);
	return check_owner(ac, fd, &from, &to, uid);
}
