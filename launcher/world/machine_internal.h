/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_internal.h - what the files of the state machine share. Each file calls only those below it.
 *
 *   machine_events.c           create, and one function for each event
 *   policy_horovod.c           Horovod's policy: the phases waiting and starting, and the changes of phase
 *   policy_horovod_training.c  … the phase running
 *   policy_restart.c           PyTorch's policy
 *   slot_wait.c                how the job waits for slots
 *   generation.c               generations: prepared, started, given up
 *   failure.c                  what a failure means for its host, and for the job
 *   rank_assignment.c          which slots get which ranks
 *   host_manager.c             which hosts may be used
 *   machine.c                  destroy, and queries by the owner
 */
#ifndef HVD_MACHINE_INTERNAL_H
#define HVD_MACHINE_INTERNAL_H

#include "lib/host/stage.h"
#include "machine.h"

#define HVD_FOREVER INT64_MAX

struct hvd_managed_host {
	char *name;
	char *switch_path; /* NULL = not known */
	double mbps;       /* to its neighbours; 0 = not measured */
	int slots;         /* as discovery listed it last */
	uint32_t slurm_job;
	uint64_t order;        /* hosts of a smaller one have the lower ranks */
	enum hvd_stage stage;  /* AWAY, COMING or HERE */
	bool listed;           /* discovery names it */
	bool lost, unfit;      /* see enum hvd_host_end */
	int losses;            /* how often it was lost */
	hvd_time again_at;     /* lost: when its agent may be started again; 0 = not before it is listed again */
	hvd_time banned_until; /* 0 = it is not banned */
	hvd_time banned_at;
	int bans, kept; /* how often it was banned, and was not because the job needs it */
	int ranks;      /* PyTorch's policy: so many ranks the host has, or had in the last generation, or will have in
			* the place of a host that had them */
	bool checking;  /* PyTorch's policy: it is being checked again */
	bool tried;     /* its node agent has registered once, or failed to */
	bool to_judge;  /* a worker has failed there; hvd_failure_judge() decides whether that bans it */
};

/* A slot of the next generation. */
struct hvd_assigned_slot {
	uint32_t host;
	int slot;
	struct hvd_worker *survivor; /* NULL: a new worker is needed */
	bool gap;                    /* a new worker is needed because a survivor has a higher slot of this host */
};

struct hvd_rank_assignment {
	struct hvd_assigned_slot *v; /* in the order of ranks; owned */
	int n;
	int kept; /* how many have a survivor */
};

/* Workers by rank; they belong to the machine. */
struct hvd_worker_group {
	struct hvd_worker **v;
	int n;
};

/* The state of the current generation. It is zeroed when a generation begins. Until the first one begins, and
 * while the job waits for the slots of the next one, warned_slots, enough_since and notified are in use, too. */
struct hvd_generation {
	bool counted; /* it counts against the reset limit */
	bool partial; /* it consists of survivors only, though there were slots for more */
	hvd_time starting_since;
	hvd_time enough_since; /* since when there are enough slots, or slots for more workers; 0 = there are not */
	hvd_time trouble_at;   /* while it starts: when a member went; 0 = none did */
	bool connected;        /* its members have connected to each other */
	int replaced;          /* members that were replaced before they had connected to the others */
	hvd_time moved_at;     /* when a member last became ready or went */
	int ended_silent;      /* members that were ended because they were silent while others waited for them */
	bool died, success;    /* a member has failed or was lost; has ended with 0 */
	bool kill_asked;       /* kill_connections() was called */
	bool kill_failed;      /* kill_connections() failed on some host */
	bool notifying;        /* rank 0 is being notified of a change of hosts */
	bool notified;         /* rank 0 knows of the latest change */
	hvd_time notify_after; /* when to notify it again after a failure */
	hvd_time repeat_after; /* when to notify it again if it has not left its generation, though it was notified */
	bool warned_slots;
	/* PyTorch's policy: */
	bool ended_all; /* all members are being ended */
	bool progress;  /* hvd_machine_progress() was called */
	bool repeats;   /* hvd_machine_repeats() was called */
	bool host_lost; /* a host was lost before any rank has failed */
	int slots_seen; /* the number of all slots when enough_since was set */
	int first_left; /* all members of a lower rank have gone */
};

struct hvd_machine;

/* What differs between the policies. */
struct hvd_policy {
	bool (*step)(struct hvd_machine *m, hvd_time now); /* true: the phase has changed */
	/* A worker has ended; it is GONE by now. `was_ended`: the launcher was ending it. */
	void (*exited)(struct hvd_machine *m, struct hvd_worker *w, bool was_ended, hvd_time now);
	/* A member was lost with its host. */
	void (*lost)(struct hvd_machine *m, struct hvd_worker *w, hvd_time now);
};
extern const struct hvd_policy hvd_policy_horovod, hvd_policy_restart;

struct hvd_machine {
	struct hvd_machine_opts opts;
	const struct hvd_policy *policy;
	const struct hvd_machine_ops *ops;
	void *arg;
	const struct hvd_log *log;

	struct hvd_managed_host *hosts;
	uint32_t n_hosts;
	uint64_t next_order;

	/* All that are not gone, and the members of this generation and of the next, by id. */
	struct hvd_worker **workers;
	uint32_t n_workers, next_worker;
	bool more_ending; /* workers are ENDING that hvd_failure_bound_ends() has not seen yet */
	hvd_time ends_at; /* the first of the others has been late then, or its host is given up; HVD_FOREVER = none */
	struct hvd_worker_group now;  /* members of the current generation */
	struct hvd_worker_group next; /* members of the prepared one; empty when there is none */

	enum {
		HVD_WAITING,
		HVD_STARTING,
		HVD_RUNNING,
		HVD_OVER
	} phase;
	int generation, resets;
	int restarts;     /* PyTorch's policy: after failures */
	int idle;         /* PyTorch's policy: generations in a row that have failed without progress */
	bool suspected;   /* PyTorch's policy: the last generation failed soon */
	uint32_t suspect; /* on which host it failed first */
	struct hvd_generation gen;
	hvd_time waiting_since; /* for slots */
	hvd_time over_at;       /* the last generation was over; 0 = none was */
	hvd_time short_since;   /* before the first generation: when a host was lost; 0 = none was */
	hvd_time next_since;    /* when the prepared generation's workers were started */
	struct hvd_err first_failure;
	int first_status;
	hvd_time due;
	bool warned_limit;
	bool too_few; /* the job has ended because too few hosts are left */
	bool spares_set_aside;
};

static inline hvd_time hvd_after(hvd_time t, double seconds)
{
	return t + (hvd_time)(seconds * 1e9);
}

/* Have hvd_machine_tick() be called then, if not before. */
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
/* PyTorch's policy, between two generations: hosts without ranks take the places of those that cannot be used. */
void hvd_host_manager_move_ranks(struct hvd_machine *m, hvd_time now);
/* PyTorch's policy: a generation has begun. */
void hvd_host_manager_set_ranks(struct hvd_machine *m);
/* Log which of the hosts from `first` on, up to `end`, are spares. */
void hvd_host_manager_log_spares(const struct hvd_machine *m, uint32_t first, uint32_t end, hvd_time now);
/* Start the node agents of usable hosts. End those of hosts that discovery no longer lists with slots or that are unfit, once
 * no worker is left there. */
void hvd_host_manager_tend(struct hvd_machine *m, hvd_time now);
/* The host was lost: set when its agent is started again. */
void hvd_host_manager_lost(struct hvd_machine *m, struct hvd_managed_host *h, enum hvd_host_end how, hvd_time now);
/* While agents register for the first time: the slots of their hosts and of those that have registered. Otherwise 0. */
int hvd_host_manager_promised(const struct hvd_machine *m, hvd_time now);
/* Given this many slots, which are enough: true to start, false to wait a little for agents that are registering. */
bool hvd_host_manager_settled(struct hvd_machine *m, int slots, hvd_time now);
/* The next end of a ban; HVD_FOREVER when there is none. */
hvd_time hvd_host_manager_due(const struct hvd_machine *m, hvd_time now);
/* All hosts with slots are banned forever: only new ones could be used. */
bool hvd_host_manager_hopeless(const struct hvd_machine *m);
/* Hosts are listed with slots, and each of them was lost (even if it will be tried again) or is unfit. */
bool hvd_host_manager_none_came(const struct hvd_machine *m);
/* The slots of all listed hosts that are neither lost nor unfit, whether registered, banned or not. */
int hvd_host_manager_left(const struct hvd_machine *m);
/* Lift the bans that would last forever. False: there is none. */
bool hvd_host_manager_unban(struct hvd_machine *m);

/* ---- rank_assignment.c ---- */

/* The slots of a next generation in the order of their ranks, at most max_np. Free with hvd_rank_assignment_clear(). */
struct hvd_rank_assignment hvd_rank_assignment_find(const struct hvd_machine *m, hvd_time now);
void hvd_rank_assignment_clear(struct hvd_rank_assignment *assignment);
/* Leave out the slots that need a new worker, except where local ranks would have a gap then. */
void hvd_rank_assignment_keep(struct hvd_rank_assignment *assignment);
/* Is an old worker still dying in a slot that needs a new one? Then the new one cannot be started yet. */
bool hvd_rank_assignment_occupied(const struct hvd_rank_assignment *assignment, const struct hvd_machine *m);
/* Does each worker of the group have a slot in this assignment: a survivor its own, a new worker one that needs one? */
bool hvd_rank_assignment_covers(const struct hvd_rank_assignment *assignment, const struct hvd_worker_group *group);

/* ---- failure.c ---- */

/* A worker has failed: log it, and keep it if it is the generation's first failure. */
void hvd_failure_note(struct hvd_machine *m, struct hvd_worker *w, const char *what);
/* Keep this as the generation's first failure if there is none. */
void hvd_failure_set(struct hvd_machine *m, const struct hvd_worker *w, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A worker has failed, or did not arrive in time: mark its host for hvd_failure_judge(). `first`: before any other of
 * its generation. */
void hvd_failure_blame(struct hvd_machine *m, struct hvd_worker *w, bool first, const char *what);
/* Ban or keep each marked host. */
void hvd_failure_judge(struct hvd_machine *m, hvd_time now);
/* The job has ended; hvd_failure_finish(): with the first failure, if there is one. */
void hvd_machine_finish(struct hvd_machine *m, const struct hvd_err *why, int status);
void hvd_failure_finish(struct hvd_machine *m);
/* The host is lost, and its workers with it. */
void hvd_failure_lose_host(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now);
/* The host is bad for this reason. */
void hvd_failure_bad_host(struct hvd_machine *m, uint32_t host, const char *why);
/* The worker cannot be killed: give its host up, if the others are enough. */
void hvd_failure_unkillable(struct hvd_machine *m, struct hvd_worker *w, hvd_time now);
/* Bound the time that workers take to end: give the host of one up after opts.patience. */
void hvd_failure_bound_ends(struct hvd_machine *m, hvd_time now);

/* ---- slot_wait.c ---- */

/* The least number of ranks of the next generation. */
int hvd_slots_needed(const struct hvd_machine *m, hvd_time now);
/* Before the first generation: can none of the hosts be used? Then the job has ended. */
bool hvd_slots_none_came(struct hvd_machine *m);
/* There are `have` slots, which are too few: wait for others, or end the job when elastic_timeout is over. */
void hvd_slots_wait(struct hvd_machine *m, int have, int need, hvd_time now);

/* ---- generation.c ---- */

/* Assign the ranks of a next generation, and start its new workers while the current one runs. */
void hvd_generation_prepare(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now);
/* Give up what has been prepared, if anything. */
void hvd_generation_drop(struct hvd_machine *m);
/* The prepared generation begins. */
void hvd_generation_begin(struct hvd_machine *m, hvd_time now);
/* A generation with this assignment begins that was not prepared. */
void hvd_generation_form(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now);
/* Start a new worker with the rank and slot of a member that has gone. */
void hvd_generation_replace(struct hvd_machine *m, const struct hvd_worker *w, hvd_time now);
/* The current generation has failed to start. Survivors go on waiting at the rendezvous. */
void hvd_generation_undo(struct hvd_machine *m);
/* The current generation is over: its ready members wait for the next one. */
void hvd_generation_over(struct hvd_machine *m, hvd_time now);

/* Is a worker being ended that has not been a member yet? It may still publish its address at the rendezvous. */
bool hvd_generation_dying(const struct hvd_machine *m);
bool hvd_generation_limit_met(const struct hvd_machine *m);

/* Workers of the group that have not arrived at the rendezvous in time have failed: end them. */
void hvd_worker_group_give_up_late(struct hvd_machine *m, const struct hvd_worker_group *group);
void hvd_worker_stop(struct hvd_machine *m, struct hvd_worker *w, bool at_once);

/* ---- policy_horovod_training.c ---- */

/* One step of the phase running. True: the phase has changed. */
bool hvd_training_step(struct hvd_machine *m, hvd_time now);

#endif
