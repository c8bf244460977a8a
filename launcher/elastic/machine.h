/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - what an elastic job does next.
 *
 * Pure: it is told what has happened and when, and says what is to be done
 * through its ops; it has no clock, no sockets and no processes. A job goes
 * from generation to generation of ranks:
 *
 *   waiting    until the hosts that are here have slots enough
 *   starting   places are given out; those of the last generation wait until each new worker has come to the
 *              rendezvous, so that one that cannot start does no harm to the others
 *   running    all of them were answered, and train. When hosts have come, the new workers of a next generation are
 *              started beside it, and rank 0 is told when all of them have come; when hosts have gone it is told at
 *              once. One has failed, or rank 0 was told: each worker of the generation asks for a place in the next
 *              one (is ready), or ends
 *
 * Whoever trains does not wait for those that start, as long as there are enough without them: after a failure the
 * generation of the survivors comes first, and a larger one when those that fill it up have come.
 *
 * A worker that ends with 0 ends the job when the others have ended or are
 * ready. One that fails bans its host, for ever or for a cooldown that doubles
 * from failure to failure; except that a host without which the job could not
 * go on is spared three times. Failing with SIGABRT after another worker of
 * the same generation has failed is not held against a host: that is what
 * Horovod does when its peers vanish. When a worker has died and another one
 * is ready, the connections between the rest are cut, so that none of them sits
 * in a receive that nothing will end soon. One that is silent all the same, for a
 * grace, is ended and replaced. What it had committed lives on in those that are ready.
 *
 * One that dies after the answer, before it has said where it listens, leaves the others waiting for its word at the
 * rendezvous. One with the same place is started and says it; where that cannot be, the job has failed.
 *
 * Ranks: hosts in the order in which they came to the job, slots in order;
 * but a worker that has just started is never rank 0, which hands the state of
 * the training to all others: hosts of which no worker survived go behind
 * the rest, and in a host the survivors come first.
 *
 * Ops are called from within the hvd_machine_… call that caused them, and must
 * not call back.
 */
#ifndef HVD_MACHINE_H
#define HVD_MACHINE_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/job/alloc.h"
#include "lib/job/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_machine_opts {
	int np;          /* the first generation has at least so many ranks */
	int min_np;      /* each later one */
	int max_np;      /* 0 = any number */
	int reset_limit; /* generations after the first, without those that fill up a smaller one; -1 = any number */
	/* Seconds. */
	double elastic_timeout; /* to wait for slots */
	double patience; /* for a worker to come to the rendezvous, once others train; for those of a generation to meet
			  * there; for a killed one to end */
	double cooldown_min, cooldown_max; /* 0: a banned host stays banned */
	double silent_grace;               /* see above, where connections cannot be cut */
	double cut_grace;                  /* … and where they were */
	double settle; /* how long the first generation waits for more hosts once there are enough */
};

enum hvd_worker_state {
	HVD_WORKER_STARTING, /* has its place in its environment, has not come to the rendezvous */
	HVD_WORKER_ARRIVED,  /* has, and waits for the others */
	HVD_WORKER_RUNNING,
	HVD_WORKER_READY,  /* asks for its next place */
	HVD_WORKER_ENDING, /* was told to end */
	HVD_WORKER_GONE,
};

struct hvd_worker {
	uint32_t id;   /* no other worker of this job ever has it */
	uint32_t host; /* see hvd_machine_host() */
	int slot;      /* local rank */
	int rank;      /* of a new one: in the generation that it was started for */
	enum hvd_worker_state state;
	bool fresh;   /* has taken part in no generation yet: nobody but its environment tells it its place */
	bool said;    /* where it listens, in this generation: the others can connect to it */
	bool removed; /* its host or slot is no longer part of the job */
	bool failed;  /* … of its own accord */
	bool success;
	int status; /* when it is gone; as from waitpid(2) */
};

/* How a host's shim has ended. */
enum hvd_host_end {
	HVD_HOST_LOST,  /* the connection broke, or it never came: tried again when the source has dropped it in between
			 */
	HVD_HOST_UNFIT, /* it cannot take part: not tried again */
};

struct hvd_machine_ops {
	void (*host_begin)(uint32_t host, void *arg); /* start its shim: hvd_machine_host_here or …_gone follows */
	void (*host_end)(uint32_t host, void *arg);   /* end it; nothing needs to follow */
	/* Places of a next generation are given out: size, and the workers that will be part of it
	 * (hvd_machine_next). Comes before starts, which are for the places told last. What has been prepared may be
	 * given up without a word, when its workers are ended. */
	void (*prepare)(void *arg);
	/* A generation begins: what has been prepared last, its new workers having been started already (`prepared`) or
	 * about to be, or one without new workers. Its places: hvd_machine_member. Comes before its answer. */
	void (*generation)(bool prepared, void *arg);
	void (*worker_start)(const struct hvd_worker *worker, void *arg); /* …_exited follows in any case */
	void (*worker_end)(const struct hvd_worker *worker, bool at_once, void *arg);
	void (*answer)(void *arg); /* tell all ready members their places, at once */
	void (*notify)(uint32_t worker,
		       void *arg); /* tell rank 0 that hosts have changed; hvd_machine_notified follows */
	/* A worker of this generation has died, and others know: break the connections between the rest, so that none
	 * of them waits for one that will not answer. hvd_machine_uncut follows where that cannot be done. */
	void (*cut)(void *arg);
	void (*finish)(const struct hvd_err *why, int status,
		       void *arg); /* once, and nothing after; why->code HVD_OK: done */
};

struct hvd_machine;

/* `ops` and `log` (may be NULL) are not owned. */
struct hvd_machine *hvd_machine_create(const struct hvd_machine_opts *opts, hvd_time now,
				       const struct hvd_machine_ops *ops, void *arg, const struct hvd_log *log);
void hvd_machine_destroy(struct hvd_machine *m); /* NULL is fine */

/* What has happened. */
void hvd_machine_hosts(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now);
void hvd_machine_host_here(struct hvd_machine *m, uint32_t host, hvd_time now);
void hvd_machine_host_gone(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now);
/* The worker has said at the rendezvous where it listens: in its first generation that is its first word. */
void hvd_machine_arrived(struct hvd_machine *m, uint32_t worker, hvd_time now);
/* All members of the generation have met at the rendezvous: nothing of it is needed there any longer. Before, no worker
 * is started for a next one. */
void hvd_machine_connected(struct hvd_machine *m, hvd_time now);
void hvd_machine_ready(struct hvd_machine *m, uint32_t worker, hvd_time now);
void hvd_machine_exited(struct hvd_machine *m, uint32_t worker, int status, hvd_time now);
void hvd_machine_notified(struct hvd_machine *m, bool heard, hvd_time now);
void hvd_machine_uncut(struct hvd_machine *m, hvd_time now);
void hvd_machine_tick(struct hvd_machine *m, hvd_time now);

/* When hvd_machine_tick is to be called next; 0 = not before something happens. */
hvd_time hvd_machine_due(const struct hvd_machine *m);

/* How things are. */
int hvd_machine_generation(const struct hvd_machine *m); /* 0 before the first */
int hvd_machine_size(const struct hvd_machine *m);       /* ranks of it */
const struct hvd_worker *hvd_machine_member(const struct hvd_machine *m, int rank);
/* The generation that has been prepared; size 0 when there is none. */
int hvd_machine_next_size(const struct hvd_machine *m);
const struct hvd_worker *hvd_machine_next(const struct hvd_machine *m, int rank);
/* Who was started for this rank and has taken part in no generation yet; NULL when nobody was. */
const struct hvd_worker *hvd_machine_newcomer(const struct hvd_machine *m, int rank);
const struct hvd_worker *hvd_machine_worker(const struct hvd_machine *m, uint32_t id); /* NULL: none, or long gone */
/* The places of this generation, or of the next, on all hosts ever seen, by number. Caller clears. */
int hvd_machine_layout(const struct hvd_machine *m, bool next, struct hvd_layout *layout, struct hvd_err *err);
/* The worker that lives, or dies, at this place of a host; NULL when there is none. */
const struct hvd_worker *hvd_machine_at(const struct hvd_machine *m, uint32_t host, int slot);
const char *hvd_machine_host(const struct hvd_machine *m, uint32_t host);   /* its name */
uint32_t hvd_machine_n_hosts(const struct hvd_machine *m);                  /* ever seen */
int hvd_machine_slots(const struct hvd_machine *m, uint32_t host);          /* as listed last */
uint32_t hvd_machine_slurm_job(const struct hvd_machine *m, uint32_t host); /* as listed last; 0: ours */

#endif
