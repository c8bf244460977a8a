/* SPDX-License-Identifier: Apache-2.0 */
#include "spawning_agent.h"

#include "driver_client.h"
#include "host_io.h"
#include "kill_connections.h"
#include "lib/base/size.h"
#include "lib/base/timer.h"
#include "lib/process/spawn.h"
#include "ports.h"
#include "rank_env.h"
#include "recheck.h"
#include "relay.h"
#include "run_child.h"
#include "signal_forward.h"
#include "stdio_sink.h"
#include "worker_notify.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_STARTED (127 << 8) /* the wait status of a rank that could not be started, as a shell has it */

static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
#define N_CAUGHT (sizeof(caught) / sizeof(caught[0]))

static bool is_for_ranks(int sig)
{
	return sig == SIGQUIT || sig == SIGUSR1 || sig == SIGUSR2;
}

struct spawning_agent {
	struct event_base *base;
	const struct hvd_boot *boot;
	struct hvd_taskinfo *info;
	struct hvd_spawned_ranks_opts opts;
	const struct hvd_log *log;
	struct hvd_driver_client *agent;
	struct hvd_join *join;        /* NULL: it did not come by itself */
	struct hvd_host_io *io;       /* NULL unless there is `join`: the ranks' output goes over its connection */
	struct hvd_stdio_sink *stdio; /* else; NULL where the ranks write to this process's streams themselves */
	struct event *parent; /* the end of the process that has started this one, if this one is to end with it */
	struct hvd_spawned_ranks *ranks;
	struct hvd_worker_notify *notify;   /* elastic jobs only */
	struct hvd_recheck *recheck;        /* elastic jobs only */
	struct hvd_signal_forward *forward; /* elastic jobs in Slurm only */
	struct event *orphan;               /* elastic jobs in Slurm only: the step daemon may be gone */
	pid_t daemon;
	char daemon_name[HVD_COMMAND_PARENT];
	struct hvd_reserve reserved;
	struct hvd_relay_sockets sockets;
	struct hvd_relay *relay; /* NULL: the ranks here meet at none */
	struct hvd_output_losses losses;
	bool loss_told;
	int status;
};

static void tell_loss(struct spawning_agent *sup)
{
	if (sup->losses.any && !sup->loss_told && sup->agent)
		hvd_driver_client_send(sup->agent, json_pack("{s:s}", "t", "output-lost"));
	sup->loss_told = sup->losses.any;
}

/* `id` is that of the rank's process (launcher/driver/rank_messages.h). */
static void on_exited(int id, const struct hvd_rank_end *end, void *arg)
{
	struct spawning_agent *sup = arg;
	json_t *msg = hvd_rank_end_json(end);

	if (sup->status == 0 && !sup->opts.stay)
		sup->status = hvd_status_exit(end->status);
	tell_loss(sup);
	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "id", json_integer(id));
	hvd_driver_client_send(sup->agent, msg);
	if (sup->recheck && hvd_spawned_ranks_running(sup->ranks) == 0)
		hvd_recheck_ranks_ended(sup->recheck);
}

static void on_unkillable(int id, int number, const struct hvd_unkillable *what, void *arg)
{
	struct spawning_agent *sup = arg;
	json_t *msg = hvd_unkillable_json(what);

	json_object_set_new(msg, "t", json_string("unkillable"));
	json_object_set_new(msg, "id", json_integer(id));
	json_object_set_new(msg, "rank", json_integer(number));
	hvd_driver_client_send(sup->agent, msg);
}

static void on_all_gone(void *arg)
{
	event_base_loopbreak(((struct spawning_agent *)arg)->base);
}

static void not_started(struct spawning_agent *sup, int id, struct hvd_err *why)
{
	struct hvd_rank_end end = {.status = NOT_STARTED, .cause = HVD_END_NOT_STARTED, .error = why->msg};

	hvd_err_join(why);
	hvd_err_host(why, sup->info->name);
	hvd_log_err(sup->log, why);
	on_exited(id, &end, sup);
}

static void send_answer(json_t *msg, void *arg)
{
	hvd_driver_client_send(((struct spawning_agent *)arg)->agent, msg);
}

static void on_notified(json_t *msg, void *arg)
{
	hvd_driver_client_send(((struct spawning_agent *)arg)->agent, msg);
}

static void on_alone(int sig, void *arg)
{
	struct spawning_agent *sup = arg;

	if (sup->ranks)
		hvd_spawned_ranks_signal(sup->ranks, sig);
}

/* A step is signalled, and the launcher, which is none of its processes, hears nothing of it. */
static void forward_of_step(struct spawning_agent *sup)
{
	struct hvd_err why = {0};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < N_CAUGHT; i++)
		if (is_for_ranks(caught[i]))
			sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sup->forward = hvd_signal_forward_create(sup->base, &set, on_alone, sup, &why);
	if (!sup->forward)
		hvd_warn(sup->log, "%s: signals of the scheduler may not reach the ranks: %s", sup->info->name,
			 why.msg);
}

static void end_at_once(struct hvd_spawned_ranks *ranks)
{
	for (int i = 0; i < 2; i++)
		hvd_spawned_ranks_end_on_request(ranks);
}

/* The step daemon is gone: output of the ranks gets lost, and srun waits for ever. The launcher takes this host for
 * lost, and starts again without it, or here in a new step. No process of this step may go on beside that. */
static void on_orphan(evutil_socket_t fd, short what, void *arg)
{
	struct spawning_agent *sup = arg;

	(void)fd;
	(void)what;
	if (getppid() == sup->daemon)
		return; /* only the thread of it that has started this process has ended */
	event_del(sup->orphan);
	hvd_driver_client_send(sup->agent, json_pack("{s:s, s:s}", "t", "orphan", "parent", sup->daemon_name));
	if (sup->ranks)
		end_at_once(sup->ranks);
}

static void watch_daemon(struct spawning_agent *sup)
{
	sup->daemon = getppid();
	hvd_child_parent(sup->daemon_name);
	sup->orphan = evsignal_new(sup->base, hvd_child_orphan_signal(), on_orphan, sup);
	event_add(sup->orphan, NULL);
	hvd_child_follow();
	/* It may have ended before; then the first process of the host has this one. */
	if (sup->daemon == 1 || getppid() != sup->daemon) {
		sup->daemon = 0;
		snprintf(sup->daemon_name, sizeof(sup->daemon_name), "slurmstepd");
		event_active(sup->orphan, EV_SIGNAL, 1);
	}
}

static void prepare_elastic(struct spawning_agent *sup)
{
	sup->opts.stay = true;
	/* The number of ranks is not known beforehand, and a rank may have a number that another rank had before it. */
	sup->opts.output.append = true;
	sup->opts.output.size = 0;
	/* Slurm sends SIGTERM to all processes of a job when it is preempted, at the beginning of the grace time. The
	 * launcher gets that signal too, and has the ranks leave within the grace time. So ranks ignore it here. */
	sup->opts.ignore_ends = sup->opts.step;
	if (sup->opts.ignore_ends) {
		forward_of_step(sup);
		watch_daemon(sup);
	}
	sup->notify = hvd_worker_notify_create(sup->base, on_notified, sup);
	sup->recheck = hvd_recheck_create(sup->base, send_answer, sup);
}

/* As when they cannot be started at once: in a job of fixed size, all others end, too. */
static void on_not_started(int id, struct hvd_err *why, void *arg)
{
	struct spawning_agent *sup = arg;

	not_started(sup, id, why);
	if (!sup->opts.stay)
		event_base_loopbreak(sup->base);
}

static void on_names(const struct hvd_name_service *names, void *arg)
{
	const struct spawning_agent *sup = arg;
	json_t *own_name = hvd_rank_env_own_name(names);

	if (own_name)
		hvd_driver_client_send(sup->agent, own_name);
}

static int start_ranks(struct spawning_agent *sup, const json_t *plan, struct hvd_err *err)
{
	static const struct hvd_spawned_ranks_ops ops = {.exited = on_exited,
							 .not_started = on_not_started,
							 .unkillable = on_unkillable,
							 .names = on_names,
							 .all_gone = on_all_gone};
	const json_t *plans = json_object_get(plan, "ranks");

	if (hvd_rank_key_take(plan, hvd_driver_client_key(sup->agent), &sup->opts.key_fd, err) == 0)
		sup->ranks = hvd_spawned_ranks_start(sup->base, plans, &sup->opts, &ops, sup, sup->log, err);
	return sup->ranks ? 0 : -1;
}

static int start_relay(struct spawning_agent *sup, const json_t *plan, struct hvd_err *err)
{
	struct hvd_relay_opts opts = {.sockets = &sup->sockets,
				      .plan = json_object_get(plan, "relay"),
				      .boot = sup->boot,
				      .info = sup->info,
				      .agent = sup->agent};

	if (opts.plan)
		sup->relay = hvd_relay_create(sup->base, &opts, sup->log, err);
	hvd_relay_sockets_close(&sup->sockets);
	return opts.plan && !sup->relay ? -1 : 0;
}

static void on_plan(const json_t *plan, void *arg)
{
	struct spawning_agent *sup = arg;
	struct hvd_err why = {0};

	if (json_is_true(json_object_get(plan, "stay")))
		prepare_elastic(sup);
	if (start_relay(sup, plan, &why) == 0 && start_ranks(sup, plan, &why) == 0)
		return;
	/* The launch has started: that a command cannot be run is an end of a rank, not a failure of the launch. */
	not_started(sup, (int)sup->info->ranks[sup->info->local_rank], &why);
	event_base_loopbreak(sup->base);
}

static void on_spare(void *arg)
{
	event_base_loopbreak(((struct spawning_agent *)arg)->base);
}

static void start_rank(struct spawning_agent *sup, const json_t *msg)
{
	int64_t id, rank, slot, slots;
	struct hvd_err why = {0};
	json_t *env;

	if (hvd_get_int(msg, "id", 0, INT_MAX, &id, NULL) != 0 ||
	    hvd_get_int(msg, "rank", 0, HVD_MAX_RANKS, &rank, NULL) != 0 ||
	    hvd_get_int(msg, "slot", 0, INT_MAX, &slot, NULL) != 0 ||
	    hvd_get_int(msg, "slots", 1, HVD_MAX_RANKS, &slots, NULL) != 0 ||
	    hvd_get_object(msg, "env", &env, NULL) != 0)
		return;
	if (hvd_spawned_ranks_add(sup->ranks, (int)id, (int)rank, env, (int)slot, (int)slots, &why) != 0)
		not_started(sup, (int)id, &why);
}

static void on_failed(const struct hvd_err *why, void *arg);

/* Since the start; the driver has said why. */
static void launch_failed(struct spawning_agent *sup, const char *type)
{
	struct hvd_err why = {0};

	hvd_err_set(&why, strcmp(type, "misused") == 0 ? HVD_E_USAGE : HVD_E_FAILED, "the launch failed");
	on_failed(&why, sup);
}

static void on_message(json_t *msg, void *arg)
{
	struct spawning_agent *sup = arg;
	const char *type;
	int64_t sig, id;

	if (sup->io && hvd_get_str(msg, "t", 16, &type, NULL) == 0 && hvd_host_io_message(sup->io, type, msg))
		return;
	if (!sup->ranks || hvd_rank_watch_message(sup->opts.watch, msg) || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "failed") == 0 || strcmp(type, "misused") == 0)
		launch_failed(sup, type);
	else if (strcmp(type, "end") == 0)
		hvd_spawned_ranks_end_on_request(sup->ranks);
	else if (strcmp(type, "ping") == 0)
		hvd_driver_client_send(sup->agent, json_pack("{s:s}", "t", "pong"));
	else if (strcmp(type, "start") == 0 && sup->opts.stay)
		start_rank(sup, msg);
	else if (strcmp(type, "notify") == 0 && sup->notify)
		hvd_worker_notify_pass(sup->notify, msg);
	else if (strcmp(type, "check") == 0 && sup->recheck)
		hvd_recheck_begin(sup->recheck, msg, hvd_spawned_ranks_running(sup->ranks) > 0);
	else if (strcmp(type, "relay") == 0)
		hvd_relay_again(sup->relay);
	else if (strcmp(type, "owner") == 0)
		hvd_relay_owner(sup->relay, msg);
	else if (strcmp(type, "network") == 0 && sup->relay)
		hvd_relay_network(sup->relay, msg);
	else if (strcmp(type, "kill-connections") == 0)
		hvd_driver_client_send(sup->agent, hvd_kill_connections_answer(msg));
	else if (strcmp(type, "stop") == 0 && hvd_get_int(msg, "id", 0, INT_MAX, &id, NULL) == 0)
		hvd_spawned_ranks_end_one(sup->ranks, (int)id, json_is_true(json_object_get(msg, "kill")));
	else if (strcmp(type, "signal") == 0 && hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		hvd_spawned_ranks_signal(sup->ranks, (int)sig);
}

static void on_bytes(const void *data, size_t len, void *arg)
{
	struct spawning_agent *sup = arg;

	if (!sup->io || !hvd_host_io_bytes(sup->io, data, len))
		hvd_relay_bytes(sup->relay, data, len);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct spawning_agent *sup = arg;

	if (sup->status == 0)
		sup->status = hvd_err_status(why);
	if (why->code == HVD_E_NET) {
		hvd_host_io_lost(sup->io);
		hvd_relay_lost(sup->relay, why);
	}
	if (sup->ranks) {
		hvd_log(sup->log, sup->join && why->code == HVD_E_NET ? HVD_LOG_ERROR : HVD_LOG_VERBOSE,
			"%s: ending the ranks: %s", sup->info->name, why->msg);
		/* In an elastic job others may run in their place by now. What they would write at SIGTERM, as a
		 * checkpoint, would be older than the others'. */
		if (sup->opts.stay && why->code == HVD_E_NET && hvd_driver_client_cut_off(sup->agent))
			end_at_once(sup->ranks);
		else
			hvd_spawned_ranks_end(sup->ranks);
		return;
	}
	hvd_driver_client_log_failure(sup->log, sup->info, why);
	event_base_loopbreak(sup->base);
}

/* Before the launcher wants it. It is told why, since it cannot know. */
static void end_early(struct spawning_agent *sup, const char *because)
{
	if (sup->join && sup->agent)
		hvd_driver_client_send(sup->agent, json_pack("{s:s, s:s}", "t", "ending", "why", because));
	if (sup->ranks)
		hvd_spawned_ranks_end(sup->ranks);
	else
		event_base_loopbreak(sup->base);
}

static void on_signal(int sig, void *arg)
{
	struct spawning_agent *sup = arg;
	bool for_ranks = is_for_ranks(sig);

	if (for_ranks)
		return; /* the launcher gets it too, and has it passed on */
	if (!sup->ranks || !sup->opts.ignore_ends || sig != SIGTERM) {
		end_early(sup, strsignal((int)sig));
		return;
	}
	hvd_verbose(sup->log, "%s: got SIGTERM; going on until the launcher decides", sup->info->name);
	if (sup->agent)
		hvd_driver_client_send(sup->agent, json_pack("{s:s}", "t", "term"));
}

static void on_parent(evutil_socket_t fd, short what, void *arg)
{
	struct spawning_agent *sup = arg;

	(void)fd;
	(void)what;
	if (!hvd_join_parent_gone(sup->join))
		return;
	event_del(sup->parent);
	end_early(sup, "its starter has ended");
}

/* A connection that ends without this message looks to the driver like the loss of its host. For a host of an elastic
 * job, the driver also needs to know whether srun can learn that this task has ended. */
static void say_done(struct spawning_agent *sup)
{
	if (sup->agent && sup->opts.stay)
		hvd_driver_client_send(sup->agent,
				       json_pack("{s:s, s:b}", "t", "done", "munge",
						 !sup->opts.step || hvd_driver_client_munge_answers(sup->boot)));
}

static void close_down(struct spawning_agent *sup)
{
	hvd_recheck_destroy(sup->recheck);
	sup->recheck = NULL;
	hvd_worker_notify_destroy(sup->notify);
	hvd_signal_forward_destroy(sup->forward);
	if (sup->orphan)
		event_free(sup->orphan);
	hvd_spawned_ranks_destroy(sup->ranks);
	hvd_stdio_sink_destroy(sup->stdio);
	hvd_rank_watch_destroy(sup->opts.watch);
	hvd_relay_destroy(sup->relay);
	hvd_relay_sockets_close(&sup->sockets);
	hvd_reserve_clear(&sup->reserved);
	if (sup->opts.key_fd)
		close(sup->opts.key_fd);
	tell_loss(sup);
	say_done(sup);
	hvd_host_io_end(sup->io, sup->status);
	hvd_driver_client_destroy(sup->agent);
	hvd_host_io_destroy(sup->io);
	if (sup->parent)
		event_free(sup->parent);
}

/* What the node agent opens before it registers. */
static void prepare(struct spawning_agent *sup)
{
	hvd_ports_reserve(sup->agent, sup->boot, sup->info, &sup->reserved, sup->log);
	hvd_relay_offer(sup->agent, sup->boot, sup->info, &sup->sockets);
}

static const struct hvd_driver_client_ops agent_ops = {
	.plan = on_plan, .spare = on_spare, .message = on_message, .failed = on_failed, .bytes = on_bytes};

static int connect_agent(struct spawning_agent *sup, struct hvd_err *err)
{
	struct hvd_session session;

	if (hvd_driver_client_session(sup->boot, &session, err) == 0)
		sup->agent = hvd_driver_client_create(sup->base, sup->boot, &session, sup->info, &agent_ops, sup,
						      sup->log, err);
	return sup->agent ? 0 : -1;
}

static int use_join(struct spawning_agent *sup, struct hvd_err *err)
{
	struct hvd_join *join = sup->join;

	if (join->parent >= 0) {
		sup->parent = event_new(sup->base, join->parent, EV_READ | EV_PERSIST, on_parent, sup);
		event_add(sup->parent, NULL);
	}
	sup->io = hvd_host_io_create(sup->base, join->conn, err);
	if (!sup->io) {
		hvd_conn_free(join->conn);
		return -1;
	}
	sup->opts.output.sink = hvd_host_io_sink(sup->io);
	sup->agent = hvd_driver_client_create_on(sup->base, join->conn, sup->boot, &join->session, sup->info,
						 &agent_ops, sup, sup->log, err);
	if (!sup->agent)
		hvd_host_io_lost(sup->io); /* the connection has gone with it */
	return sup->agent ? 0 : -1;
}

static int run(struct spawning_agent *sup, const struct hvd_err *refusal)
{
	struct hvd_signal_watch *signals[N_CAUGHT];
	struct hvd_err why = {0};

	sup->base = sup->join ? sup->join->base : event_base_new();
	if (!sup->base)
		return 1;
	sup->losses = (struct hvd_output_losses){.log = sup->log, .host = sup->info->name};
	sup->opts.output.losses = &sup->losses;
	sup->opts.output.look = sup->boot->stderr_lines > 0;
	if (!sup->join && hvd_output_by_line(&sup->opts.output)) {
		sup->stdio = hvd_stdio_sink_create(sup->base, &sup->losses);
		sup->opts.output.sink = hvd_stdio_sink_of(sup->stdio);
	}
	sup->opts.stderr_lines = sup->boot->stderr_lines;
	sup->opts.kill_wait = sup->boot->kill_wait;
	sup->opts.watch = hvd_rank_watch_create(sup->base, send_answer, sup, sup->log);
	for (size_t i = 0; i < N_CAUGHT; i++)
		signals[i] = hvd_signal_watch(sup->base, caught[i], on_signal, sup);
	if ((sup->join ? use_join(sup, &why) : connect_agent(sup, &why)) != 0)
		on_failed(&why, sup);
	else
		prepare(sup);
	if (sup->agent && refusal && refusal->code)
		hvd_driver_client_refuse(sup->agent, refusal);
	if (sup->agent)
		event_base_dispatch(sup->base);
	close_down(sup);
	for (size_t i = 0; i < N_CAUGHT; i++)
		hvd_signal_unwatch(signals[i]);
	event_base_dispatch(sup->base); /* until the last messages are out */
	event_base_free(sup->base);
	return sup->status;
}

int hvd_spawning_agent_run(const struct hvd_boot *boot, struct hvd_taskinfo *info,
			   const struct hvd_spawned_ranks_opts *opts, const struct hvd_err *refusal,
			   const struct hvd_log *log)
{
	struct spawning_agent sup = {.boot = boot, .info = info, .opts = *opts, .log = log};

	sup.opts.numbers = info->ranks;
	sup.opts.host = info->name;
	return run(&sup, refusal);
}

int hvd_spawning_agent_connect(struct hvd_join *join, struct hvd_taskinfo *info,
			       const struct hvd_spawned_ranks_opts *opts, const struct hvd_log *log)
{
	struct spawning_agent sup = {.boot = &join->boot, .join = join, .info = info, .opts = *opts, .log = log};

	sup.opts.numbers = info->ranks;
	sup.opts.host = info->name;
	return run(&sup, NULL);
}
