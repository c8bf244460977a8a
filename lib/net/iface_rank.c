/* SPDX-License-Identifier: Apache-2.0 */
/* iface_rank.c - how good an interface is, and the names of the kinds. */
#include "iface.h"

#include <string.h>

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
