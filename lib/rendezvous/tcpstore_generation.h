/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_generation.h - which values a TCPStore connection sees.
 *
 * A program that calls init_process_group() again, after destroy_process_group() or in a second program of the same
 * step, uses the same keys again. It expects an empty store: with PyTorch's own server, which lives in rank 0, it gets
 * one mostly. So each round of arrivals has a generation of the store for itself, with a scope of its own.
 *
 * A process arrives when it adds to the key "init/", once for each store object that it makes. All ranks make the same
 * ones in the same order. So the k-th arrival of a process, told by address and process id, belongs to generation k.
 * Three rules make that fit the rest of the world; the last two need to know how many ranks there are:
 *
 *   A connection that has not arrived (a clone, a tool) uses the generation in which its process has arrived last, or
 *   the newest generation when the process is not known.
 *
 *   Once as many processes have arrived in a generation as there are ranks, and one of them has gone, the generation is
 *   over: a process that arrives for the first time then is of another program, and gets a later generation.
 *
 *   Clients of PyTorch before 2.5 do not say their process id. Process ids below 300 are given out only once after the
 *   start of a pid namespace, so they say that the process is in a container, and two containers may share an address:
 *   such an id that arrives while an earlier connection of the same id is open can be another process. Both are placed
 *   by order: in the first generation that is not full. Where the number of ranks is not known, in the newest one.
 *
 * A generation is forgotten when its last connection has gone and there is a newer one: the newest outlives the ranks.
 */
#ifndef HVD_RENDEZVOUS_TCPSTORE_GENERATION_H
#define HVD_RENDEZVOUS_TCPSTORE_GENERATION_H

#include "lib/base/hash.h"
#include "lib/net/addr.h"
#include "store.h"

struct hvd_tcpstore_generation {
	struct hvd_hash_node node;
	uint32_t number;
	struct hvd_rv_scope *scope;
	size_t conns;   /* connections that use it */
	size_t arrived; /* of them, those that have arrived in it; once it is full this stays as it is */
};

struct hvd_tcpstore_process {
	struct hvd_hash_node node;
	struct hvd_addr addr;
	uint32_t pid;
	uint32_t came; /* the generation for its next arrival */
	uint32_t last; /* the one of its last arrival */
	size_t open;   /* connections that have arrived */
};

/* All generations. */
struct hvd_tcpstore_generations {
	struct hvd_rv_store *store; /* not owned */
	size_t ranks;               /* 0: not known */
	/* Private: */
	uint64_t seed;
	uint32_t floor; /* all generations below are over */
	struct hvd_tcpstore_generation *newest;
	struct hvd_hash_table generations, processes;
};

/* Where a connection belongs to. Zeroed: nowhere yet. */
struct hvd_tcpstore_place {
	struct hvd_tcpstore_generation *generation;
	struct hvd_tcpstore_process *process;
	bool arrived;
};

void hvd_tcpstore_generations_init(struct hvd_tcpstore_generations *gs, struct hvd_rv_store *store);
/* Forget all generations and processes, but not how many ranks there are. No connection may have a place. */
void hvd_tcpstore_generations_clear(struct hvd_tcpstore_generations *gs);
void hvd_tcpstore_generations_free(struct hvd_tcpstore_generations *gs); /* the same, and all memory */

/* NULL when there is none with this number. */
const struct hvd_tcpstore_generation *hvd_tcpstore_generation(const struct hvd_tcpstore_generations *gs,
							      uint32_t number);

/* A connection that is nowhere yet arrives; pid is 0 when it is not known. Returns 0, or -1 when there was no room. */
int hvd_tcpstore_arrive(struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr, uint32_t pid,
			struct hvd_tcpstore_place *place);
/* A connection that is nowhere yet uses the store without having arrived. */
int hvd_tcpstore_visit(struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr, uint32_t pid,
		       struct hvd_tcpstore_place *place);
/* The connection has gone. One that is nowhere is fine. */
void hvd_tcpstore_leave(struct hvd_tcpstore_generations *gs, struct hvd_tcpstore_place *place);

#endif
