/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - what an elastic job does next.
 *
 * Pure: it is told what has happened and when, and says what is to be done
 * through its ops; it has no clock, no sockets and no processes. A job goes
 * from generation to generation of ranks:
 *
 *   waiting    until the hosts that are here have slots enough
 *   starting   places are given out, new workers start; those of the last generation wait until each new one has come
 *              to the rendezvous, so that one that cannot start does no harm to the others
 *   running    all of them were answered, and train
 *   gathering  one has failed, or hosts have changed and rank 0 was told: each worker of the generation asks for a
 *              place in the next one (is ready), or ends
 *
 * A worker that ends with 0 ends the job when the others have ended or are
 * ready. One that fails bans its host, for ever or for a cooldown that doubles
 * from failure to failure; except that a host without which the job could not
 * go on is spared three times. Failing with SIGABRT after another worker of
 * the same generation has failed is not held against a host: that is what
 * Horovod does when its peers vanish. When a worker has died, some are ready and
 * the rest is silent for a grace, then the silent ones sit in a receive that
 * nothing will end soon; they are ended and replaced. What they had committed lives
 * on in those that are ready.
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

#include "alloc.h"
#include "deadline.h"
#include "err.h"
#include "log.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_machine_opts {
	int np;          /* the first generation has at least so many ranks */
	int min_np;      /* each later one */
	int max_np;      /* 0 = any number */
	int reset_limit; /* generations after the first; -1 = any number */
	/* Seconds. */
	double elastic_timeout;            /* to wait for slots */
	double cooldown_min, cooldown_max; /* 0: a banned host stays banned */
	double silent_grace;               /* see above */
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
	int rank;
	enum hvd_worker_state state;
	bool fresh;   /* its first generation: nobody but its environment tells it its place */
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
	/* Places are given out: size, and the workers that are part of it (hvd_machine_member). Comes before the
	 * starts and answers of this generation. */
	void (*generation)(void *arg);
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
void hvd_machine_arrived(struct hvd_machine *m, uint32_t worker, hvd_time now);
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
const struct hvd_worker *hvd_machine_worker(const struct hvd_machine *m, uint32_t id); /* NULL: none, or long gone */
/* The worker that lives, or dies, at this place of a host; NULL when there is none. */
const struct hvd_worker *hvd_machine_at(const struct hvd_machine *m, uint32_t host, int slot);
const char *hvd_machine_host(const struct hvd_machine *m, uint32_t host); /* its name */
uint32_t hvd_machine_n_hosts(const struct hvd_machine *m);                /* ever seen */
int hvd_machine_slots(const struct hvd_machine *m, uint32_t host);        /* as listed last */

#endif
