/* SPDX-License-Identifier: Apache-2.0 */
#include "spawned.h"

#include "agent.h"
#include "host_io.h"
#include "lib/base/size.h"
#include "lib/base/timer.h"
#include "lib/process/spawn.h"
#include "rank_env.h"
#include "run_child.h"
#include "signal_forward.h"
#include "stdio_sink.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_STARTED (127 << 8) /* the wait status of a rank that could not be started, as a shell has it */

struct spawned {
	struct hvd_agent agent;
	struct hvd_spawned_ranks_opts opts;
	struct hvd_spawned_ranks *ranks; /* NULL before the plan, and if they cannot be started */
	struct hvd_join *join;           /* NULL: the agent has not registered itself */
	struct hvd_host_io *io;          /* NULL unless there is `join`: the ranks' output goes over its connection */
	struct hvd_output_sink *stdio;   /* else */
	struct hvd_signal_forward *forward; /* elastic jobs in Slurm only */
	struct hvd_signal_watch *orphan;    /* elastic jobs in Slurm only: the step daemon may be gone */
	pid_t daemon;
	char daemon_name[HVD_COMMAND_PARENT];
	struct hvd_output_losses losses;
	bool loss_reported;
};

static const int for_ranks[] = {SIGQUIT, SIGUSR1, SIGUSR2};
#define N_FOR_RANKS (sizeof(for_ranks) / sizeof(for_ranks[0]))

static bool is_for_ranks(int sig)
{
	for (size_t i = 0; i < N_FOR_RANKS; i++)
		if (for_ranks[i] == sig)
			return true;
	return false;
}

/* ---- events ---- */

static void report_loss(struct spawned *spawned)
{
	if (spawned->losses.any && !spawned->loss_reported)
		hvd_driver_client_send(spawned->agent.driver, json_pack("{s:s}", "t", "output-lost"));
	spawned->loss_reported = spawned->losses.any;
}

static void on_exited(const struct hvd_rank_process *of, const struct hvd_rank_end *end, void *arg)
{
	struct spawned *spawned = arg;
	struct hvd_agent *agent = &spawned->agent;

	if (agent->status == 0 && !agent->elastic)
		agent->status = hvd_status_exit(end->status);
	report_loss(spawned);
	hvd_agent_rank_ended(agent, of->world, of->id, end);
}

static void on_unkillable(const struct hvd_rank_process *of, const struct hvd_unkillable *what, void *arg)
{
	struct hvd_agent *agent = &((struct spawned *)arg)->agent;
	json_t *msg = hvd_unkillable_json(what);

	json_object_set_new(msg, "t", json_string("unkillable"));
	json_object_set_new(msg, "id", json_integer(of->id));
	json_object_set_new(msg, "rank", json_integer(of->number));
	hvd_driver_client_send(agent->driver, hvd_world_mark(msg, of->world));
}

static void quit(void *arg)
{
	hvd_agent_quit(&((struct spawned *)arg)->agent);
}

static void not_started(struct spawned *spawned, const struct hvd_rank_process *of, struct hvd_err *why)
{
	struct hvd_rank_end end = {
		.rank = (uint32_t)of->number, .status = NOT_STARTED, .cause = HVD_END_NOT_STARTED, .error = why->msg};

	hvd_err_join(why);
	hvd_err_host(why, spawned->agent.info->name);
	hvd_log_err(spawned->agent.log, why);
	on_exited(of, &end, spawned);
}

/* In a job of fixed size all other ranks end, too, as if the first could not be started. */
static void on_not_started(const struct hvd_rank_process *of, struct hvd_err *why, void *arg)
{
	struct spawned *spawned = arg;

	not_started(spawned, of, why);
	if (!spawned->agent.elastic)
		hvd_agent_quit(&spawned->agent);
}

static void on_names(const struct hvd_name_service *names, void *arg)
{
	hvd_driver_client_send(((const struct spawned *)arg)->agent.driver, hvd_rank_env_own_name(names));
}

/* ---- a step of an elastic job ---- */

static void on_alone(int sig, void *arg)
{
	struct spawned *spawned = arg;

	if (spawned->ranks)
		hvd_spawned_ranks_signal(spawned->ranks, sig);
}

/* A step is signalled, and the launcher, which is none of its processes, hears nothing of it. */
static void forward_of_step(struct spawned *spawned)
{
	struct hvd_err why = {0};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < N_FOR_RANKS; i++)
		sigaddset(&set, for_ranks[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	spawned->forward = hvd_signal_forward_create(spawned->agent.base, &set, on_alone, spawned, &why);
	if (!spawned->forward)
		hvd_warn(spawned->agent.log, "%s: signals of the scheduler may not reach the ranks: %s",
			 spawned->agent.info->name, why.msg);
}

static void end_at_once(struct hvd_spawned_ranks *ranks)
{
	for (int i = 0; i < 2; i++)
		hvd_spawned_ranks_end_on_request(ranks);
}

/* The step daemon is gone: output of the ranks gets lost, and srun waits for ever. The launcher takes this host for
 * lost, and starts again without it, or here in a new step. No process of this step may go on beside that. */
static void on_orphan(int sig, void *arg)
{
	struct spawned *spawned = arg;

	(void)sig;
	if (getppid() == spawned->daemon)
		return; /* only the thread of it that has started this process has ended */
	hvd_agent_orphaned(&spawned->agent, spawned->daemon_name);
	if (spawned->ranks)
		end_at_once(spawned->ranks);
}

static void watch_daemon(struct spawned *spawned)
{
	spawned->daemon = getppid();
	hvd_child_parent(spawned->daemon_name);
	spawned->orphan = hvd_signal_watch(spawned->agent.base, hvd_child_orphan_signal(), on_orphan, spawned);
	hvd_child_follow();
	/* It may have ended before; then the first process of the host has this one. */
	if (spawned->daemon == 1 || getppid() != spawned->daemon) {
		spawned->daemon = 0;
		snprintf(spawned->daemon_name, sizeof(spawned->daemon_name), "slurmstepd");
		hvd_signal_soon(spawned->orphan);
	}
}

static void prepare_elastic(struct spawned *spawned)
{
	struct hvd_spawned_ranks_opts *opts = &spawned->opts;

	/* The number of ranks is not known beforehand, and a rank may have a number that another rank had before it. */
	opts->output.append = true;
	opts->output.size = 0;
	/* Slurm sends SIGTERM to all processes of a job when it is preempted, at the beginning of the grace time. The
	 * launcher gets that signal too, and has the ranks leave within the grace time. So ranks ignore it here. */
	opts->ignore_ends = opts->step;
	if (opts->ignore_ends) {
		forward_of_step(spawned);
		watch_daemon(spawned);
	}
}

/* ---- the driver's orders ---- */

static int take_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	static const struct hvd_spawned_ranks_ops ops = {.exited = on_exited,
							 .not_started = on_not_started,
							 .unkillable = on_unkillable,
							 .names = on_names,
							 .all_gone = quit};
	struct spawned *spawned = arg;
	struct hvd_agent *agent = &spawned->agent;

	if (agent->elastic)
		prepare_elastic(spawned);
	spawned->opts.output.read_stderr = agent->settings.stderr_lines > 0;
	spawned->ranks = hvd_spawned_ranks_start(agent, json_object_get(plan, "ranks"),
						 json_object_get(plan, "commands"), &spawned->opts, &ops, err);
	return spawned->ranks ? 0 : -1;
}

/* The launch has started: that a command cannot be run is an end of a rank, not a failure of the launch. */
static void refused(void *arg, const struct hvd_err *why)
{
	struct spawned *spawned = arg;
	const struct hvd_taskinfo *info = spawned->agent.info;
	const int rank = (int)info->ranks[info->local_rank];
	struct hvd_err err = *why;

	spawned->agent.planned = true;
	not_started(spawned, &(struct hvd_rank_process){.id = rank, .number = rank}, &err);
	hvd_agent_quit(&spawned->agent);
}

static void start(void *arg, unsigned world, const json_t *order)
{
	struct spawned *spawned = arg;
	struct hvd_rank_process of = {.world = world};
	struct hvd_rank_place place = {.bind = json_string_value(json_object_get(order, "bind"))};
	int64_t id, rank, slot, slots;
	struct hvd_err why = {0};
	const char *name;
	json_t *env;

	if (!spawned->agent.elastic || hvd_get_int(order, "id", 0, INT_MAX, &id, NULL) != 0 ||
	    hvd_get_int(order, "rank", 0, HVD_MAX_RANKS, &rank, NULL) != 0 ||
	    hvd_get_int(order, "slot", 0, INT_MAX, &slot, NULL) != 0 ||
	    hvd_get_int(order, "slots", 1, HVD_MAX_RANKS, &slots, NULL) != 0 ||
	    hvd_get_object(order, "env", &env, NULL) != 0 || hvd_host_share_parse(order, &place.share, NULL) != 0)
		return;
	place.slot = (int)slot;
	place.slots = (int)slots;
	of.id = (int)id;
	of.number = (int)rank;
	if (hvd_get_str(order, "label", HVD_OUTPUT_OF - 1, &name, NULL) == 0 && *name != '.')
		snprintf(of.of, sizeof(of.of), "%s", name);
	hvd_agent_rank_starts(&spawned->agent, (struct hvd_world_rank){world, (uint32_t)id}, env);
	if (hvd_spawned_ranks_add(spawned->ranks, &of, env, json_object_get(order, "command"), &place, &why) != 0)
		not_started(spawned, &of, &why);
}

static void stop(void *arg, unsigned world, int id, bool kill)
{
	hvd_spawned_ranks_end_one(((struct spawned *)arg)->ranks, world, id, kill);
}

static void pass_signal(void *arg, int sig)
{
	hvd_spawned_ranks_signal(((struct spawned *)arg)->ranks, sig);
}

static void end(void *arg)
{
	hvd_spawned_ranks_end_on_request(((struct spawned *)arg)->ranks);
}

static size_t running(const void *arg)
{
	const struct spawned *spawned = arg;

	return spawned->ranks ? hvd_spawned_ranks_running(spawned->ranks) : 0;
}

static void lines(const void *arg, struct hvd_world_rank rank, struct hvd_rank_lines *out)
{
	const struct spawned *spawned = arg;

	if (spawned->ranks)
		hvd_spawned_ranks_lines(spawned->ranks, rank, out);
}

static bool message(void *arg, const char *type, const json_t *msg)
{
	const struct spawned *spawned = arg;

	return spawned->io && hvd_host_io_message(spawned->io, type, msg);
}

/* ---- what ends the agent ---- */

static void failed(void *arg, const struct hvd_err *why)
{
	struct spawned *spawned = arg;
	const struct hvd_agent *agent = &spawned->agent;

	if (why->code == HVD_E_NET || !agent->driver)
		hvd_host_io_lost(spawned->io); /* the connection has gone */
	if (!spawned->ranks) {
		hvd_agent_quit(&spawned->agent);
		return;
	}
	hvd_log(agent->log, spawned->join && why->code == HVD_E_NET ? HVD_LOG_ERROR : HVD_LOG_VERBOSE,
		"%s: ending the ranks: %s", agent->info->name, why->msg);
	/* In an elastic job others may run in their place by now. What they would write at SIGTERM, as a
	 * checkpoint, would be older than the others'. */
	if (agent->elastic && why->code == HVD_E_NET && hvd_driver_client_cut_off(agent->driver))
		end_at_once(spawned->ranks);
	else
		hvd_spawned_ranks_end(spawned->ranks);
}

/* Before the launcher wants it. It is told why, since it cannot know. */
static void end_early(struct spawned *spawned, const char *because)
{
	if (spawned->join)
		hvd_driver_client_send(spawned->agent.driver, json_pack("{s:s, s:s}", "t", "ending", "why", because));
	if (spawned->ranks)
		hvd_spawned_ranks_end(spawned->ranks);
	else
		hvd_agent_quit(&spawned->agent);
}

static void signalled(void *arg, int sig)
{
	struct spawned *spawned = arg;

	if (is_for_ranks(sig))
		return; /* the launcher gets it too, and has it passed on */
	if (!spawned->ranks || !spawned->opts.ignore_ends || sig != SIGTERM) {
		end_early(spawned, sig == HVD_ENDING_STARTER ? "its starter has ended" : strsignal(sig));
		return;
	}
	hvd_verbose(spawned->agent.log, "%s: got SIGTERM; going on until the launcher decides",
		    spawned->agent.info->name);
	hvd_driver_client_send(spawned->agent.driver, json_pack("{s:s}", "t", "term"));
}

static void close_ranks(void *arg)
{
	struct spawned *spawned = arg;

	hvd_signal_forward_destroy(spawned->forward);
	hvd_signal_unwatch(spawned->orphan);
	hvd_spawned_ranks_destroy(spawned->ranks);
	spawned->ranks = NULL;
	hvd_stdio_sink_destroy(spawned->stdio);
}

/* For a host of an elastic job, the driver needs to know whether srun can learn that this task has ended. */
static void last(void *arg)
{
	struct spawned *spawned = arg;

	report_loss(spawned);
	if (spawned->agent.elastic)
		hvd_agent_done(&spawned->agent, spawned->opts.step);
	hvd_host_io_end(spawned->io, spawned->agent.status);
	hvd_host_io_destroy(spawned->io);
}

static const struct hvd_rank_source source = {
	.plan = take_plan,
	.refused = refused,
	.spare = quit,
	.failed = failed,
	.start = start,
	.stop = stop,
	.signal = pass_signal,
	.end = end,
	.lines = lines,
	.running = running,
	.message = message,
	.signalled = signalled,
	.close = close_ranks,
	.last = last,
};

/* ---- life ---- */

static int prepare(struct spawned *spawned, struct hvd_err *err)
{
	struct hvd_agent *agent = &spawned->agent;
	struct hvd_spawned_ranks_opts *opts = &spawned->opts;

	agent->base = spawned->join ? spawned->join->base : event_base_new();
	if (!agent->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	spawned->losses = (struct hvd_output_losses){.log = agent->log, .host = agent->info->name};
	opts->output.losses = &spawned->losses;
	if (spawned->join) {
		spawned->io = hvd_host_io_create(agent->base, agent->conn, err);
		if (!spawned->io)
			hvd_conn_free(agent->conn);
		else
			opts->output.sink = hvd_host_io_sink(spawned->io);
		return spawned->io ? 0 : -1;
	}
	opts->output.sink = spawned->stdio = hvd_stdio_sink_create(agent->base, &spawned->losses);
	return 0;
}

int hvd_spawned_run(struct hvd_join *join, struct hvd_bootstrap *start, const struct hvd_spawned_ranks_opts *opts)
{
	struct hvd_session session = {0};
	struct spawned spawned = {.agent = {.boot = &start->boot,
					    .session = join ? &join->session : &session,
					    .info = &start->info,
					    .log = &start->log,
					    .refusal = &start->refusal,
					    .conn = join ? join->conn : NULL,
					    .ending = join ? join->ending : NULL,
					    .source = &source,
					    .ranks = &spawned},
				  .opts = *opts,
				  .join = join};
	struct hvd_agent *agent = &spawned.agent;
	struct hvd_err why = {0};

	if ((join || hvd_driver_client_session(agent->boot, &session, &why) == 0) && prepare(&spawned, &why) == 0) {
		hvd_agent_run(agent);
	} else {
		hvd_driver_client_log_failure(agent->log, agent->info, &why);
		agent->status = hvd_err_status(&why);
		hvd_ending_unwatch(agent->ending);
	}
	if (agent->base)
		event_base_free(agent->base);
	return agent->status;
}
