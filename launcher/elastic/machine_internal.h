/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_internal.h - what the files of the state machine share: machine.c moves from phase to phase, crowd.c
 * knows the hosts and gives out places.
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

struct hvd_crowd_host {
	char *name;
	int slots;      /* as listed last */
	uint64_t order; /* of its ranks among hosts: smaller comes first */
	enum hvd_host_stage stage;
	bool listed, lost, unfit;
	hvd_time banned_until; /* 0 = it is not */
	hvd_time banned_at;
	int bans, spared;
	bool to_judge; /* a worker of this generation failed there */
};

/* A place that the next generation will have. */
struct hvd_seat_plan {
	uint32_t host;
	int slot;
	struct hvd_worker *survivor; /* NULL: a new worker is needed */
};

struct hvd_machine {
	struct hvd_machine_opts opts;
	const struct hvd_machine_ops *ops;
	void *arg;
	const struct hvd_log *log;

	struct hvd_crowd_host *hosts;
	uint32_t n_hosts;
	uint64_t next_order;

	struct hvd_worker **workers; /* all that are not gone, and those of this generation */
	uint32_t n_workers, next_worker;
	struct hvd_worker **members; /* by rank; into workers */
	int size;

	enum {
		HVD_WAITING,
		HVD_CLEARING,
		HVD_STARTING,
		HVD_RUNNING,
		HVD_OVER
	} phase;
	int generation;
	hvd_time waiting_since; /* for slots */
	hvd_time enough_since;  /* first generation: so long there have been enough slots; 0 = there are not */
	hvd_time trouble_at;    /* starting: a member has gone */
	hvd_time moved_at;      /* last time that a member became ready or went */
	int ended_silent;       /* running: so many were ended because they were silent */
	bool died, success;     /* running: a member of this generation has */
	bool cut, uncut;        /* … the connections between the others were to be broken; that could not be done */
	bool notifying, told;   /* rank 0 is being told; has been told of what there is now */
	hvd_time notify_after;
	struct hvd_err first_failure;
	int first_status;
	hvd_time due;
	bool warned_slots;
};

/* crowd.c */
void hvd_crowd_update(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now);
bool hvd_crowd_usable(const struct hvd_machine *m, const struct hvd_crowd_host *h, hvd_time now);
/* Begin the shims of hosts that may be used, end those of hosts that are neither used nor needed any longer. */
void hvd_crowd_tend(struct hvd_machine *m, hvd_time now);
/* Is a host that may be used on its way? */
bool hvd_crowd_coming(const struct hvd_machine *m, hvd_time now);
/* The places of a next generation, in the order of ranks; *n of them, at most max_np. Caller frees. */
struct hvd_seat_plan *hvd_crowd_places(const struct hvd_machine *m, hvd_time now, int *n);
/* Ban the hosts whose workers have failed in this generation, or spare them. */
void hvd_crowd_judge(struct hvd_machine *m, hvd_time now);
/* The next end of a ban; HVD_FOREVER when there is none. */
hvd_time hvd_crowd_due(const struct hvd_machine *m, hvd_time now);
/* No host will ever be usable unless the source names new ones. */
bool hvd_crowd_hopeless(const struct hvd_machine *m);
/* There are hosts, and all of them were lost, or are unfit. */
bool hvd_crowd_none_came(const struct hvd_machine *m);
/* "hvdn4 added, hvdn2 removed": from the hosts of these places to those of the members. Caller frees. */
char *hvd_crowd_change(const struct hvd_machine *m, const struct hvd_seat_plan *next, int n);
void hvd_crowd_clear(struct hvd_machine *m);

#endif
