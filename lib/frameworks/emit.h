/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.h - the variables that a rank finds in its environment, framework by framework.
 *
 * The plan knows no framework: it knows a rank's slot, the interfaces of its host, and the rendezvous. An emitter turns
 * these into the variables of one framework. CONTRIBUTING.md describes how to add one.
 */
#ifndef HVD_EMIT_H
#define HVD_EMIT_H

#include "frameworks.h"
#include "lib/base/strv.h"
#include "lib/host/layout.h"
#include "lib/net/addr.h"

#include <stdbool.h>

/* Ports that rank 0's host reserves for servers in rank 0's process. */
enum hvd_rank0_port {
	HVD_PORT_STORE, /* PyTorch's TCPStore with HVD_STORE_RANK0 */
	HVD_PORT_JAX,   /* JAX's coordinator */
	HVD_N_RANK0_PORTS,
};

struct hvd_emit {
	unsigned frameworks; /* bits of enum hvd_framework: whose variables are wanted */
	enum hvd_store_mode store;
	int restarts, max_restarts; /* of an elastic job that restarts all ranks; max < 0: it is none */
	bool mpi;                   /* Horovod's controller is MPI, which gives ranks their rank and size */
	bool one_machine;           /* all ranks are on this machine */
	bool slurm;                 /* Slurm has not numbered the ranks, but they have its variables */
	const char *run_id;         /* of the launch; no other has it */
	const struct hvd_rank_slot *slot;
	int host_rank, hosts; /* position of the rank's host among all, in the order of their first ranks */
	const char *hostname; /* equal on all ranks of a host, different on different hosts */
	const char *iface;    /* this host's interface in the best network */
	const char *ifaces;   /* its interfaces in all networks, best first, with commas between them */
	/* Where this host's ranks reach the rendezvous, and where all ranks find PyTorch's store with HVD_STORE_AGENT;
	 * ports in host order. */
	struct hvd_addr rendezvous, store_addr;
	in_port_t port, store_port;
	const char *tf_workers; /* "\"ADDR:PORT\", …", the ranks' own servers in their order; NULL: none are wanted */
	struct hvd_addr here;   /* the rank's host in the best network */
	struct hvd_addr rank0;  /* rank 0's host in the best network */
	in_port_t nccl_ras;     /* a port of the rank's host, reserved for NCCL's RAS; 0: none is */
	in_port_t rank0_ports[HVD_N_RANK0_PORTS]; /* host order; 0: none is reserved */
};

/* Set the variables of every framework in `env`, which goes to the rank. A name may have the form "A?B" or "A?":
 * A is to be set only if the rank's own environment has neither A nor B. The rank decides with hvd_emit_name(). */
void hvd_emit_all(const struct hvd_emit *in, struct hvd_strv *env);

/* Do ranks of these frameworks look for PyTorch's store? */
bool hvd_emit_wants_store(unsigned frameworks);

/* Which variable to set for a name as above in a rank with the environment `envp` (NULL-terminated)? The caller frees
 * it. NULL: none, as for a variable that user or site have set and whose value is left as it is (emitted.h). */
char *hvd_emit_name(const char *name, char *const *envp);

#endif
