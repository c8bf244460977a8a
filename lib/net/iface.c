/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface.c - builds the list of usable interfaces from the kernel's list and sysfs, and says how good an interface is.
 */
#include "iface.h"

#include "iface_internal.h"
#include "lib/base/xalloc.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_names[] = {
	[HVD_IFACE_INFINIBAND] = "infiniband",
	[HVD_IFACE_ROCE] = "roce",
	[HVD_IFACE_ETHERNET] = "ethernet",
	[HVD_IFACE_BOND] = "bond",
	[HVD_IFACE_VLAN] = "vlan",
	[HVD_IFACE_MACVLAN] = "macvlan",
	[HVD_IFACE_VETH] = "veth",
	[HVD_IFACE_WIRELESS] = "wireless",
	[HVD_IFACE_VIRTUAL] = "virtual",
	[HVD_IFACE_BRIDGE] = "bridge",
	[HVD_IFACE_TUNNEL] = "tunnel",
	[HVD_IFACE_LOOPBACK] = "loopback",
};

#define N_KINDS (sizeof(kind_names) / sizeof(*kind_names))

const char *hvd_iface_kind_name(enum hvd_iface_kind kind)
{
	return (size_t)kind < N_KINDS ? kind_names[kind] : "unknown";
}

int hvd_iface_kind_of(const char *name)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (strcmp(kind_names[i], name) == 0)
			return (int)i;
	return -1;
}

/* ---- rank ---- */

/* Classes of interfaces, best first. Within a class speed decides. */
enum {
	CLASS_INFINIBAND,
	CLASS_ROCE,
	CLASS_NIC,
	CLASS_VETH, /* in a container often the only interface */
	CLASS_VIRTUAL,
	CLASS_WIRELESS,
	CLASS_INWARD, /* most likely leads to virtual machines or service processors of this host only */
	CLASS_TUNNEL,
	CLASS_RUNTIME, /* of a container or VM runtime */
};

static int class_of(const struct hvd_iface *i)
{
	if (i->nat_default)
		return CLASS_RUNTIME;
	switch (i->kind) {
	case HVD_IFACE_INFINIBAND:
		return CLASS_INFINIBAND;
	case HVD_IFACE_ROCE:
		return CLASS_ROCE;
	case HVD_IFACE_ETHERNET:
	case HVD_IFACE_BOND:
	case HVD_IFACE_VLAN:
	case HVD_IFACE_MACVLAN:
		return CLASS_NIC;
	case HVD_IFACE_VETH:
		return CLASS_VETH;
	case HVD_IFACE_WIRELESS:
		return CLASS_WIRELESS;
	case HVD_IFACE_BRIDGE:
		return i->uplink ? CLASS_NIC : CLASS_INWARD;
	case HVD_IFACE_TUNNEL:
		return CLASS_TUNNEL;
	case HVD_IFACE_LOOPBACK:
		return CLASS_RUNTIME;
	case HVD_IFACE_VIRTUAL:
		break;
	}
	return CLASS_VIRTUAL;
}

/* Are all addresses in 169.254.0.0/16? Service processors (BMCs) give their host such a network over USB, and it is the
 * same on every host. */
static bool only_v4_link_local(const struct hvd_iface *i)
{
	for (int k = 0; k < i->n_addrs; k++)
		if (i->addrs[k].addr.family != AF_INET || !hvd_addr_link_local(&i->addrs[k].addr))
			return false;
	return i->n_addrs > 0;
}

int64_t hvd_iface_rank(const struct hvd_iface *i)
{
	int64_t class = class_of(i), speed = i->speed;

	if (class<CLASS_INWARD &&class> CLASS_ROCE && only_v4_link_local(i))
		class = CLASS_INWARD;
	if (speed < 0)
		speed = 0;
	if (speed > INT32_MAX)
		speed = INT32_MAX;
	return (class << 32) + (INT32_MAX - speed);
}

/* ---- the list ---- */

void hvd_ifaces_clear(struct hvd_ifaces *ifs)
{
	if (!ifs)
		return;
	for (int i = 0; i < ifs->n; i++)
		free(ifs->v[i].addrs);
	free(ifs->v);
	free(ifs->dropped);
	free(ifs->own);
	memset(ifs, 0, sizeof(*ifs));
}

/* Can other hosts reach this host by the address, once its state allows that? */
static bool addr_global(const struct hvd_nl_addr *a)
{
	static const unsigned char zero[15];

	if (a->scope >= RT_SCOPE_HOST || hvd_addr_loopback(&a->addr))
		return false;
	if (a->addr.family == AF_INET)
		return ntohl(a->addr.u.v4.s_addr) >> 24 != 0;
	return a->scope != RT_SCOPE_LINK && !hvd_addr_link_local(&a->addr) &&
	       memcmp(&a->addr.u.v6, zero, sizeof(zero)) != 0;
}

/* The order of the addresses of one interface: lower is better. */
static int addr_order(const struct hvd_iface_addr *a)
{
	return a->deprecated * 4 + a->temporary * 2 + hvd_addr_link_local(&a->addr);
}

/* Insert the address behind all that are as good or better: equal addresses keep the kernel's order. */
static void add_addr(struct hvd_iface *i, const struct hvd_nl_addr *nl, bool first)
{
	struct hvd_iface_addr a = {.addr = nl->addr, .prefix = nl->prefix, .first = first};
	int at = i->n_addrs;

	a.deprecated = nl->flags & IFA_F_DEPRECATED;
	a.temporary = nl->addr.family == AF_INET6 && (nl->flags & IFA_F_TEMPORARY);
	i->addrs = hvd_xrealloc(i->addrs, (size_t)i->n_addrs + 1, sizeof(*i->addrs));
	for (; at > 0 && addr_order(&i->addrs[at - 1]) > addr_order(&a); at--)
		i->addrs[at] = i->addrs[at - 1];
	i->addrs[at] = a;
	i->n_addrs++;
}

/* Collect the interface's usable addresses. Returns NULL, or why there is none. */
static const char *take_addrs(struct hvd_iface *i, const struct hvd_nl_dump *d, const struct hvd_nl_link *l)
{
	bool local = false, tentative = false, duplicate = false, first = true;

	for (size_t k = 0; k < d->n_addrs; k++) {
		const struct hvd_nl_addr *a = &d->addrs[k];
		bool named = !a->label[0] || strcmp(a->label, l->name) == 0;

		if (a->index != l->index)
			continue;
		if (!addr_global(a))
			local = true;
		else if (a->flags & IFA_F_DADFAILED)
			duplicate = true;
		else if ((a->flags & IFA_F_TENTATIVE) && !(a->flags & IFA_F_OPTIMISTIC))
			tentative = true;
		else
			add_addr(i, a, first && named);
		first = first && !named;
	}
	if (i->n_addrs)
		return NULL;
	if (tentative)
		return "has an address that the kernel is still checking for duplicates";
	if (duplicate)
		return "has an address that another host also uses";
	if (l->master)
		return "is a port of another interface";
	return local ? "has only link-local addresses" : "has no address";
}

static enum hvd_iface_kind kind_by_name(const char *k)
{
	static const struct {
		const char *name;
		enum hvd_iface_kind kind;
	} known[] = {
		{"bond", HVD_IFACE_BOND},       {"team", HVD_IFACE_BOND},        {"vlan", HVD_IFACE_VLAN},
		{"macvlan", HVD_IFACE_MACVLAN}, {"macvtap", HVD_IFACE_MACVLAN},  {"ipvlan", HVD_IFACE_MACVLAN},
		{"veth", HVD_IFACE_VETH},       {"bridge", HVD_IFACE_BRIDGE},    {"openvswitch", HVD_IFACE_BRIDGE},
		{"dummy", HVD_IFACE_VIRTUAL},   {"ifb", HVD_IFACE_VIRTUAL},      {"vrf", HVD_IFACE_VIRTUAL},
		{"nlmon", HVD_IFACE_VIRTUAL},   {"ipoib", HVD_IFACE_INFINIBAND},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(known[i].name, k) == 0)
			return known[i].kind;
	return HVD_IFACE_TUNNEL; /* tun, wireguard, vxlan, gre, ipip, sit, ppp … there are many */
}

static enum hvd_iface_kind kind_of(const struct hvd_nl_link *l, const struct hvd_nic *nic)
{
	if (l->flags & IFF_LOOPBACK)
		return HVD_IFACE_LOOPBACK;
	if (l->arp == ARPHRD_INFINIBAND)
		return HVD_IFACE_INFINIBAND;
	if (l->kind[0])
		return kind_by_name(l->kind);
	if (nic->wireless)
		return HVD_IFACE_WIRELESS;
	if (l->arp != ARPHRD_ETHER)
		return HVD_IFACE_TUNNEL;
	if (nic->rdma)
		return HVD_IFACE_ROCE;
	return nic->known && !nic->device ? HVD_IFACE_VIRTUAL : HVD_IFACE_ETHERNET;
}

/* Does the bridge lead out of this host? It does when a device, a bond or a VLAN is among its ports. */
static bool has_uplink(const struct hvd_nl_dump *d, int bridge)
{
	for (size_t k = 0; k < d->n_links; k++) {
		const struct hvd_nl_link *l = &d->links[k];

		if (l->master == bridge && l->arp == ARPHRD_ETHER &&
		    (!l->kind[0] || strcmp(l->kind, "bond") == 0 || strcmp(l->kind, "team") == 0 ||
		     strcmp(l->kind, "vlan") == 0))
			return true;
	}
	return false;
}

/* Is this a name that container and VM runtimes give to networks inside this host? */
static bool runtime_name(const char *name)
{
	static const char *const prefixes[] = {"docker", "virbr",  "lxcbr",   "lxdbr",   "incusbr",
					       "podman", "cni",    "flannel", "cali",    "tunl",
					       "kube-",  "cilium", "vmnet",   "vboxnet", "nerdctl"};
	size_t hex;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	/* Docker calls a network's bridge br- and the first 12 digits of the network's id. */
	if (strncmp(name, "br-", 3) != 0)
		return false;
	hex = strspn(name + 3, "0123456789abcdef");
	return hex == 12 && name[3 + hex] == '\0';
}

static void drop(struct hvd_ifaces *out, const struct hvd_nl_link *l, const char *reason)
{
	struct hvd_iface_drop *d;

	out->dropped = hvd_xrealloc(out->dropped, (size_t)out->n_dropped + 1, sizeof(*out->dropped));
	d = &out->dropped[out->n_dropped++];
	memcpy(d->name, l->name, sizeof(d->name));
	d->reason = reason;
}

struct query {
	const char *sysfs;
	bool no_numa;
	int sock;
	struct hvd_numa numa;
};

static void take_link(struct hvd_ifaces *out, struct query *q, const struct hvd_nl_dump *d, const struct hvd_nl_link *l)
{
	struct hvd_iface i = {.index = l->index, .mtu = l->mtu, .master = l->master, .numa = -1};
	const char *reason = NULL;
	struct hvd_nic nic;

	if (l->flags & IFF_LOOPBACK)
		reason = "is the loopback interface";
	else if (!(l->flags & IFF_UP))
		reason = "is down";
	else if (!(l->flags & IFF_RUNNING))
		reason = "has no carrier";
	else
		reason = take_addrs(&i, d, l);
	if (reason) {
		drop(out, l, reason);
		return;
	}
	memcpy(i.name, l->name, sizeof(i.name));
	hvd_nic_read(&nic, q->sysfs, l, q->sock);
	i.kind = kind_of(l, &nic);
	i.speed = nic.speed;
	i.uplink = i.kind == HVD_IFACE_BRIDGE && has_uplink(d, l->index);
	i.nat_default = runtime_name(l->name);
	if (nic.device && !q->no_numa)
		i.numa = hvd_nic_numa(q->sysfs, l->name, &q->numa);
	out->v = hvd_xrealloc(out->v, (size_t)out->n + 1, sizeof(*out->v));
	out->v[out->n++] = i;
}

static int by_rank(const void *a, const void *b)
{
	const struct hvd_iface *x = a, *y = b;
	int64_t rx = hvd_iface_rank(x), ry = hvd_iface_rank(y);

	if (rx != ry)
		return rx < ry ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

int hvd_ifaces_query(struct hvd_ifaces *out, const struct hvd_iface_opts *opts, hvd_time deadline, struct hvd_err *err)
{
	struct query q = {.sysfs = opts && opts->sysfs ? opts->sysfs : "/sys", .no_numa = opts && opts->no_numa};
	struct hvd_nl_dump d;

	memset(out, 0, sizeof(*out));
	if (hvd_nl_query(&d, deadline, err) < 0)
		return -1;
	q.sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (q.sock < 0) /* the kernel has no IPv4; without any socket only sysfs tells speeds */
		q.sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (size_t k = 0; k < d.n_links; k++)
		take_link(out, &q, &d, &d.links[k]);
	out->own = hvd_xcalloc(d.n_addrs, sizeof(*out->own));
	for (size_t k = 0; k < d.n_addrs; k++)
		out->own[out->n_own++] = d.addrs[k].addr;
	if (q.sock >= 0)
		close(q.sock);
	hvd_numa_clear(&q.numa);
	hvd_nl_clear(&d);
	if (out->n > 1)
		qsort(out->v, (size_t)out->n, sizeof(*out->v), by_rank);
	return 0;
}
