/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_internal.h - what the files of a job share. Each uses only those above it:
 *
 *   job_states.c  what may happen when, as a table
 *   rank_exits.c  what follows from the end of a rank
 *   job.c         what is reported to the job besides; its begin and end
 *
 * static_ranks.c and elastic.c, its policies, use it as well.
 */
#ifndef HVD_JOB_INTERNAL_H
#define HVD_JOB_INTERNAL_H

#include "draining.h"
#include "failures.h"
#include "job.h"
#include "job_policy.h"
#include "job_watch.h"
#include "lib/base/timer.h"
#include "starter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hvd_job_state {
	HVD_JOB_IGNORED,  /* in the table: the event changes nothing */
	HVD_JOB_STARTING, /* hosts register and probe */
	HVD_JOB_RUNNING,  /* every rank has its plan, or has had it once */
	HVD_JOB_FAILED,   /* the start has failed, and the agents were told: ranks may end by themselves for a moment */
	HVD_JOB_ENDING,   /* the starter was told to end everything */
	HVD_JOB_LAST,     /* the starter has gone; ends of ranks may be on their way */
	HVD_JOB_OVER,     /* the event loop ends */
	HVD_JOB_N_STATES
};

enum hvd_job_event {
	HVD_JOB_STARTED,
	HVD_JOB_START_FAILED, /* also later, when ranks cannot complete init_process_group() */
	HVD_JOB_CANNOT_GO_ON, /* a host is lost, a hang, the time limit, … */
	HVD_JOB_INTERRUPTED,  /* by a signal */
	HVD_JOB_GRACE_OVER,
	HVD_JOB_STARTER_GONE,
	HVD_JOB_AGENTS_LEFT, /* the last connection has ended, or has no more time */
	HVD_JOB_N_EVENTS
};

/* A rank has ended by itself, or was told to. */
struct hvd_rank_exit {
	uint32_t id; /* by which the policy knows its process */
	uint32_t rank;
	int status; /* as from waitpid(2) */
	bool told;  /* it was told to end */
	bool first; /* no failure that ends a static job was known */
	char host[256];
	char *error; /* with which exception it has failed; or NULL */
};

struct hvd_job {
	struct hvd_job_opts opts;
	const struct hvd_launch_spec *spec;
	struct hvd_starter *starter;
	struct hvd_job_policy *policy;
	struct hvd_result *result;
	struct hvd_event_log *events;
	const struct hvd_log *log;
	enum hvd_job_state state;
	struct hvd_job_watch *watch;
	struct hvd_failures failures;
	struct hvd_timer *grace; /* pending: ranks may end by themselves */
	struct hvd_timer *last;
	bool ending;        /* the starter was told to end everything */
	bool ends_expected; /* or the user has sent it a signal to end */
	bool failed;        /* for another reason than a rank's failure, which was logged */
	bool ranks_failed;  /* by failures of ranks, which are to be reported */
	bool ranks_ended;   /* as the agents have reported */

	/* rank_exits.c */
	struct hvd_draining draining;
	bool asking;                /* the scheduler is asked whether it preempts the job */
	struct hvd_timer *late;     /* pending: why agents have ended ranks without being told to is awaited */
	struct hvd_rank_exit *held; /* what follows from these ends is decided when that is known */
	size_t n_held;
};

/* ---- job_states.c ---- */

/* srun with the plugin has gone: it has shown how the ranks ended, and nothing can follow any more. */
bool hvd_job_is_over(const struct hvd_job *job);
bool hvd_job_handles(const struct hvd_job *job, enum hvd_job_event event); /* does it change anything? */
void hvd_job_handle(struct hvd_job *job, enum hvd_job_event event);

/* ---- rank_exits.c ---- */

void hvd_rank_exits_init(struct hvd_job *job);
void hvd_rank_exits_clear(struct hvd_job *job);
/* The scheduler has answered. */
void hvd_rank_exits_answered(struct hvd_job *job);

#endif
