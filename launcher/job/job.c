/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "job_watch.h"
#include "launcher/start/procs.h"
#include "launcher/world/driver.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "starter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An agent that ends its ranks without being told to does so since what had started it has gone, or is ending it. How
 * long that may take to be seen here, before the end counts as a failure of the rank. */
#define UNREQUESTED_SECONDS 1

enum state {
	IGNORED,  /* in the table: the event changes nothing */
	STARTING, /* hosts register and probe */
	RUNNING,  /* every rank has its plan */
	FAILED, /* the start has failed, and the driver has told the agents: ranks may end by themselves for a moment */
	ENDING, /* the starter was told to end everything */
	LAST,   /* the starter has gone; ends of ranks may be on their way */
	OVER,   /* the event loop ends */
	N_STATES
};

enum event_type {
	EV_PLANNED,
	EV_START_FAILED, /* also after the plan, when ranks cannot complete init_process_group() */
	EV_CANNOT_GO_ON, /* a host is lost, a hang, the time limit, … */
	EV_INTERRUPTED,  /* by a signal */
	EV_GRACE_OVER,
	EV_STARTER_GONE,
	EV_AGENTS_LEFT, /* the last connection has ended, or has no more time */
	N_EVENTS
};

/* The state that follows an event in a state. The same state again is entered again. */
/* clang-format off */
static const enum state next_state[N_EVENTS][N_STATES] = {
	[EV_PLANNED]      = {[STARTING] = RUNNING},
	[EV_START_FAILED] = {[STARTING] = FAILED, [RUNNING] = FAILED},
	[EV_CANNOT_GO_ON] = {[STARTING] = ENDING, [RUNNING] = ENDING, [FAILED] = ENDING},
	[EV_INTERRUPTED]  = {[STARTING] = ENDING, [RUNNING] = ENDING, [FAILED] = ENDING, [ENDING] = ENDING},
	[EV_GRACE_OVER]   = {                     [RUNNING] = ENDING, [FAILED] = ENDING},
	[EV_STARTER_GONE] = {[STARTING] = LAST,   [RUNNING] = LAST,   [FAILED] = LAST,   [ENDING] = LAST},
	[EV_AGENTS_LEFT]  = {                                                                            [LAST] = OVER},
};
/* clang-format on */

struct failed_rank {
	uint32_t rank;
	int status;
	char host[256];
};

struct hvd_job {
	struct hvd_job_opts opts;
	const struct hvd_launch_spec *spec;
	struct hvd_starter *starter;
	struct hvd_result *result;
	struct hvd_event_log *events;
	const struct hvd_log *log;
	enum state state;
	struct hvd_driver *driver;
	struct hvd_job_watch *watch;
	struct hvd_failures failures;
	struct hvd_timer *grace; /* pending: ranks may end by themselves */
	struct hvd_timer *last;
	bool ending;                    /* the starter was told to end everything */
	bool ends_expected;             /* or the user has sent it a signal to end */
	bool failed;                    /* for another reason than a rank's failure, which was logged */
	bool ranks_ended;               /* as the agents have reported */
	bool unconfirmed;               /* one of them has not, but its connection had just ended */
	bool asking;                    /* a rank has failed, and Slurm is asked whether it preempts the job */
	struct failed_rank failed_rank; /* that one */
	struct failed_rank unrequested; /* a rank that its agent has ended without being told to */
	struct hvd_timer *late;         /* pending: why that rank was ended is awaited */
};

/* ---- states ---- */

static void enter(struct hvd_job *job, enum state state, enum event_type event);

static void handle(struct hvd_job *job, enum event_type event)
{
	enum state next = next_state[event][job->state];

	if (next != IGNORED)
		enter(job, next, event);
}

/* Hosts that were left out have no ranks, and the last of the others may have fewer than slots. */
static void count_ranks(struct hvd_job *job)
{
	const struct hvd_layout *layout = hvd_driver_layout(job->driver);

	for (int h = 0; job->starter->agents_start_ranks && h < layout->n_hosts; h++)
		if (layout->hosts[h].n > 0)
			hvd_procs_set_ranks(job->starter->procs, (uint32_t)h, layout->hosts[h].n);
}

static void log_generation(const struct hvd_job *job, const struct hvd_layout *layout)
{
	hvd_cleanup_free char *hosts = hvd_layout_hosts_text(layout);

	hvd_event(job->events, GENERATION_BEGAN, .generation = 1, .ranks = layout->size, .hosts = hosts);
}

static void enter_running(struct hvd_job *job)
{
	hvd_job_watch_started(job->watch, job->starter->ask_slurm ? job->driver : NULL);
	if (job->spec->spares > 0)
		count_ranks(job);
	job->result->started = true;
	job->result->start_seconds = hvd_result_seconds(job->result);
	log_generation(job, hvd_driver_layout(job->driver));
}

static void enter_failed(struct hvd_job *job)
{
	int seconds = job->result->started ? job->starter->failed_later_seconds : job->starter->failed_seconds;

	if (seconds > 0)
		hvd_timer_in_ms(job->grace, seconds * 1000);
	else
		handle(job, EV_GRACE_OVER);
}

static void enter_ending(struct hvd_job *job, enum state from, enum event_type event)
{
	/* Before the plan there may be agents that the driver does not know. */
	bool all_known = !job->failed && (event != EV_INTERRUPTED || job->result->started);
	struct hvd_ending how = {.again = from == ENDING,
				 .no_ranks = job->ranks_ended,
				 .agents = job->starter->agents_end_ranks && all_known,
				 .had_time = from == FAILED && event == EV_GRACE_OVER && !job->result->started};

	if (event == EV_INTERRUPTED && !all_known)
		job->failed = true;
	job->ending = true;
	hvd_event(job->events, LAUNCH_ENDING, .index = 0);
	hvd_failure_report_ending(hvd_failures_now(&job->failures), hvd_now());
	hvd_timer_stop(job->grace);
	if (job->starter->agents_end_ranks)
		hvd_driver_end_ranks(job->driver);
	job->starter->ops->end(job->starter, &how);
}

/* Ends of ranks that were reported last may not have been read yet. srun may have ended with the tasks that Slurm has
 * ended since it has given up a host. */
static void enter_last(struct hvd_job *job)
{
	struct hvd_starter *starter = job->starter;
	bool unexplained = starter->ops->unexplained && starter->ops->unexplained(starter, false);
	bool more =
		job->result->rank_failed || unexplained ||
		(starter->judges_failures && !job->failed && hvd_failure_report_any(hvd_failures_now(&job->failures)));

	if (unexplained)
		hvd_job_watch_ask_slurm(job->watch);
	if (more && hvd_driver_connected(job->driver))
		hvd_timer_in_ms(job->last, starter->last_ms);
	else
		handle(job, EV_AGENTS_LEFT);
}

static void enter_over(struct hvd_job *job)
{
	if (job->starter->ops->unexplained)
		job->starter->ops->unexplained(job->starter, true);
	event_base_loopbreak(job->opts.base);
}

static void enter(struct hvd_job *job, enum state state, enum event_type event)
{
	enum state from = job->state;

	job->state = state;
	switch (state) {
	case RUNNING:
		enter_running(job);
		break;
	case FAILED:
		enter_failed(job);
		break;
	case ENDING:
		enter_ending(job, from, event);
		break;
	case LAST:
		enter_last(job);
		break;
	case OVER:
		enter_over(job);
		break;
	default:
		break;
	}
}

static void on_grace_over(void *arg)
{
	handle(arg, EV_GRACE_OVER);
}

static void on_last(void *arg)
{
	handle(arg, EV_AGENTS_LEFT);
}

void hvd_job_interrupt(struct hvd_job *job)
{
	handle(job, EV_INTERRUPTED);
}

void hvd_job_fail(struct hvd_job *job, const struct hvd_err *why)
{
	if (job->ending)
		return;
	if (!job->failed && !job->result->rank_failed) {
		if (why)
			hvd_log_err(job->log, why);
		job->result->status = 1;
		job->failed = true;
	}
	handle(job, EV_CANNOT_GO_ON);
}

void hvd_job_starter_gone(struct hvd_job *job)
{
	handle(job, EV_STARTER_GONE);
}

void hvd_job_expect_ends(struct hvd_job *job)
{
	job->ends_expected = true;
}

void hvd_job_signal(struct hvd_job *job, int sig)
{
	job->result->requeue.signalled = true;
	if (job->starter->ops->signal)
		job->starter->ops->signal(job->starter, sig);
	else
		hvd_driver_signal_ranks(job->driver, sig);
}

/* ---- ranks ---- */

static struct failed_rank failed_rank(const struct hvd_rank_end *end, const char *host)
{
	struct failed_rank rank = {.rank = end->rank, .status = end->status};

	snprintf(rank.host, sizeof(rank.host), "%s", host);
	return rank;
}

static void rank_failed(struct hvd_job *job, const struct failed_rank *failed)
{
	struct hvd_result *result = job->result;
	char text[64];

	result->rank_failed = true;
	result->rank = failed->rank;
	result->rank_status = failed->status;
	result->status = hvd_status_exit(failed->status);
	snprintf(result->host, sizeof(result->host), "%s", failed->host);
	hvd_status_text(failed->status, text, sizeof(text));
	hvd_event(job->events, GENERATION_FAILED, .rank = failed->rank, .host = failed->host, .how = text);
	hvd_error(job->log, "rank %u on %s failed: %s; %s", failed->rank, failed->host, text,
		  job->spec->keep_going ? "the others go on (--keep-going)" : "ending the other ranks");
	if (job->spec->keep_going)
		return;
	if (job->starter->agents_end_ranks)
		handle(job, EV_CANNOT_GO_ON);
	else if (job->starter->failure_seconds)
		hvd_timer_in_ms(job->grace, job->starter->failure_seconds * 1000);
}

static void on_unrequested_late(void *arg)
{
	struct hvd_job *job = arg;

	if (!job->result->rank_failed && !job->ending)
		rank_failed(job, &job->unrequested);
}

/* Its process here is about to end, and is not to be taken for one whose ranks have ended by themselves. */
static void await_why(struct hvd_job *job, const struct failed_rank *failed)
{
	if (hvd_timer_runs(job->late))
		return;
	job->unrequested = *failed;
	hvd_timer_in_ms(job->late, UNREQUESTED_SECONDS * 1000);
}

static void end_after_failure(struct hvd_job *job)
{
	job->asking = false;
	if (job->ending)
		return;
	if (!job->starter->judges_failures)
		rank_failed(job, &job->failed_rank);
	handle(job, EV_CANNOT_GO_ON);
}

/* In a job that is being preempted the other ranks go on, otherwise they are ended. */
static void ask_before_ending(struct hvd_job *job, const struct failed_rank *failed)
{
	if (job->asking)
		return;
	job->failed_rank = *failed;
	job->asking = true;
	if (!hvd_job_watch_ask(job->watch))
		end_after_failure(job);
}

static void on_rank_exit(const struct hvd_rank_end *end, const char *host, void *arg)
{
	struct hvd_job *job = arg;
	struct hvd_starter *starter = job->starter;
	const struct failed_rank failed = failed_rank(end, host);
	char text[64];
	bool first = end->status != 0 && !job->result->rank_failed && !job->ending && !job->ends_expected;

	hvd_failure_report_add(hvd_failures_now(&job->failures), end, host);
	hvd_event_log_rank_ended(job->events, end, end->rank, host);
	if (first && starter->ops->interrupts && hvd_rank_end_cancelled(end) && starter->ops->interrupts(starter))
		first = false;
	if (first && end->cause == HVD_END_WITH_ALL && starter->agents_start_ranks) {
		await_why(job, &failed);
		return;
	}
	if (starter->procs)
		hvd_procs_rank_ended(starter->procs, host);
	hvd_requeue_rank_ended(&job->result->requeue, job->spec, end->status);
	if (end->status != 0 && job->opts.func && !job->ending)
		hvd_runfunc_failed(job->opts.func, end->rank, host, end->status);
	/* After the signal before the time limit, and in a job that is preempted, ranks end one after the other; each may
	 * still write a checkpoint. */
	if (!first || job->result->requeue.preempted || hvd_requeue_wanted(&job->result->requeue, HVD_REQUEUE_LIMIT))
		return;
	hvd_event(job->events, GENERATION_FAILED, .rank = end->rank, .host = host,
		  .how = hvd_status_text(end->status, text, sizeof(text)), .error = end->error);
	if (starter->ends_after_failure)
		ask_before_ending(job, &failed);
	else if (!starter->judges_failures)
		rank_failed(job, &failed);
}

static void on_terminated(void *arg)
{
	hvd_job_watch_ask(((struct hvd_job *)arg)->watch);
}

static void on_facts(const struct hvd_job_facts *facts, void *arg)
{
	struct hvd_job *job = arg;

	if (job->asking && !facts->preempted)
		end_after_failure(job);
	job->asking = false;
}

static void on_unkillable(uint32_t rank, const char *host, const struct hvd_unkillable *what, void *arg)
{
	struct hvd_job *job = arg;

	hvd_job_watch_unkillable(job->watch, what, (int)rank, host);
}

static void on_ranks_ended(const struct hvd_strv *without_munge, void *arg)
{
	struct hvd_job *job = arg;

	if (!job->starter->ops->ranks_ended)
		return;
	job->ranks_ended = true;
	job->unconfirmed = hvd_job_watch_settle(job->watch);
	job->starter->ops->ranks_ended(job->starter, without_munge);
}

/* ---- hosts and processes ---- */

/* It has shown how the ranks ended, and nothing can follow any more. */
static bool srun_has_gone(const struct hvd_job *job)
{
	return job->state == LAST && job->starter->judges_failures;
}

/* srun may wait for ever for the tasks of such a host. */
static void on_host_lost(const char *host, const char *how, void *arg)
{
	struct hvd_job *job = arg;
	bool leave = job->starter->judges_failures && job->spec->lost_host == HVD_LOST_HOST_SLURM &&
		     !hvd_requeue_wanted(&job->result->requeue, HVD_REQUEUE_NODE);
	struct hvd_err why = {0};

	if (srun_has_gone(job))
		return;
	if (*how && job->ranks_ended && job->result->rank_failed && !job->ending)
		hvd_warn(job->log, "%s%s, and srun still waits; ending it", host, how);
	hvd_job_watch_lost_error(&why, host, how,
				 leave                           ? "leaving the step to Slurm (lost-host: slurm)"
				 : job->starter->judges_failures ? "ending the step"
								 : "ending the job",
				 job->starter->ask_slurm);
	hvd_event(job->events, HOST_LOST, .index = UINT32_MAX, .host = host, .why = why.msg);
	if (leave) {
		if (!job->ending)
			hvd_log_err(job->log, &why);
		return;
	}
	if (job->starter->ops->host_lost)
		job->starter->ops->host_lost(job->starter, host);
	hvd_job_fail(job, &why);
	hvd_driver_lose_host(job->driver, host);
}

/* A host's connection has ended before its ranks did; its agent may have said why. */
static void on_host_gone(const char *host, const struct hvd_err *why, void *arg)
{
	struct hvd_job *job = arg;
	struct hvd_err full = {0};

	if (why->code == HVD_E_FAILED) {
		hvd_err_set(&full, HVD_E_FAILED, "%s; ending the job", why->msg);
		hvd_err_hint(&full, "%s", why->hint);
		hvd_err_host(&full, host);
		if (job->starter->ops->host_lost)
			job->starter->ops->host_lost(job->starter, host);
		hvd_job_fail(job, &full);
		return;
	}
	hvd_job_watch_host_gone(job->watch, host, why);
}

static void on_process_lost(const struct hvd_loss *loss, void *arg)
{
	struct hvd_job *job = arg;

	if (job->ending || job->ends_expected)
		return;
	hvd_failure_report_lost(hvd_failures_now(&job->failures), loss);
	if (hvd_job_watch_process_lost(job->watch, loss))
		job->unconfirmed = false;
}

static void on_host_registered(uint32_t host, void *arg)
{
	const struct hvd_starter *starter = ((struct hvd_job *)arg)->starter;

	if (starter->procs)
		hvd_procs_registered(starter->procs, host);
}

/* The job goes on without the host. An agent that has registered is told to end; a process that may still be on its way
 * to the host is not waited for. */
static void on_host_left_out(uint32_t host, void *arg)
{
	const struct hvd_starter *starter = ((struct hvd_job *)arg)->starter;

	if (starter->agents_start_ranks)
		hvd_procs_release(starter->procs, host, true);
}

bool hvd_job_host_failed(struct hvd_job *job, uint32_t host, const struct hvd_err *why)
{
	if (job->ending)
		return false;
	if (!job->result->started) {
		if (hvd_driver_leave_out(job->driver, host, why))
			return true;
		hvd_driver_give_up(job->driver, why);
		return false;
	}
	hvd_log_err(job->log, why);
	if (job->result->status == 0)
		job->result->status = 1;
	if (!job->spec->keep_going)
		handle(job, EV_CANNOT_GO_ON);
	return false;
}

bool hvd_job_lose_unconfirmed_host(struct hvd_job *job, const char *starter)
{
	struct hvd_loss loss = {.of = HVD_LOSS_HOST, .status = -1};

	if (!job->unconfirmed) {
		hvd_job_watch_ask_of_all(job->watch);
		return false;
	}
	loss.host = hvd_job_watch_settled_host(job->watch, &loss.at);
	hvd_warn(job->log, "%s: the connection to its node agent was lost, and %s still waits; ending it", loss.host,
		 starter);
	hvd_failure_report_lost(hvd_failures_now(&job->failures), &loss);
	hvd_job_watch_lose(job->watch);
	return true;
}

/* ---- the driver and the watch ---- */

static void on_planned(void *arg)
{
	handle(arg, EV_PLANNED);
}

static void on_start_failed(const struct hvd_err *why, void *arg)
{
	struct hvd_job *job = arg;

	if (next_state[EV_START_FAILED][job->state] == IGNORED)
		return;
	job->failed = true;
	job->result->status = hvd_err_status(why);
	hvd_log_err(job->log, why);
	handle(job, EV_START_FAILED);
}

static int on_rendezvous_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct hvd_job *job = arg;

	return job->opts.func ? hvd_runfunc_serve(job->opts.func, rv, &job->opts.session->key, err) : 0;
}

static void on_all_left(void *arg)
{
	handle(arg, EV_AGENTS_LEFT);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	struct hvd_job *job = arg;

	if (!job->ranks_ended)
		hvd_job_watch_stalled(job->watch, stall);
}

static void on_watch_signal(int sig, void *arg)
{
	hvd_job_signal(arg, sig);
}

static void on_watch_end(const struct hvd_err *why, void *arg)
{
	if (why)
		hvd_job_fail(arg, why);
	else
		handle(arg, EV_CANNOT_GO_ON);
}

static bool on_watch_ending(void *arg)
{
	const struct hvd_job *job = arg;

	return job->ending || srun_has_gone(job);
}

/* ---- what may be asked ---- */

struct hvd_driver *hvd_job_driver(const struct hvd_job *job)
{
	return job->driver;
}

struct hvd_failures *hvd_job_failures(struct hvd_job *job)
{
	return &job->failures;
}

bool hvd_job_ending(const struct hvd_job *job)
{
	return job->ending;
}

bool hvd_job_failed(const struct hvd_job *job)
{
	return job->failed;
}

bool hvd_job_ranks_ended(const struct hvd_job *job)
{
	return job->ranks_ended;
}

/* ---- life ---- */

static int begin(struct hvd_job *job, struct hvd_err *err)
{
	static const struct hvd_driver_ops ops = {.started = on_planned,
						  .failed = on_start_failed,
						  .rank_exit = on_rank_exit,
						  .unkillable = on_unkillable,
						  .host_gone = on_host_gone,
						  .host_registered = on_host_registered,
						  .rendezvous_opened = on_rendezvous_opened,
						  .ranks_ended = on_ranks_ended,
						  .all_left = on_all_left,
						  .stalled = on_stalled,
						  .told_to_end = on_terminated,
						  .host_left_out = on_host_left_out,
						  .process_lost = on_process_lost};
	static const struct hvd_job_watch_ops watch_ops = {.signal_ranks = on_watch_signal,
							   .end = on_watch_end,
							   .host_lost = on_host_lost,
							   .facts = on_facts,
							   .ending = on_watch_ending};
	const struct hvd_job_opts *opts = &job->opts;
	struct hvd_boot boot;

	job->driver = hvd_driver_create(opts->base, opts->driver, opts->session, &ops, job, job->log, err);
	if (!job->driver)
		return -1;
	job->watch = hvd_job_watch_create(&(struct hvd_job_watch_opts){.base = opts->base,
								       .spec = job->spec,
								       .stacks = hvd_driver_stacks(job->driver),
								       .wish = &job->result->requeue,
								       .events = job->events,
								       .control = opts->control,
								       .pid = opts->pid,
								       .ops = &watch_ops,
								       .arg = job,
								       .log = job->log});
	hvd_driver_boot(job->driver, &boot);
	return job->starter->ops->start(job->starter, &boot, err);
}

int hvd_job_create(const struct hvd_job_opts *opts, struct hvd_err *err)
{
	struct hvd_job *job = hvd_xcalloc(1, sizeof(*job));

	job->opts = *opts;
	job->spec = opts->driver->spec;
	job->starter = opts->starter;
	job->starter->job = job;
	job->result = opts->result;
	job->events = opts->driver->events;
	job->log = opts->log;
	job->state = STARTING;
	job->grace = hvd_timer_new(opts->base, on_grace_over, job);
	job->last = hvd_timer_new(opts->base, on_last, job);
	job->late = hvd_timer_new(opts->base, on_unrequested_late, job);
	return begin(job, err);
}

void hvd_job_destroy(struct hvd_job *job)
{
	if (!job)
		return;
	hvd_job_watch_destroy(job->watch);
	hvd_driver_destroy(job->driver);
	hvd_timer_free(job->grace);
	hvd_timer_free(job->last);
	hvd_timer_free(job->late);
	hvd_failures_clear(&job->failures);
	free(job);
}
