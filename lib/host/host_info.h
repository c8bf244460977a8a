/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_info.h - what a host of the launch reports about itself when its agent registers with the driver.
 *
 * The agent fills in a struct hvd_host_info and sends it. The driver keeps one for each host, so it is small (a few
 * hundred bytes). On the wire:
 *
 *   {"t":"register", "node":I, "nodes":N, "size":RANKS, "name":TEXT, "host":TEXT, "machine":HEX,
 *    "ranks":[…], "port":P,
 *    "ifaces":[{"n":NAME,"k":KIND,"s":MBPS,"r":RANKING,"u":NUMA,"a":[ADDR,…],"f":FIRST},…], "dropped":TEXT,
 *    "user_ifnames":[[NAME,VALUE,SOURCE,MISSING],…], "ports":[PORT,…], "role_ports":[PORT,…],
 *    "relay":PORT, "relay_network":PORT, "relay_children":PORT, "nccl_ras":PORT, "job":N}
 *
 * "f" may be left out, and is 0 then; so may MISSING. "user_ifnames", "ports", "role_ports", "relay_network",
 * "relay_children", "nccl_ras" and "job" may be left out. The three ports of a relay are those of world 0; those of other worlds are in their
 * parts (lib/protocol/worlds.h).
 */
#ifndef HVD_HOST_INFO_H
#define HVD_HOST_INFO_H

#include "lib/base/err.h"
#include "lib/net/addr.h"
#include "lib/net/iface.h"
#include "this_host.h"
#include "user_ifname.h"

#include <jansson.h>
#include <stdint.h>

#define HVD_HOST_MAX_IFACES 1024 /* interfaces that a host registers at most */
#define HVD_MAX_NICS        64   /* interfaces of a host that are probed: the best, or those that the user wants */
#define HVD_HOST_MAX_ADDRS  32   /* addresses of an interface */
#define HVD_NO_ADDR         255
#define HVD_HOST_MAX_PORTS  65535

struct hvd_host_iface {
	char name[IF_NAMESIZE];
	uint8_t kind; /* enum hvd_iface_kind */
	int16_t numa;
	int32_t speed;   /* Mb/s, -1 unknown */
	int64_t ranking; /* hvd_iface_rank(): lower is better */
	uint8_t n_addrs;
	uint8_t first; /* index of the address with hvd_iface_addr.first; HVD_NO_ADDR: none of these */
	struct hvd_addr *addrs;
};

/* The ports of a host's relay of the rendezvous: on loopback, and on all addresses for ranks of other hosts and for other
 * relays; 0 = there is no such port. */
struct hvd_relay_ports {
	in_port_t loopback, network, children;
};

struct hvd_host_info {
	char *name;                        /* the scheduler's name for it; NULL: not registered yet */
	char *host;                        /* its own name (gethostname) */
	char machine[HVD_MACHINE_LEN + 1]; /* hvd_machine_id() */
	uint32_t n_ranks;
	uint32_t *ranks; /* by local rank */
	in_port_t port;  /* where its agent answers probes */
	uint16_t n_ifaces;
	struct hvd_host_iface *ifaces;
	struct hvd_user_ifname user_ifnames[HVD_N_USER_IFNAMES]; /* by enum hvd_user_ifname_var */
	/* Ports that this host reserves (lib/net/reserve.h): first boot.ports of them if rank 0 is or may come to be
	 * here, then boot.rank_ports for each rank, by local rank. */
	uint32_t n_ports;
	in_port_t *ports;
	/* The same for its ranks' programs: boot.role_ports of them. */
	uint32_t n_role_ports;
	in_port_t *role_ports;
	/* One for each world of the launch. A host that lacks a loopback port cannot take part in a job, and its
	 * registration says why (agent/driver_client.h). */
	unsigned n_relays;
	struct hvd_relay_ports *relays;
	in_port_t nccl_ras; /* a port that it reserves for NCCL's RAS in its ranks; 0 = it has no GPUs, or no port */
	uint32_t job;       /* of Slurm, in which its agent runs; 0 = none */
	char *switch_path;  /* where it is in the network (switch_path.h); NULL = not known */
	/* With the agent: all addresses of this host, also of interfaces that are not used. It does not send them. With
	 * the driver: the addresses that were sent, and are not used because of --network-interfaces. */
	struct hvd_addr *own;
	uint32_t n_own;
	char *dropped; /* interfaces that are not used, for messages: "eth2 (is down), ib1 (has no address)"; or NULL */
};

void hvd_host_info_clear(struct hvd_host_info *node); /* leaves an unregistered node; NULL is fine */

/* Add to node->dropped, in front of its text or behind it; frees `more`. */
void hvd_host_info_dropped(struct hvd_host_info *node, char *more, bool before);

/* For the node agent: copy what the user has set in the environment `envp`; copy interfaces and addresses. */
void hvd_host_info_set_user_ifnames(struct hvd_host_info *node, char *const *envp);
void hvd_host_info_set_ifaces(struct hvd_host_info *node, const struct hvd_ifaces *ifs);

/* The "register" message, a new reference. `index`, `nodes` and `size` tell which of how many hosts this is, and how
 * many ranks the launch has. */
json_t *hvd_host_info_to_json(const struct hvd_host_info *node, uint32_t index, uint32_t nodes, uint32_t size);
/* Read the fields of struct hvd_host_info. The caller clears *node; after an error it is cleared. Untrusted input is
 * fine. */
int hvd_host_info_from_json(const json_t *msg, struct hvd_host_info *node, struct hvd_err *err);

/* The ports of its relay for this world; all are 0 if there is none. */
struct hvd_relay_ports hvd_host_info_relay(const struct hvd_host_info *node, unsigned world);

/* The index of the interface with this name, or with this address; -1: there is none. */
int hvd_host_info_find_iface(const struct hvd_host_info *node, const char *name);
int hvd_host_info_find_addr(const struct hvd_host_info *node, const struct hvd_addr *addr);
/* Is it an address of this host? Loopback addresses are. For the node that the agent has filled in itself. */
bool hvd_host_info_owns(const struct hvd_host_info *node, const struct hvd_addr *addr);
bool hvd_host_info_has_family(const struct hvd_host_iface *iface, int family);

/* The interfaces for messages: "eth0 (ethernet, 1000 Mb/s) 10.0.0.1; ib0 …". The caller frees it. */
char *hvd_host_info_ifaces_text(const struct hvd_host_info *node);

#endif
