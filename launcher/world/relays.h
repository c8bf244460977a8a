/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relays.h - the relays of a world's rendezvous on the job's hosts, and the parent of each.
 *
 * A relay (lib/rendezvous/server.h) is part of an agent. The ranks of its host reach it over loopback, where it accepts
 * only connections of the launch's user. The root is the rendezvous of the launch. A relay reaches it over the agent's
 * connection to the driver, or over its parent, another relay, to which it has a connection of its own. The root
 * listens nowhere: only processes that have proven that they belong to the launch can reach the store.
 *
 * PyTorch's programs expect MASTER_ADDR to be an address of rank 0's host, and open further ports there. So in a job of
 * several hosts the relay of rank 0's host also listens on the network, and all ranks of PyTorch rendezvous there. Of the
 * job's other hosts it serves only connections of the launch's user: their agents say whose a connection is
 * (lib/rendezvous/remote_owner.h). If rank 0's host lacks the descriptors for all ranks, its relay does not listen there.
 *
 * The tree: each parent has at most `fan_out` relays. If there are no more relays than that, all of them connect to the
 * root. Otherwise the first ones, in the order of hosts, connect to the root, the next ones connect to the first of
 * these, and so on. In an elastic job a later host connects to the root.
 *
 * Does no I/O.
 */
#ifndef HVD_DRIVER_RELAYS_H
#define HVD_DRIVER_RELAYS_H

#include "launcher/hosts/driver_opts.h"
#include "launcher/hosts/host_table.h"
#include "lib/base/log.h"
#include "lib/rendezvous/service.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	HVD_RELAY_PARENT_ROOT = -1,
	HVD_RELAY_NONE = -2, /* the host is not part of the job */
};

struct hvd_relay_place {
	int32_t parent;    /* a host, or one of the above */
	uint32_t relay_id; /* the relay's number; a host that comes again has another one */
	uint32_t children;
};

/* Zeroed before the plan is made. */
struct hvd_relays {
	unsigned world;
	bool network;                  /* that of rank 0's host is open to the ranks of all hosts */
	uint32_t n;                    /* of `place` */
	struct hvd_relay_place *place; /* by host */
	uint32_t next_relay_id;
};

/* May one relay be opened to the network, if the job has several hosts? */
bool hvd_relays_have_network(const struct hvd_driver_opts *opts);

/* Make the tree of the hosts that have reported, for this world. *relays is zero before. */
void hvd_relays_make(struct hvd_relays *relays, unsigned world, const struct hvd_driver_opts *opts,
		     const struct hvd_host_table *table, const struct hvd_log *log);
void hvd_relays_clear(struct hvd_relays *relays); /* leaves a zeroed struct */

/* In an elastic job: a host joins, in a table that may have grown, or leaves. */
void hvd_relays_join(struct hvd_relays *relays, const struct hvd_host_table *table, uint32_t host);
void hvd_relays_leave(struct hvd_relays *relays, uint32_t host);

/* Does this host have a relay? */
bool hvd_relays_at(const struct hvd_relays *relays, uint32_t host);
/* The numbers of all relays; the caller frees the list. */
uint32_t *hvd_relays_ids(const struct hvd_relays *relays, size_t *n);
/* From now on only these relays may use the rendezvous; NULL: there is none. */
void hvd_relays_admit(const struct hvd_relays *relays, struct hvd_rv *rv);

#endif
