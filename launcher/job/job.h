/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a job, from the first host that registers to the last rank.
 *
 * It holds the hosts with their node agents (launcher/hosts/agent_registry.h), the worlds of ranks on them
 * (launcher/world/world.h), the watch over time limit, hangs and hosts (job_watch.h), the failures of its ranks, and the
 * result. A policy (job_policy.h) decides what follows from what agents report, and a starter (starter.h) starts the
 * ranks. How the job ends:
 *   - every rank has ended: the starter ends by itself, or the policy ends the job
 *   - a rank of a static job has failed: the others are ended, unless the launch spec says to keep going, or the starter
 *     decides. When all of them have ended, the report names the one that failed first
 *     (launcher/diagnosis/failure_report.h)
 *   - the start has failed, the policy gives up, the time limit is met, a hang, or a signal: everything is ended
 *
 * Its files, of which each uses only those before it:
 *   job_states.c  what may happen when, as a table
 *   rank_exits.c  what follows from the end of a rank
 *   job.c         what is reported to the job besides; its begin and end
 *
 * A function whose last argument is `void *job` fits those who call back.
 */
#ifndef HVD_JOB_H
#define HVD_JOB_H

#include "draining.h"
#include "failures.h"
#include "job_policy.h"
#include "job_result.h"
#include "job_watch.h"
#include "launcher/hosts/driver_opts.h"
#include "lib/base/size.h"
#include "lib/base/timer.h"
#include "lib/host/rank_end.h"
#include "lib/protocol/handshake.h"
#include "runfunc.h"
#include "starter.h"

#include <event2/event.h>
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
	HVD_JOB_STARTED,      /* all ranks have their plan, or a generation has it for the first time */
	HVD_JOB_START_FAILED, /* also later, when ranks cannot complete init_process_group() */
	HVD_JOB_CANNOT_GO_ON, /* a host is lost, a hang, the time limit, … */
	HVD_JOB_INTERRUPTED,  /* by a signal, which was logged and made the result; again: end at once */
	HVD_JOB_GRACE_OVER,
	HVD_JOB_STARTER_GONE, /* nothing of it is left */
	HVD_JOB_AGENTS_LEFT,  /* the last connection has ended, or has no more time */
	HVD_JOB_N_EVENTS
};

/* Nothing is owned, and all must outlive the job. */
struct hvd_job_opts {
	struct event_base *base;
	struct hvd_driver_opts *driver;
	struct hvd_session *session;
	struct hvd_starter *starter;
	struct hvd_job_policy *policy;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct hvd_result *result;
	const char
		*control; /* the launch's name for questions from outside; NULL = that of the environment. Read once */
	pid_t pid;        /* the process that a user sees: srun or hvdrun */
	const struct hvd_log *log;
};

/* Owner, policy and starter read it. */
struct hvd_job {
	struct hvd_job_opts opts;
	const struct hvd_launch_spec *spec;
	struct hvd_starter *starter;
	struct hvd_job_policy *policy;
	struct hvd_result *result;
	struct hvd_event_log *events;
	const struct hvd_log *log;
	enum hvd_job_state state;
	struct hvd_agent_registry *agents;        /* its hosts */
	struct hvd_world *worlds[HVD_MAX_WORLDS]; /* its ranks; there is one at least */
	unsigned n_worlds;
	struct hvd_job_store *store; /* that the ranks of all worlds share; NULL: there is one world */
	struct hvd_job_watch *watch;
	struct hvd_job_status *status;                /* status.h */
	struct hvd_failures failures[HVD_MAX_WORLDS]; /* of each world */
	struct hvd_timer *grace;                      /* pending: ranks may end by themselves */
	struct hvd_timer *last;
	bool ending; /* the starter was told to end everything */
	/* The starter sets it: the user has sent it a signal by which it ends all ranks. These ends are no failures. */
	bool ends_expected;
	bool failed;           /* for another reason than a rank's failure, which was logged */
	bool ranks_failed;     /* by failures of ranks, which are to be reported: */
	unsigned failed_world; /* the one that has decided about the status */
	bool ranks_ended;      /* the policy sets it: all have ended, as far as is known, and the starter was told */
	bool output_lost;      /* an agent could not write output of ranks; the user was told why */

	/* rank_exits.c */
	struct hvd_draining draining;
	bool asking;                /* the scheduler is asked whether it preempts the job */
	struct hvd_timer *late;     /* pending: why agents have ended ranks without being told to is awaited */
	struct hvd_rank_exit *held; /* what follows from these ends is decided when that is known */
	size_t n_held;
};

/* Listen for agents, and have the starter start. The job is the starter's and the policy's `job` from then on, also after
 * an error, and the caller destroys it. -1 with err set: nothing was started, or not all. */
int hvd_job_create(const struct hvd_job_opts *opts, struct hvd_err *err);
void hvd_job_destroy(struct hvd_job *job); /* after the policy; NULL is fine */
/* The event loop has ended: complete the result, and log the failures of ranks that have ended the job. True: in full. */
bool hvd_job_report(struct hvd_job *job);

/* The first world, which is the only one of a static job. */
static inline struct hvd_world *hvd_job_world(const struct hvd_job *job)
{
	return job->worlds[0];
}
/* For the policy's `open`: add a world, which the job owns; its ranks have these options. NULL with err set. */
struct hvd_world *hvd_job_add_world(struct hvd_job *job, const struct hvd_driver_opts *opts,
				    const struct hvd_world_ops *ops, void *arg, struct hvd_err *err);

/* ---- job_states.c ---- */

void hvd_job_handle(struct hvd_job *job, enum hvd_job_event event);
bool hvd_job_handles(const struct hvd_job *job, enum hvd_job_event event); /* does it change anything? */
/* Is an agent of a static job connected that could still report ends of ranks? */
bool hvd_job_connected(const struct hvd_job *job);
/* srun with the plugin has gone: it has shown how the ranks ended, and nothing can follow any more. */
static inline bool hvd_job_is_over(const struct hvd_job *job)
{
	return job->state == HVD_JOB_LAST && job->starter->judges_failures;
}
/* The start has failed; all agents were told. */
void hvd_job_start_failed(const struct hvd_err *why, void *job);
/* The job cannot go on. `why` is logged unless another reason was; NULL: the user was told. */
void hvd_job_fail(struct hvd_job *job, const struct hvd_err *why);
/* The job has ended, or cannot go on, and ends with this status. `why` is logged, unless its code is 0; HVD_E_FAILED:
 * ranks or hosts have failed. */
void hvd_job_end(struct hvd_job *job, const struct hvd_err *why, int status);

/* ---- rank_exits.c ---- */

/* A rank of this world has ended. `end` has its number; `id` is that by which the policy knows its process. `told`: it was
 * told to end. */
void hvd_job_rank_ended(struct hvd_job *job, unsigned world, const struct hvd_rank_end *end, uint32_t id,
			const char *host, bool told);
/* An agent got SIGTERM, and with it perhaps its ranks. Is that of a preemption? Find it out. */
void hvd_job_terminated(void *job);
void hvd_rank_exits_answered(struct hvd_job *job); /* by the scheduler */
void hvd_rank_exits_init(struct hvd_job *job);
void hvd_rank_exits_clear(struct hvd_job *job);

/* ---- job.c ---- */

/* Send a signal to all ranks. */
void hvd_job_signal(int sig, void *job);
/* --run-func: the rendezvous is open, and no rank knows of it yet. -1 with err set. */
int hvd_job_serve_func(struct hvd_rv *rv, void *job, struct hvd_err *err);
void hvd_job_host_registered(uint32_t host, void *job);
/* The generation of this world with this number begins, after so many restarts. */
void hvd_job_generation(struct hvd_job *job, unsigned world, int generation, int restarts,
			const struct hvd_layout *layout);
void hvd_job_stalled(struct hvd_job *job, unsigned world, const struct hvd_stall *stall);
/* Output of ranks is missing. */
void hvd_job_output_lost(void *job);

#endif
