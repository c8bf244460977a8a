/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_epoch.h - which values a TCPStore connection sees.
 *
 * All clients of a program share one store: every client sees what any other one sets, however many stores each process
 * makes, and in whatever order. But a program that calls init_process_group() again, after destroy_process_group(),
 * uses the keys of its default process group again, and expects to find none of them. PyTorch's own server lives in
 * rank 0, so there the keys are usually gone. So each default process group has an epoch of the store, with a scope of
 * its own. The first group is in the epoch of all other clients, the base.
 *
 * init_process_group() makes a new client each time. The client arrives: it adds to the key "init/". Its next keys are
 * those of a default process group (hvd_tcpstore_is_group_key()), which other clients do not use. With the first of
 * them it begins its group. Address and process id identify a process; its k-th group is in epoch base + k. All ranks
 * begin the same groups in the same order; one can be a group ahead of another. Four rules cover the other cases; the
 * last two need the number of ranks:
 *
 *   A connection that has not arrived (a clone, a tool) never begins a group. When it uses such a key, it joins the
 *   group that its process has begun last, or is about to begin; or the newest group if the process is not known.
 *
 *   Clients of PyTorch before 2.5 do not send their process id. Process ids below 300 are given out only once after the
 *   start of a pid namespace. So such an id shows that the process is in a container, and two containers may share an
 *   address: if such an id begins a group while it has one, it may be another process. Both kinds get epochs by order:
 *   in the first epoch that is not full. If the number of ranks is not known, they get the newest epoch.
 *
 *   Once as many connections have begun a group as there are ranks, and one of them has gone, no more begin it.
 *
 *   Once as many processes have arrived as there are ranks, and one of them has gone and has not come again, the
 *   program is over. A process that arrives for the first time then belongs to another program, and gets a base of its
 *   own. Programs cannot be told apart by process ids below 300: such processes share the present base, and each of
 *   their groups has an epoch.
 *
 * An epoch is forgotten when its last connection has gone, unless it is the newest or the present base: these outlive
 * the ranks.
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
	/* Processes there whose base it is. Once these are all ranks, `arrived` stays as it is, and `gone` counts those
	 * of them that have gone. */
	size_t arrived, gone;
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
	struct hvd_hash_table by_number, processes;
};

/* A connection's epoch and process. Zeroed: it is in no epoch yet. */
struct hvd_tcpstore_member {
	struct hvd_tcpstore_epoch *epoch;
	struct hvd_tcpstore_process *process;
	bool arrived;
	bool begun; /* it has arrived, and has begun a default process group */
	bool first; /* set when a process has arrived in this epoch for the first time */
};

/* Is this one of the keys that only a default process group has? Recognises them in every PyTorch from 2.2 on, with any
 * prefix. */
bool hvd_tcpstore_is_group_key(struct hvd_slice key);

void hvd_tcpstore_epochs_init(struct hvd_tcpstore_epochs *epochs, struct hvd_rv_store *store);
/* Forget all epochs and processes, but not how many ranks there are. No connection may be in one. */
void hvd_tcpstore_epochs_clear(struct hvd_tcpstore_epochs *epochs);
void hvd_tcpstore_epochs_free(struct hvd_tcpstore_epochs *epochs); /* the same, and all memory */

/* NULL if no epoch has this number. */
const struct hvd_tcpstore_epoch *hvd_tcpstore_epoch(const struct hvd_tcpstore_epochs *epochs, uint32_t number);

/* A connection that is in no epoch arrives; pid is 0 if it is not known. Returns 0, or -1 if there was no room. */
int hvd_tcpstore_arrive(struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr, uint32_t pid,
			struct hvd_tcpstore_member *member);
/* A connection that is in no epoch uses the store without arriving. Otherwise as hvd_tcpstore_arrive(). */
int hvd_tcpstore_visit(struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr, uint32_t pid,
		       struct hvd_tcpstore_member *member);
/* The connection is about to use the first key of a default process group. This may move it to another epoch. Returns
 * 0, or -1 if there was no room. */
int hvd_tcpstore_begin_group(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_member *member);
/* The connection has gone. It may be in no epoch. */
void hvd_tcpstore_leave(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_member *member);

#endif
