/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_watch.h - what is watched beside the ranks of any job: its time limit, hangs, hosts that are lost, and questions
 * from outside (hvdrun --stacks and --status). The job (job.h) decides what follows.
 *
 * A lost host. The driver sees its agent's connection end. Often the whole job is just being ended, and this host is
 * the first to go, so the watch waits for LOST_HOST_SECONDS whether the others follow. A host whose kernel does not
 * answer any longer is lost at once, and so is one that Slurm has given up (node_down.h). A process of the host that
 * reports its agent's death shows that the host is up. Where hosts come and go, the agents' connections have rules of
 * their own (launcher/hosts/agent_deadlines.c), and only Slurm's word counts here.
 *
 * Reasons to requeue the batch job (a hang, a lost host) are added to the result's wish before the owner hears of them.
 * Once the job is being ended, nobody hears of hangs and the time limit, and no reason to requeue counts.
 */
#ifndef HVD_JOB_WATCH_H
#define HVD_JOB_WATCH_H

#include "ask.h"
#include "job_policy.h"
#include "launcher/hosts/loss.h"
#include "launcher/world/progress.h"
#include "launcher/world/stacks.h"
#include "lib/host/unkillable.h"
#include "requeue.h"

#include <event2/event.h>

struct hvd_job_watch_ops {
	/* Send all ranks this signal: the time limit is near. */
	void (*signal_ranks)(int sig, void *arg);
	/* End the job, for this reason, which the callee logs. NULL: the time limit is met, which the watch has
	 * logged. */
	void (*end)(const struct hvd_err *why, void *arg);
	/* What the scheduler says of the job, since somebody has asked. May be NULL. */
	hvd_job_facts_fn *facts;
};

struct hvd_job_watch;

/* `job` is what the watch reads of the job, which has its worlds, and the argument of the ops. Nothing is owned, and all must
 * outlive the watch. */
struct hvd_job_watch *hvd_job_watch_create(struct hvd_job *job, const struct hvd_job_watch_ops *ops);
void hvd_job_watch_destroy(struct hvd_job_watch *watch); /* NULL is fine */

/* The ranks start, or may start from now on, so that the time limit counts. A second call does nothing. */
void hvd_job_watch_started(struct hvd_job_watch *watch);

/* Ask the scheduler about the job. False: it does not report the job's state, and no answer will tell it. Due when
 * SIGTERM has come to an agent, or has ended a rank, too: Slurm sends it to all when it preempts the job, which so ends
 * sooner. */
bool hvd_job_watch_ask(struct hvd_job_watch *watch);

/* What agents report, of the ranks of this world, or of hosts. */
void hvd_job_watch_stalled(struct hvd_job_watch *watch, unsigned world, const struct hvd_stall *stall);
void hvd_job_watch_host_gone(struct hvd_job_watch *watch, const char *host, const struct hvd_err *why);
/* True: it was the agent of the host whose connection has ended last, and the host is up. */
bool hvd_job_watch_process_lost(struct hvd_job_watch *watch, const struct hvd_loss *loss);

/* SIGKILL has not ended a rank: log it, and keep the job away from the host when it is requeued. */
void hvd_job_watch_unkillable(struct hvd_job_watch *watch, const struct hvd_unkillable *what, const char *role,
			      int rank, const char *host);

/* All ranks have ended: stop waiting for hosts. True: it was not known of one whether it is lost. */
bool hvd_job_watch_settle(struct hvd_job_watch *watch);
/* That host's name; *at is when its connection ended. */
const char *hvd_job_watch_settled_host(const struct hvd_job_watch *watch, hvd_time *at);
/* Report it as lost after all. */
void hvd_job_watch_lose(struct hvd_job_watch *watch);

/* Has Slurm given a host up on which a rank has not ended? It is lost then. */
void hvd_job_watch_ask_slurm(struct hvd_job_watch *watch);
/* All ranks have ended, as far as is known, and srun goes on: from now on Slurm is asked about all hosts. */
void hvd_job_watch_ask_of_all(struct hvd_job_watch *watch);

/* The error of a lost host, with its host and a hint; `then` is what follows from it: "ending the job"; `slurm`:
 * Slurm knows the host, wherever this process runs. Always returns -1. */
int hvd_job_watch_lost_error(struct hvd_err *err, const char *host, const char *how, const char *then, bool slurm);

#endif
