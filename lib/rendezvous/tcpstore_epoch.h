/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_epoch.h - which values a TCPStore connection sees.
 *
 * All clients of a program share one store: what one sets every other one gets, however many stores each process makes,
 * and in which order. But a program that calls init_process_group() again, after destroy_process_group(), uses the keys
 * of its default process group again, and expects to find none of them: with PyTorch's own server, which lives in rank
 * 0, it mostly does. So each default process group has an epoch of the store, with a scope of its own. The first
 * one is in the epoch where all other clients are, the base.
 *
 * init_process_group() makes a new client each time. It arrives, which is to add to the key "init/"; its next keys are
 * those of a default process group (hvd_tcpstore_is_group_key()), which other clients do not use. With the first of
 * them it begins its group: the k-th that a process begins, told by address and process id, is in epoch base + k.
 * All ranks begin the same groups in the same order; one can be a group ahead of another. Four rules make that fit the
 * rest of the world; the last two need to know how many ranks there are:
 *
 *   A connection that has not arrived (a clone, a tool) never begins a group. When it uses such a key it joins the
 *   group that its process has begun last, or is about to begin; or the newest when the process is not known.
 *
 *   Clients of PyTorch before 2.5 do not say their process id. Process ids below 300 are given out only once after the
 *   start of a pid namespace, so they say that the process is in a container, and two containers may share an address:
 *   such an id that begins a group while it has one can be another process. Both are placed by order: in the first
 *   epoch that is not full. Where the number of ranks is not known, in the newest one.
 *
 *   Once as many connections have begun a group as there are ranks, and one of them has gone, no more begin it.
 *
 *   Once as many processes have arrived as there are ranks, and one of them has gone and has not come again, the
 *   program is over: a process that arrives for the first time then is of another program, and gets a base of its
 *   own. Programs cannot be told apart by process ids below 300: such processes share the base that is there, and
 *   each of their groups has an epoch.
 *
 * An epoch is forgotten when its last connection has gone, unless it is the newest or the present base: these
 * outlive the ranks.
 */
#ifndef HVD_RENDEZVOUS_TCPSTORE_EPOCH_H
#define HVD_RENDEZVOUS_TCPSTORE_EPOCH_H

#include "lib/base/hash.h"
#include "lib/net/addr.h"
#include "store.h"

struct hvd_tcpstore_epoch {
	struct hvd_hash_node node;
	uint32_t number;
	struct hvd_rv_scope *scope;
	size_t conns; /* connections that use it */
	size_t begun; /* of them, those that have begun a group in it; once it is full this stays as it is */
	size_t came;  /* processes there whose base it is; once these are all ranks this stays as it is, … */
	size_t gone;  /* … and these have gone */
};

struct hvd_tcpstore_process {
	struct hvd_hash_node node;
	struct hvd_addr addr;
	uint32_t pid;
	uint32_t base;
	uint32_t next; /* the epoch for the next group that it begins */
	uint32_t last; /* the one of its last group; its base while it has begun none */
	size_t open;   /* connections that have arrived */
	size_t groups; /* connections that have begun a group */
	bool gone;     /* counts as gone in its base */
};

/* All epochs. */
struct hvd_tcpstore_epochs {
	struct hvd_rv_store *store; /* not owned */
	size_t ranks;               /* 0: not known */
	/* Private: */
	uint64_t seed;
	uint32_t base;  /* of processes that come now */
	uint32_t floor; /* no more groups begin in the epochs below */
	struct hvd_tcpstore_epoch *newest;
	struct hvd_hash_table epochs, processes;
};

/* Where a connection belongs to. Zeroed: nowhere yet. */
struct hvd_tcpstore_place {
	struct hvd_tcpstore_epoch *epoch;
	struct hvd_tcpstore_process *process;
	bool arrived;
	bool begun; /* it has arrived, and has begun a default process group */
	bool news;  /* set when a process has come to this epoch that had not come to it before */
};

/* Is this one of the keys that only a default process group has? With every PyTorch from 2.2 on, with whatever
 * prefix. */
bool hvd_tcpstore_is_group_key(struct hvd_slice key);

void hvd_tcpstore_epochs_init(struct hvd_tcpstore_epochs *gs, struct hvd_rv_store *store);
/* Forget all epochs and processes, but not how many ranks there are. No connection may have a place. */
void hvd_tcpstore_epochs_clear(struct hvd_tcpstore_epochs *gs);
void hvd_tcpstore_epochs_free(struct hvd_tcpstore_epochs *gs); /* the same, and all memory */

/* NULL when there is none with this number. */
const struct hvd_tcpstore_epoch *hvd_tcpstore_epoch(const struct hvd_tcpstore_epochs *gs, uint32_t number);

/* A connection that is nowhere yet arrives; pid is 0 when it is not known. Returns 0, or -1 when there was no room. */
int hvd_tcpstore_arrive(struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr, uint32_t pid,
			struct hvd_tcpstore_place *place);
/* A connection that is nowhere yet uses the store without having arrived. */
int hvd_tcpstore_visit(struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr, uint32_t pid,
		       struct hvd_tcpstore_place *place);
/* The connection is about to use the first key of a default process group. Its epoch may be another one after
 * this. Returns 0, or -1 when there was no room. */
int hvd_tcpstore_begin_group(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_place *place);
/* The connection has gone. One that is nowhere is fine. */
void hvd_tcpstore_leave(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_place *place);

#endif
