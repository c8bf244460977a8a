/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h - what a host of the launch says of itself, and how it is sent.
 *
 * A node agent fills one in and sends it; the driver keeps one per host, so it
 * is small (a few hundred bytes). On the wire:
 *
 *   {"t":"register", "node":I, "nodes":N, "size":RANKS, "name":TEXT, "host":TEXT, "machine":HEX,
 *    "ranks":[…], "port":P,
 *    "ifaces":[{"n":NAME,"k":KIND,"s":MBPS,"r":RANKING,"u":NUMA,"a":[ADDR,…],"f":FIRST},…], "dropped":TEXT}
 *
 * FIRST is 0 where it is left out. "user_ifnames":[[NAME,VALUE,SOURCE],…] may follow.
 */
#ifndef HVD_NODE_H
#define HVD_NODE_H

#include "lib/base/err.h"
#include "lib/net/addr.h"
#include "lib/net/iface.h"
#include "this_host.h"
#include "user_ifname.h"

#include <jansson.h>
#include <stdint.h>

#define HVD_NODE_MAX_IFACES 1024 /* that a host may tell of */
#define HVD_MAX_NICS        64   /* that are probed: the best, or those that the user wants */
#define HVD_NODE_MAX_ADDRS  32   /* of one interface */
#define HVD_NO_ADDR         255

struct hvd_node_iface {
	char name[IF_NAMESIZE];
	uint8_t kind; /* enum hvd_iface_kind */
	int16_t numa;
	int32_t speed;   /* Mb/s, -1 unknown */
	int64_t ranking; /* hvd_iface_rank: lower is better */
	uint8_t n_addrs;
	uint8_t first; /* the address that a program takes which is told the name only (iface.h); HVD_NO_ADDR: none here
			*/
	struct hvd_addr *addrs;
};

struct hvd_node {
	char *name; /* as the scheduler calls it; NULL = not registered yet */
	char *host; /* as it calls itself (gethostname) */
	/* Equal for two nodes exactly when they are one machine and one network namespace, as with several slurmd on
	 * one host. */
	char machine[HVD_MACHINE_LEN + 1];
	uint32_t n_ranks;
	uint32_t *ranks; /* by local rank */
	in_port_t port;  /* where its agent answers probes */
	uint16_t n_ifaces;
	struct hvd_node_iface *ifaces;
	struct hvd_user_ifname user_ifnames[HVD_N_USER_IFNAMES]; /* by enum hvd_user_ifname_var */
	/* Of the agent's own node: all addresses of this host, also those of interfaces that were left out. Not sent.
	 */
	struct hvd_addr *own;
	uint32_t n_own;
	char *dropped; /* "eth2 (is down), ib1 (has no address)": for messages; may be NULL */
};

void hvd_node_clear(struct hvd_node *node); /* leaves an unregistered node; NULL is fine */

/* One more thing to say of what was left out, before or after the others; `more` is freed. */
void hvd_node_dropped(struct hvd_node *node, char *more, bool before);

/* Agent: take over the interfaces, what is set in the environment `envp`, and name the machine. */
void hvd_node_set_user_ifnames(struct hvd_node *node, char *const *envp);
void hvd_node_set_ifaces(struct hvd_node *node, const struct hvd_ifaces *ifs);

json_t *hvd_node_to_json(const struct hvd_node *node, uint32_t index, uint32_t nodes, uint32_t size);
/* The node's own fields only. After an error *node is cleared. */
int hvd_node_from_json(const json_t *msg, struct hvd_node *node, struct hvd_err *err);

/* Index of the interface of that name or with that address; -1 if there is none. */
int hvd_node_find_iface(const struct hvd_node *node, const char *name);
int hvd_node_find_addr(const struct hvd_node *node, const struct hvd_addr *addr);
/* Is that an address of this host, the loopback ones among them? For the agent's own node. */
bool hvd_node_owns(const struct hvd_node *node, const struct hvd_addr *addr);
bool hvd_node_has_family(const struct hvd_node_iface *iface, int family);

/* "eth0 (1000 Mb/s) 10.0.0.1, ib0 …": for messages. Caller frees. */
char *hvd_node_ifaces_text(const struct hvd_node *node);

#endif
