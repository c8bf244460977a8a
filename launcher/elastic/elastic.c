/* SPDX-License-Identifier: Apache-2.0 */
/* elastic.c - connects the parts of an elastic job with its state machine, see elastic.h. */
#include "elastic.h"

#include "discovery.h"
#include "draining.h"
#include "elastic_rendezvous.h"
#include "event_queue.h"
#include "generation_failures.h"
#include "launcher/driver/agent_commands.h"
#include "launcher/driver/gloo_peers.h"
#include "launcher/run/job_watch.h"
#include "lib/process/spawn.h"
#include "machine.h"
#include "progress_file.h"
#include "restart_history.h"
#include "unheard.h"
#include "unresponsive_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* How long a new worker may wait at the rendezvous for the others: as good as for ever, for it is ended if they do not
 * come. */
#define RANK_WAIT_SECONDS (30 * 86400.0)

struct elastic {
	struct hvd_job job;
	struct hvd_discovery *discovery;
	struct hvd_machine *machine;
	struct hvd_agent_registry *agents;
	struct hvd_elastic_rv *erv;
	struct hvd_gloo_peers *peers;
	struct hvd_event_queue *events;
	struct hvd_unresponsive_ranks *silent;
	struct hvd_elastic_failures failures;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct hvd_job_watch *watch;
	struct hvd_draining leaving;
	struct hvd_unheard unheard;
	struct hvd_restart_history history;
	struct hvd_progress_file progress; /* of a job with restarts */
	int failed_generation;             /* … the last one in which a rank has failed */
	bool restart;                      /* PyTorch's policy (machine.h) */
	bool output_lost;
	bool failed; /* the job ends because ranks or hosts have failed */
};

/* ---- the end ---- */

static void end_all(void *arg)
{
	struct elastic *el = arg;

	hvd_elastic_failures_ending(&el->failures);
	hvd_agent_registry_end(el->agents);
	if (hvd_procs_ending(el->job.procs)) {
		hvd_procs_signal(el->job.procs, SIGTERM);
	} else {
		hvd_procs_end(el->job.procs, (int)el->job.opts->kill_wait + HVD_UNKILLABLE_TOLD_SECONDS);
		hvd_unheard_ending(&el->unheard);
	}
	if (el->job.result->ended_by)
		hvd_procs_drop_output(el->job.procs);
	hvd_discovery_destroy(el->discovery);
	el->discovery = NULL;
	hvd_event_queue_stop(el->events);
	if (hvd_procs_running(el->job.procs) == 0)
		hvd_job_stop(&el->job);
}

/* If the job is requeued, hosts of other jobs are no matter of it. */
static void do_host_bad(uint32_t host, const char *why, void *arg)
{
	struct elastic *el = arg;
	const uint32_t job = hvd_machine_slurm_job(el->machine, host);

	if (!job || job == hvd_requeue_job(el->job.launch->spec, 0))
		hvd_requeue_avoid(&el->job.result->requeue, hvd_machine_host(el->machine, host), why);
}

/* Too few hosts are left. */
static void want_other_hosts(struct elastic *el)
{
	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (hvd_machine_lost(el->machine, h))
			do_host_bad(h, "it was lost", el);
	hvd_requeue_want(&el->job.result->requeue, el->job.launch->spec, HVD_REQUEUE_NODE, NULL);
}

/* The job has ended, or cannot go on. Only the first reason counts. */
static void finish(const struct hvd_err *why, int status, void *arg)
{
	struct elastic *el = arg;

	if (hvd_procs_ending(el->job.procs))
		return;
	if (why->code)
		hvd_log_err(el->job.log, why);
	el->failed = why->code == HVD_E_FAILED;
	if (hvd_machine_too_few(el->machine))
		want_other_hosts(el);
	el->job.result->status = status;
	el->job.result->limit_met = why->code == HVD_E_LIMIT;
	end_all(el);
}

/* ---- what the machine wants ---- */

static void do_host_begin(uint32_t host, void *arg)
{
	struct elastic *el = arg;
	const char *name = hvd_machine_host(el->machine, host);
	struct hvd_err why = {0};

	hvd_verbose(el->job.log, "%s: starting its node agent", name);
	hvd_agent_registry_expect(el->agents, host, name);
	if (hvd_procs_start_host(el->job.procs, host, name, hvd_machine_slots(el->machine, host),
				 hvd_machine_slurm_job(el->machine, host), &why) == 0)
		return;
	hvd_log_err(el->job.log, &why);
	hvd_agent_registry_forget(el->agents, host);
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_UNFIT, host, 0);
}

static void do_host_end(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s: ending its node agent", hvd_machine_host(el->machine, host));
	hvd_agent_registry_forget(el->agents, host);
	hvd_procs_release(el->job.procs, host, false);
}

static void do_host_give_up(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_agent_registry_forget(el->agents, host);
	hvd_procs_release(el->job.procs, host, true);
	hvd_discovery_nudge(el->discovery);
}

static void do_prepare(void *arg)
{
	struct elastic *el = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	if (hvd_machine_layout(el->machine, true, &layout, &why) == 0)
		hvd_agent_prepare(el->agents, &layout);
	else
		finish(&why, 1, el);
}

static void told_begin(struct elastic *el)
{
	hvd_verbose(el->job.log, "generation %d begins, %.3f s after the start", hvd_machine_generation(el->machine),
		    hvd_result_seconds(el->job.result));
	if (!el->job.result->started)
		el->job.result->start_seconds = hvd_result_seconds(el->job.result);
	el->job.result->started = true;
	hvd_agent_registry_progress(el->agents);
}

static void do_generation(bool prepared, void *arg)
{
	struct elastic *el = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	hvd_elastic_failures_next(&el->failures, hvd_machine_generation(el->machine), el->job.log);
	hvd_runfunc_generation(el->func);
	hvd_elastic_rv_cancel_notify(el->erv);
	hvd_gloo_peers_begin(el->peers);
	if (hvd_machine_layout(el->machine, false, &layout, &why) == 0)
		hvd_agent_generation(el->agents, &layout, prepared);
	else
		finish(&why, 1, el);
	if (el->restart && !why.code) {
		hvd_agent_renew(el->agents, hvd_machine_restarts(el->machine));
		hvd_restart_history_begin(&el->history, el->machine, hvd_now());
		told_begin(el);
	}
}

static void do_worker_start(const struct hvd_worker *w, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s: starting rank %d, local rank %d", hvd_machine_host(el->machine, w->host), w->rank,
		    w->slot);
	hvd_agent_start(el->agents, w->id, w->rank, hvd_machine_slots(el->machine, w->host));
}

static void do_worker_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct elastic *el = arg;

	/* Then all of them end. */
	if (el->restart) {
		hvd_elastic_failures_ending(&el->failures);
		hvd_restart_history_ends(&el->history, "hosts have changed", NULL, hvd_now());
	}
	hvd_verbose(el->job.log, "%s: ending local rank %d%s", hvd_machine_host(el->machine, w->host), w->slot,
		    w->removed ? ", which is no longer part of the job" : "");
	if (w->silent)
		hvd_unresponsive_ranks_end(el->silent, w->host, w->id);
	else
		hvd_agent_stop(el->agents, w->host, w->id, at_once);
}

static void do_answer(void *arg)
{
	struct elastic *el = arg;

	told_begin(el);
	hvd_gloo_peers_answered(el->peers);
	hvd_elastic_rv_answer(el->erv, hvd_agent_layout(el->agents));
}

static void do_notify(uint32_t worker, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "telling rank 0 that hosts have changed");
	hvd_elastic_rv_notify(el->erv, worker);
}

static void do_kill_connections(void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "breaking the connections of generation %d's ranks",
		    hvd_machine_generation(el->machine));
	if (hvd_agent_kill_connections(el->agents, el->peers) == 0) {
		hvd_verbose(el->job.log, "it is not known where they are connected");
		hvd_event_queue_add(el->events, HVD_EVENT_KILL_FAILED, 0, 0);
	}
}

static void do_check(uint32_t host, void *arg)
{
	hvd_agent_check(((struct elastic *)arg)->agents, host);
}

/* ---- what the node agents tell ---- */

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct elastic *el = arg;

	if (el->func && hvd_runfunc_serve(el->func, rv, &el->job.secret.session.key, err) != 0)
		return -1;
	if (el->restart)
		return 0;
	/* New workers wait for the members of the last generation, who come after their current batch. */
	hvd_rv_set_rank_wait(rv, RANK_WAIT_SECONDS);
	hvd_elastic_rv_open(el->erv, rv);
	hvd_gloo_peers_watch(el->peers, rv);
	return 0;
}

static void on_registered(uint32_t host, void *arg)
{
	hvd_procs_registered(((struct elastic *)arg)->job.procs, host);
}

static void on_admitted(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_requeue_pardon(&el->job.result->requeue, hvd_machine_host(el->machine, host));
	hvd_machine_switch_path(el->machine, host, hvd_agent_switch_path(el->agents, host));
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_HERE, host, 0);
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct elastic *el = arg;

	if (hvd_procs_ending(el->job.procs))
		return; /* it was told to leave */
	hvd_warn(el->job.log, "%s is left out: %s", hvd_machine_host(el->machine, host), why->msg);
	if (*why->hint)
		hvd_info(el->job.log, "%s", why->hint);
	hvd_elastic_failures_lose_host(&el->failures, el->machine, host, hvd_agent_registry_silent_ms(el->agents));
	if (hvd_machine_has_rank(el->machine, host))
		hvd_restart_history_ends(&el->history, why->msg, hvd_machine_host(el->machine, host), hvd_now());
	/* The end of a connection may be that of the agent alone, or of the job. */
	if (why->code != HVD_E_NET)
		do_host_bad(host, why->msg, el);
	hvd_discovery_nudge(el->discovery);
	hvd_procs_release(el->job.procs, host, true);
	hvd_event_queue_add(el->events, unfit ? HVD_EVENT_HOST_UNFIT : HVD_EVENT_HOST_LOST, host, 0);
}

static void on_left(uint32_t host, bool lost, void *arg)
{
	struct elastic *el = arg;

	if (lost)
		hvd_unheard_lost(&el->unheard, host);
	hvd_procs_agent_left(el->job.procs, host);
}

/* The caller of a function wants to know which of its ranks have failed by themselves. */
static void tell_func(struct elastic *el, uint32_t worker, const struct hvd_rank_end *end)
{
	const struct hvd_worker *w = hvd_machine_worker(el->machine, worker);

	if (el->func && w && end->status != 0 && (w->state != HVD_WORKER_ENDING || end->error))
		hvd_runfunc_failed(el->func, (uint32_t)w->rank, hvd_machine_host(el->machine, w->host), end->status);
}

/* Restarts: the first rank of a generation that was not told to end has failed. What has the generation achieved? */
static void note_failure(struct elastic *el, uint32_t worker, const struct hvd_rank_end *end)
{
	const struct hvd_worker *w = hvd_machine_worker(el->machine, worker);
	char text[64];

	if (!el->restart || end->status == 0 || !w || w->state == HVD_WORKER_ENDING ||
	    el->failed_generation == hvd_machine_generation(el->machine))
		return;
	el->failed_generation = hvd_machine_generation(el->machine);
	hvd_status_text(end->status, text, sizeof(text));
	hvd_restart_history_failed(&el->history, text, end->error, hvd_machine_host(el->machine, w->host), w->rank,
				   hvd_now());
	if (hvd_progress_file_changed(&el->progress))
		hvd_machine_progress(el->machine);
	if (hvd_restart_history_repeats(&el->history))
		hvd_machine_repeats(el->machine);
}

static void on_exited(uint32_t worker, const struct hvd_rank_end *end, void *arg)
{
	struct elastic *el = arg;

	hvd_elastic_failures_add(&el->failures, el->machine, worker, end);
	tell_func(el, worker, end);
	note_failure(el, worker, end);
	if (!hvd_draining_exited(&el->leaving, el->machine, end->status))
		hvd_event_queue_add(el->events, HVD_EVENT_EXITED, worker, end->status);
}

static void on_unkillable(uint32_t host, uint32_t worker, int rank, const struct hvd_unkillable *what, void *arg)
{
	struct elastic *el = arg;

	hvd_job_watch_unkillable(el->watch, what, rank, hvd_machine_host(el->machine, host));
	hvd_event_queue_add(el->events, HVD_EVENT_UNKILLABLE, worker, 0);
}

static bool on_checked(uint32_t host, const char *bad, void *arg)
{
	struct elastic *el = arg;
	const char *name = hvd_machine_host(el->machine, host);

	if (!bad) {
		hvd_verbose(el->job.log, "%s was checked again, and is good", name);
		hvd_event_queue_add(el->events, HVD_EVENT_CHECKED, host, 0);
		return false;
	}
	if (hvd_machine_needs(el->machine, host, hvd_now())) {
		hvd_warn(el->job.log, "%s: %s; the host is used all the same, because the job needs it", name, bad);
		hvd_event_queue_add(el->events, HVD_EVENT_CHECKED, host, 0);
		return false;
	}
	if (hvd_machine_checking(el->machine, host) || !hvd_machine_has_rank(el->machine, host))
		return true;
	hvd_warn(el->job.log, "%s: its ranks have been started before its check was over: %s", name, bad);
	return false;
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	finish(why, hvd_err_status(why), arg);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	hvd_job_watch_stalled(((struct elastic *)arg)->watch, stall);
}

static void on_notified(uint32_t worker, const char *why, void *arg)
{
	struct elastic *el = arg;

	if (*why)
		hvd_verbose(el->job.log, "rank 0 could not be told that hosts have changed: %s", why);
	hvd_event_queue_add(el->events, HVD_EVENT_NOTIFIED, worker, *why == '\0');
}

static void on_connections_killed(uint32_t host, int broken, const char *why, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s: %d connections of its ranks broken%s%s", hvd_machine_host(el->machine, host),
		    broken, *why ? ": " : "", why);
	if (*why)
		hvd_event_queue_add(el->events, HVD_EVENT_KILL_FAILED, 0, 0);
}

/* The user was told why. */
static void on_output_lost(void *arg)
{
	((struct elastic *)arg)->output_lost = true;
}

static void on_without_munge(uint32_t host, void *arg)
{
	hvd_unheard_without_munge(&((struct elastic *)arg)->unheard, host);
}

static void on_message(struct hvd_client *cl, const char *type, const json_t *msg, void *arg)
{
	static const struct hvd_agent_events events = {.exited = on_exited,
						       .unkillable = on_unkillable,
						       .notified = on_notified,
						       .connections_killed = on_connections_killed,
						       .checked = on_checked,
						       .output_lost = on_output_lost,
						       .without_munge = on_without_munge};

	hvd_agent_read(((struct elastic *)arg)->agents, &events, cl, type, msg, arg);
}

/* ---- what the workers tell at the rendezvous ---- */

static void on_connected(void *arg)
{
	hvd_event_queue_add(((struct elastic *)arg)->events, HVD_EVENT_CONNECTED, 0, 0);
}

static void on_arrived(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct elastic *)arg)->events, HVD_EVENT_ARRIVED, worker, 0);
}

static void on_ready(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct elastic *)arg)->events, HVD_EVENT_READY, worker, 0);
}

static void on_notify(const struct hvd_worker *w, const char *to, int64_t when, void *arg)
{
	hvd_agent_notify(((struct elastic *)arg)->agents, w->host, w->id, to, when);
}

/* ---- what the processes and discovery tell ---- */

static void on_proc_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct elastic *el = arg;

	if (hvd_procs_ending(el->job.procs))
		return;
	hvd_log_err(el->job.log, why);
	hvd_agent_registry_forget(el->agents, host);
	hvd_discovery_nudge(el->discovery);
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_LOST, host, 0);
}

static void on_joined(struct hvd_conn *conn, struct hvd_client_io *io, void *arg)
{
	hvd_agent_registry_adopt(((struct elastic *)arg)->agents, conn, io);
}

static void on_cut_short(uint32_t host, void *arg)
{
	hvd_unheard_cut_short(&((struct elastic *)arg)->unheard, host);
}

static void on_none_left(void *arg)
{
	struct elastic *el = arg;

	if (hvd_procs_ending(el->job.procs))
		hvd_job_stop(&el->job);
}

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	struct elastic *el = arg;

	/* At once, before they are asked for one by one. */
	if (el->job.backend->reach)
		hvd_launch_find_local(el->job.launch, hosts);
	/* A host that is not listed any longer is to be left in peace, or is down. */
	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (hvd_alloc_find(hosts, hvd_machine_host(el->machine, h)) < 0)
			hvd_agent_doubt(el->agents, h);
	hvd_event_queue_add_hosts(el->events, hosts);
}

static void on_leaving(const char *host, double seconds, void *arg)
{
	hvd_info(((struct elastic *)arg)->job.log, "%s will be taken away in %.0f s: its ranks are moved now", host,
		 seconds);
}

static void on_signal_ranks(int sig, void *arg)
{
	struct elastic *el = arg;

	el->job.result->requeue.signalled = true;
	hvd_agent_registry_signal(el->agents, sig);
}

static void on_end(const struct hvd_err *why, void *arg)
{
	if (why)
		finish(why, hvd_err_status(why), arg);
	else
		end_all(arg);
}

static bool is_ending(void *arg)
{
	return hvd_procs_ending(((struct elastic *)arg)->job.procs);
}

/* Nobody reads the results of --run-func any more. */
static void on_unread(void *arg)
{
	static const struct hvd_err none = {0};

	finish(&none, 1, arg);
}

/* All ranks have ended, so that the job can begin again. */
static void on_all_left(int status, void *arg)
{
	static const struct hvd_err none = {0};

	finish(&none, status, arg);
}

/* ---- life ---- */

static int begin(struct elastic *el, const struct hvd_discovery_opts *discovery, struct hvd_err *err)
{
	static const struct hvd_discovery_ops discovery_ops = {on_hosts, on_leaving, on_failed};
	static const struct hvd_machine_ops machine_ops = {.host_begin = do_host_begin,
							   .host_end = do_host_end,
							   .host_give_up = do_host_give_up,
							   .prepare = do_prepare,
							   .generation = do_generation,
							   .worker_start = do_worker_start,
							   .worker_end = do_worker_end,
							   .answer = do_answer,
							   .notify = do_notify,
							   .kill_connections = do_kill_connections,
							   .check = do_check,
							   .host_bad = do_host_bad,
							   .finish = finish};
	static const struct hvd_agent_registry_ops agents_ops = {.opened = on_opened,
								 .registered = on_registered,
								 .admitted = on_admitted,
								 .gone = on_gone,
								 .left = on_left,
								 .message = on_message,
								 .failed = on_failed,
								 .stalled = on_stalled};
	static const struct hvd_elastic_rv_ops erv_ops = {on_arrived, on_connected, on_ready, on_notify};
	struct hvd_machine_opts opts = hvd_elastic_machine_opts(el->job.launch->spec, el->job.opts->kill_wait);
	struct hvd_job *job = &el->job;
	struct hvd_boot boot;

	static const struct hvd_job_watch_ops watch_ops = {
		.signal_ranks = on_signal_ranks, .end = on_end, .ending = is_ending};
	struct hvd_requeue_wish *wish = &job->result->requeue;

	el->leaving = (struct hvd_draining){.spec = job->launch->spec, .wish = wish, .over = on_all_left, .arg = el};
	hvd_draining_init(&el->leaving, job->base);
	opts.hosts_stay = discovery->from == HVD_DISCOVER_HOSTS;
	opts.hosts_end = opts.hosts_stay || discovery->from == HVD_DISCOVER_SLURM; /* the job has ended then */
	opts.hosts_come = discovery->joining != NULL;
	el->restart = opts.restart;
	hvd_restart_history_init(&el->history, job->result->began);
	el->progress.pattern = job->launch->spec->elastic.progress_file;
	hvd_progress_file_changed(&el->progress);
	if (!el->restart)
		hvd_strv_add(&job->opts->extra_env, "HOROVOD_ELASTIC=1");
	el->machine = hvd_machine_create(&opts, hvd_now(), &machine_ops, el, job->log);
	hvd_unheard_init(&el->unheard, job, el->machine);
	el->events = hvd_event_queue_create(job->base, el->machine);
	el->peers = hvd_gloo_peers_create();
	el->erv = hvd_elastic_rv_create(el->machine, &erv_ops, el, job->log);
	if (hvd_job_open_func(job, on_unread, el, &el->func, err) != 0)
		return -1;
	el->agents = hvd_agent_registry_create(job->base, HVD_BARRIER_AS_THEY_COME, job->opts, &job->secret.session,
					       &agents_ops, el, job->log, err);
	if (!el->agents)
		return -1;
	el->watch = hvd_job_watch_create(&(struct hvd_job_watch_opts){.base = job->base,
								      .spec = job->launch->spec,
								      .stacks = hvd_agent_registry_stacks(el->agents),
								      .wish = wish,
								      .pid = getpid(),
								      .ops = &watch_ops,
								      .arg = el,
								      .log = job->log});
	hvd_job_watch_started(el->watch, NULL);
	el->silent = hvd_unresponsive_ranks_create(el->agents, job->log);
	hvd_agent_registry_boot(el->agents, &boot);
	if (hvd_job_set_boot(job, &boot, err) != 0)
		return -1;
	el->discovery = hvd_discovery_create(job->base, discovery, &discovery_ops, el, job->log, err);
	return el->discovery ? 0 : -1;
}

static void cleanup(struct elastic *el)
{
	hvd_discovery_destroy(el->discovery);
	hvd_draining_clear(&el->leaving);
	hvd_unheard_clear(&el->unheard);
	hvd_restart_history_clear(&el->history);
	hvd_job_end_procs(&el->job);
	hvd_elastic_rv_destroy(el->erv);
	hvd_job_watch_destroy(el->watch);
	hvd_unresponsive_ranks_destroy(el->silent);
	hvd_agent_registry_destroy(el->agents);
	hvd_runfunc_close(el->func);
	hvd_gloo_peers_destroy(el->peers);
	hvd_event_queue_destroy(el->events);
	hvd_elastic_failures_clear(&el->failures);
	hvd_machine_destroy(el->machine);
	hvd_job_clear(&el->job);
}

static const struct hvd_layout *last_layout(const struct elastic *el)
{
	const struct hvd_layout *layout = hvd_agent_layout(el->agents);

	return layout->size ? layout : NULL;
}

int hvd_elastic_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		    struct hvd_result *result, struct hvd_err *err)
{
	static const struct hvd_job_ops job_ops = {.end = end_all, .signal_ranks = on_signal_ranks};
	static const struct hvd_procs_ops procs_ops = {
		.lost = on_proc_lost, .cut_short = on_cut_short, .none_left = on_none_left, .joined = on_joined};
	struct elastic el = {0};
	struct hvd_discovery_opts discovery = {0};
	int rc = hvd_job_init(&el.job, launch, backend, opts, result, true, &job_ops, &procs_ops, &el, err);

	if (rc == 0)
		rc = hvd_discovery_choose(launch, &discovery, err);
	if (rc == 0)
		rc = begin(&el, &discovery, err);
	hvd_discovery_opts_clear(&discovery);
	if (rc == 0) {
		hvd_job_run(&el.job);
		result->generations = hvd_machine_generation(el.machine);
		hvd_restart_history_end(&el.history, result, hvd_now(), el.job.log);
		if (el.failed && !el.job.result->ended_by)
			hvd_elastic_failures_end(&el.failures, result, el.job.log);
		if (hvd_machine_idle(el.machine) && !el.job.result->ended_by)
			result->status = HVD_IDLE_STATUS;
	}
	hvd_job_finish(&el.job);
	if (el.output_lost)
		hvd_job_failed(&el.job);
	/* Ranks that do not meet have started as well. */
	if (rc == 0 && el.func)
		result->status = hvd_runfunc_end(el.func, last_layout(&el), result->status, last_layout(&el) != NULL);
	cleanup(&el);
	return rc;
}
