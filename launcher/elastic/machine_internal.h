/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_internal.h - what the files of the state machine share.
 *
 *   machine_events.c       what has happened
 *   phases.c       from phase to phase, until the ranks train
 *   training.c     while they do
 *   generation.c   generations: prepared, begun, given up
 *   failure.c      what a failure means for its host, and for the job
 *   rank_assignment.c       who gets which rank
 *   host_manager.c        the hosts: which may be used
 *   machine.c      the machine's life, and how things are
 *
 * Each calls those below it only.
 */
#ifndef HVD_MACHINE_INTERNAL_H
#define HVD_MACHINE_INTERNAL_H

#include "machine.h"

#define HVD_FOREVER INT64_MAX

enum hvd_host_stage {
	HVD_HOST_AWAY,   /* no shim runs there */
	HVD_HOST_COMING, /* one was started */
	HVD_HOST_HERE,   /* it has registered, and fits */
};

struct hvd_managed_host {
	char *name;
	int slots; /* as listed last */
	uint32_t slurm_job;
	uint64_t order; /* of its ranks among hosts: smaller comes first */
	enum hvd_host_stage stage;
	bool listed, lost, unfit;
	hvd_time banned_until; /* 0 = it is not */
	hvd_time banned_at;
	int bans, spared;
	bool tried;    /* it has been here, or did not come */
	bool to_judge; /* a worker failed there, and nothing has followed from it yet */
};

/* A place of the next generation. */
struct hvd_assigned_slot {
	uint32_t host;
	int slot;
	struct hvd_worker *survivor; /* NULL: a new worker is needed */
	bool gap;                    /* … since one with a higher slot of this host stays */
};

struct hvd_rank_assignment {
	struct hvd_assigned_slot *v; /* in the order of ranks; owned */
	int n;
	int kept; /* so many have a survivor */
};

/* Workers by rank; they belong to the machine. */
struct hvd_worker_group {
	struct hvd_worker **v;
	int n;
};

/* What has happened in the current generation. It is zeroed when a generation begins. Until the first one begins, and
 * while the job waits for the slots of the next one, warned_slots, enough_since and notified are in use, too. */
struct hvd_generation {
	bool counted; /* it counts against the reset limit */
	bool partial; /* it was formed of survivors alone, though there were slots for more */
	hvd_time starting_since;
	hvd_time enough_since; /* there have been enough slots, or slots for more workers, since then; 0 = there are not
				*/
	hvd_time trouble_at;   /* while it starts: a member has gone; 0 = none */
	bool connected;        /* its members have connected to each other */
	int replaced;          /* members that were replaced before they had connected to the others */
	hvd_time moved_at;     /* when a member last became ready or went */
	int ended_silent;      /* members that were ended because they were silent while others waited for them */
	bool died, success;    /* a member has failed or was lost; has ended with 0 */
	bool kill_asked;       /* the connections between the remaining members were to be killed … */
	bool kill_failed;      /* … and this could not be done on every host */
	bool notifying;        /* rank 0 is being told that hosts have changed */
	bool notified;         /* rank 0 knows of the latest change */
	hvd_time notify_after; /* when to tell it again after a failure */
	bool warned_slots;
};

struct hvd_machine {
	struct hvd_machine_opts opts;
	const struct hvd_machine_ops *ops;
	void *arg;
	const struct hvd_log *log;

	struct hvd_managed_host *hosts;
	uint32_t n_hosts;
	uint64_t next_order;

	struct hvd_worker **workers; /* all that are not gone, and those of this generation and of the next */
	uint32_t n_workers, next_worker;
	struct hvd_worker_group now;  /* this generation */
	struct hvd_worker_group next; /* one that has been prepared; empty when there is none */

	enum {
		HVD_WAITING,
		HVD_STARTING,
		HVD_RUNNING,
		HVD_OVER
	} phase;
	int generation, resets;
	struct hvd_generation gen;
	hvd_time waiting_since; /* for slots */
	hvd_time next_since;    /* the prepared generation's workers were started */
	struct hvd_err first_failure;
	int first_status;
	hvd_time due;
	bool warned_limit;
};

static inline hvd_time hvd_after(hvd_time t, double seconds)
{
	return t + (hvd_time)(seconds * 1e9);
}

/* Call hvd_machine_tick() then, if not before. */
static inline void hvd_machine_wake(struct hvd_machine *m, hvd_time t)
{
	m->due = m->due ? hvd_earlier(m->due, t) : t;
}

/* ---- machine.c ---- */

struct hvd_worker *hvd_worker_find(const struct hvd_machine *m, uint32_t id); /* NULL: none */
bool hvd_worker_group_has(const struct hvd_worker_group *group, const struct hvd_worker *w);
int hvd_worker_group_count(const struct hvd_worker_group *group, enum hvd_worker_state state);
static inline int hvd_machine_count(const struct hvd_machine *m, enum hvd_worker_state state)
{
	return hvd_worker_group_count(&m->now, state);
}

/* ---- host_manager.c ---- */

void hvd_host_manager_update(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now);
bool hvd_host_manager_usable(const struct hvd_managed_host *h, hvd_time now);
bool hvd_host_manager_banned(const struct hvd_managed_host *h, hvd_time now);
/* Begin the shims of hosts that may be used, end those of hosts that are neither used nor needed any longer. */
void hvd_host_manager_tend(struct hvd_machine *m, hvd_time now);
/* Is a host that may be used on its way? */
bool hvd_host_manager_coming(const struct hvd_machine *m, hvd_time now);
/* While hosts are on their way for the first time: the slots that there are with theirs. Otherwise 0. */
int hvd_host_manager_promised(const struct hvd_machine *m, hvd_time now);
/* There are so many slots, and enough of them: wait a little for hosts that are coming? */
bool hvd_host_manager_settled(struct hvd_machine *m, int slots, hvd_time now);
/* The next end of a ban; HVD_FOREVER when there is none. */
hvd_time hvd_host_manager_due(const struct hvd_machine *m, hvd_time now);
/* No host will ever be usable unless the source names new ones. */
bool hvd_host_manager_hopeless(const struct hvd_machine *m);
/* There are hosts, and all of them were lost, or are unfit. */
bool hvd_host_manager_none_came(const struct hvd_machine *m);

/* ---- rank_assignment.c ---- */

/* The places of a next generation, at most max_np. Free with hvd_rank_assignment_clear(). */
struct hvd_rank_assignment hvd_rank_assignment_find(const struct hvd_machine *m, hvd_time now);
void hvd_rank_assignment_clear(struct hvd_rank_assignment *assignment);
/* Leave out those that need a new worker, except where that would leave a gap. */
void hvd_rank_assignment_keep(struct hvd_rank_assignment *assignment);
/* A place cannot be given to a new worker while an old one is still dying there. */
bool hvd_rank_assignment_taken(const struct hvd_rank_assignment *assignment, const struct hvd_machine *m);
/* Has each worker of the cast a place among these: a survivor its own, a new one that of a new one? */
bool hvd_rank_assignment_hold(const struct hvd_rank_assignment *assignment, const struct hvd_worker_group *group);

/* ---- failure.c ---- */

/* A worker has failed, or will not come: its host is to be judged. `first`: before any other of its generation. */
void hvd_failure_blame(struct hvd_machine *m, struct hvd_worker *w, bool first, const char *what);
/* Ban the hosts that are to be judged, or spare them. */
void hvd_failure_judge(struct hvd_machine *m, hvd_time now);
/* The job has ended; with what failed first, if anything did. */
void hvd_machine_finish(struct hvd_machine *m, const struct hvd_err *why, int status);
void hvd_failure_finish(struct hvd_machine *m);
/* Some were told to end, and are waited for. That is an event; but one that may not come, and then the job has failed.
 */
void hvd_failure_bound_ends(struct hvd_machine *m, hvd_time since, hvd_time now);

/* ---- generation.c ---- */

/* Give out places of a next one, and start its new workers beside the generation that runs. */
void hvd_generation_prepare(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now);
/* Give up what has been prepared, if anything. */
void hvd_generation_drop(struct hvd_machine *m);
/* What has been prepared begins. */
void hvd_generation_begin(struct hvd_machine *m, hvd_time now);
/* A generation of these places begins, without having been prepared. */
void hvd_generation_form(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now);
/* Have another one started with the place of a member that has gone. */
void hvd_generation_replace(struct hvd_machine *m, const struct hvd_worker *w, hvd_time now);
/* It has failed to start. Survivors still wait. */
void hvd_generation_undo(struct hvd_machine *m);
/* It is over: who is ready waits for slots. */
void hvd_generation_over(struct hvd_machine *m, hvd_time now);

/* Is one being ended that has taken part in none? It may still say a word at the rendezvous. */
bool hvd_generation_dying(const struct hvd_machine *m);
bool hvd_generation_limit_met(const struct hvd_machine *m);

/* Those that have not come to the rendezvous in time never will: they have failed. */
void hvd_worker_group_give_up_late(struct hvd_machine *m, const struct hvd_worker_group *group);
void hvd_worker_stop(struct hvd_machine *m, struct hvd_worker *w, bool at_once);

/* ---- phases.c ---- */

/* As far as it goes, now that something has happened. */
void hvd_machine_step(struct hvd_machine *m, hvd_time now);

/* ---- training.c ---- */

/* True: there is a next phase to go on with. */
bool hvd_training_step(struct hvd_machine *m, hvd_time now);

#endif
