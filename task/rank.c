/* SPDX-License-Identifier: Apache-2.0 */
#include "rank.h"

#include "agent.h"
#include "command.h"
#include "evidence.h"
#include "last_report.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/job/rank_error.h"
#include "lib/process/spawn.h"
#include "lib/protocol/munge.h"
#include "lib/protocol/step_note.h"
#include "ports.h"
#include "rank_env.h"
#include "rank_watch.h"
#include "relay.h"
#include "stay.h"
#include "step_tasks.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* When a task fails, srun ends the step, and loses messages that the task wrote just before. So wait until they have
 * arrived. */
#define LAST_WORDS_MS 100

/* A rank shim, from its start to the end of its command. */
struct shim {
	const struct hvd_log *log;
	struct hvd_taskinfo *info;
	const struct hvd_boot *boot;
	struct event_base *base;
	struct hvd_agent *agent; /* the connection to the driver; NULL when there is none */
	json_t *plan;
	struct hvd_reserve reserved; /* the sockets are this process's, or the node agent's that stays */
	struct hvd_relay_sockets relay;
	bool notes; /* slurmstepd and its tasks tell of themselves (lib/protocol/step_note.h) */
	struct hvd_stay stay;
	int key_fd;    /* for the command, see rank_env.h; 0 = none */
	pid_t task;    /* the rank's process, as Slurm knows it */
	int status;    /* to end with; -1 while the plan is awaited */
	bool lasts;    /* this process ends after its rank */
	bool logged;   /* an error message went out */
	pid_t command; /* while it runs; else 0 */
	pid_t was;     /* … and after */
	struct hvd_evidence *evidence;
	struct hvd_rank_watch *watch;    /* NULL: there is no connection to the driver */
	char parent[HVD_COMMAND_PARENT]; /* the name of the program that started this one */
};

static enum hvd_agent_role role_of(const struct hvd_taskinfo *info)
{
	return info->local_rank ? HVD_AGENT_RANK : HVD_AGENT_NODE;
}

static void end_wait(struct shim *shim, int status)
{
	if (shim->status < 0)
		shim->status = status;
	event_base_loopbreak(shim->base);
}

/* Warn if the workers' controller is MPI in a step that srun was not told to start an MPI in: each worker would find
 * itself alone, and go on. */
static void warn_without_pmi(const struct shim *shim)
{
	const json_t *env = json_object_get(shim->plan, "env");
	const char *controller;

	if (!env)
		env = json_array_get(json_object_get(shim->plan, "ranks"), 0);
	controller = json_string_value(json_object_get(env, "HOROVOD_CONTROLLER"));

	if (shim->info->rank != 0 || shim->info->size < 2 || !controller || strcmp(controller, "mpi") != 0 ||
	    getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK"))
		return;
	hvd_warn(shim->log, "the workers' controller is MPI, but nothing here tells an MPI its rank");
	hvd_info(shim->log, "srun needs --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI), whatever 'srun "
			    "--mpi=list' has");
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct shim *shim = arg;

	if (shim->command)
		return; /* the rank goes on without the driver; the scheduler ends it */
	/* The first rank that ends has srun send SIGTERM to the others, which are about to end with the same status. */
	signal(SIGTERM, SIG_IGN);
	shim->logged = hvd_agent_log_failure(shim->log, shim->info, why);
	end_wait(shim, hvd_err_status(why));
}

static void on_plan(const json_t *plan, void *arg)
{
	struct shim *shim = arg;
	struct hvd_err why = {0};

	if (hvd_rank_key_take(plan, hvd_agent_key(shim->agent), &shim->key_fd, &why) != 0) {
		on_failed(&why, shim);
		return;
	}
	shim->plan = json_incref((json_t *)plan);
	warn_without_pmi(shim);
	end_wait(shim, 0);
}

/* What the driver says while the command runs. */
static void on_message(json_t *msg, void *arg)
{
	struct shim *shim = arg;
	const char *type;
	int64_t sig;

	if (!shim->command || (shim->watch && hvd_rank_watch_message(shim->watch, msg)))
		return;
	/* A scheduler makes each task the leader of a process group. This process has all signals blocked. */
	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && strcmp(type, "signal") == 0 &&
	    hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		kill(getpgrp() == getpid() ? 0 : shim->command, (int)sig);
}

static void on_spare(void *arg)
{
	end_wait(arg, 0);
}

/* End the connection to the driver, after queued messages were sent; takes a second at most. */
static void disconnect(struct shim *shim)
{
	hvd_agent_destroy(shim->agent);
	shim->agent = NULL;
	if (shim->base) {
		event_base_dispatch(shim->base);
		event_base_free(shim->base);
	}
	shim->base = NULL;
	if (shim->logged)
		poll(NULL, 0, LAST_WORDS_MS);
}

/* If a process of this host lasts as long as the ranks, it can reserve ports; and the driver hears of one that stays.
 */
static void announce_stay(struct shim *shim)
{
	bool stays = shim->notes && hvd_step_tasks_possible(NULL) == 0;

	if (stays)
		hvd_agent_stays(shim->agent);
	if (shim->lasts || stays)
		hvd_ports_reserve(shim->agent, shim->boot, shim->info, &shim->reserved, shim->log);
}

/* Start what is to stay on this host as long as its tasks, with the relay, where the plan has one. Without the kernel's
 * help no process stays, which is an error only where a relay is needed. */
static int begin_to_stay(struct shim *shim, struct hvd_err *err)
{
	struct hvd_stay_opts opts = {.task = shim->task,
				     .boot = shim->boot,
				     .info = shim->info,
				     .relay = {.sockets = &shim->relay,
					       .plan = json_object_get(shim->plan, "relay"),
					       .boot = shim->boot,
					       .info = shim->info,
					       .key = hvd_agent_key(shim->agent)},
				     .reserved = shim->lasts ? NULL : &shim->reserved,
				     .notes = shim->notes};

	if (!opts.relay.plan && !opts.notes)
		return 0;
	if (hvd_stay_begin(&opts, &shim->stay, shim->log, err) == 0)
		return 0;
	if (opts.relay.plan)
		return hvd_err_prefix(err, "cannot start the relay of the rendezvous");
	hvd_verbose(shim->log, "%s: no node agent stays beside the tasks: %s", shim->info->name, err->msg);
	return 0;
}

/* Wait for the plan. Returns 0 with shim->plan set, or the exit status. The connection stays until disconnect(). */
static int fetch_plan(struct shim *shim, enum hvd_agent_role role)
{
	static const struct hvd_agent_ops ops = {
		.plan = on_plan, .spare = on_spare, .message = on_message, .failed = on_failed};
	struct hvd_err why = {0};

	shim->status = -1;
	shim->base = event_base_new();
	if (!shim->base)
		return 1;
	shim->agent = hvd_agent_create(shim->base, shim->boot, shim->info, role, &ops, shim, shim->log, &why);
	if (shim->agent && role != HVD_AGENT_RANK) {
		announce_stay(shim);
		hvd_relay_offer(shim->agent, shim->boot, shim->info, true, &shim->relay);
	}
	if (shim->agent)
		event_base_dispatch(shim->base);
	else
		on_failed(&why, shim);
	if (shim->plan && shim->status == 0 && begin_to_stay(shim, &why) != 0)
		on_failed(&why, shim);
	hvd_relay_sockets_close(&shim->relay);
	return shim->status < 0 ? 1 : shim->status;
}

/* The variables of one rank's plan, each with its NUL, and an empty string. */
static int print_env(const json_t *plan, const struct hvd_rank_facts *facts, const struct hvd_stay *stay,
		     uint32_t local_rank, const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};

	hvd_rank_env_add(&env, plan, facts, NULL, log);
	if (stay->pid)
		hvd_strv_addf(&env, HVD_STEP_AGENT_ENV "=%d", (int)stay->pid);
	if (stay->error_files && stay->error_files[local_rank] && json_object_get(plan, HVD_RANK_ERROR_FILE_WITH) &&
	    !hvd_rank_error_file_set(getenv(HVD_RANK_ERROR_FILE)))
		hvd_strv_addf(&env, HVD_RANK_ERROR_FILE "=" HVD_RANK_ERROR_FILE_FORMAT, (int)stay->pid,
			      stay->error_files[local_rank]);
	for (size_t i = 0; i < env.n; i++)
		if (fwrite(env.v[i], strlen(env.v[i]) + 1, 1, stdout) != 1)
			return 1;
	return putchar('\0') == EOF;
}

/* The plans of so many tasks that take no part in the job. */
static int print_spare(uint32_t tasks)
{
	static const char plan[] = HVD_STEP_SPARE_ENV "=1\0";

	while (tasks-- > 0)
		if (fwrite(plan, sizeof(plan), 1, stdout) != 1)
			return 1;
	return fflush(stdout) != 0;
}

int hvd_rank_print_plan(const struct hvd_boot *boot, struct hvd_taskinfo *info, bool all, bool notes,
			const struct hvd_log *log)
{
	/* The parent is the task itself, in which the plugin runs. */
	struct shim shim = {.log = log, .info = info, .boot = boot, .task = getppid(), .notes = notes};
	int status = fetch_plan(&shim, all ? HVD_AGENT_ALL : role_of(info));
	struct hvd_rank_facts facts = hvd_rank_env_facts(true);
	const json_t *ranks = all ? json_object_get(shim.plan, "ranks") : NULL;
	const json_t *env = all ? json_array_get(ranks, 0) : json_object_get(shim.plan, "env");
	size_t i;

	disconnect(&shim);
	if (status == 0)
		facts.names = hvd_rank_env_names(env);
	if (status == 0 && !shim.plan)
		status = print_spare(all ? info->local_size : 1);
	else if (status == 0 && !all)
		status = print_env(env, &facts, &shim.stay, info->local_rank, info->rank == 0 ? log : NULL);
	json_array_foreach(status == 0 ? ranks : NULL, i, env)
	{
		if (status == 0 && i < info->local_size)
			status = print_env(env, &facts, &shim.stay, (uint32_t)i, info->ranks[i] == 0 ? log : NULL);
	}
	if (status == 0 && fflush(stdout) != 0)
		status = 1;
	hvd_stay_clear(&shim.stay);
	hvd_reserve_clear(&shim.reserved);
	json_decref(shim.plan);
	return status;
}

/* Send a message over a new connection, and end that. `msg` is taken over. */
static void report_anew(const struct shim *shim, json_t *msg)
{
	struct hvd_session session;

	if (hvd_agent_session(shim->boot, &session, NULL) == 0)
		hvd_last_report_send(shim->boot, &session, msg);
	else
		json_decref(msg);
}

/* Send the driver a message. If the connection was kept, say_done() sends it. `msg` is taken over. */
static void report(const struct shim *shim, json_t *msg)
{
	if (shim->agent)
		hvd_agent_send(shim->agent, msg);
	else
		report_anew(shim, msg);
}

static void report_end(const struct shim *shim, const struct hvd_rank_end *end)
{
	json_t *msg = hvd_rank_end_json(end);

	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "rank", json_integer(shim->info->rank));
	report(shim, msg);
}

/* Is munged there, or not needed? One rank of the host waits for its answer. */
static bool munge_is_there(const struct shim *shim)
{
	if (shim->info->local_rank == 0)
		return hvd_agent_munge_answers(shim->boot);
	return strcmp(shim->boot->id, "munge") != 0 || hvd_munge_listens(NULL);
}

/* If a kept connection ends without "done", the driver takes the host for lost. The driver also wants to know whether
 * munged is there: without it slurmstepd cannot tell srun that the rank has ended. */
static void say_done(struct shim *shim)
{
	if (shim->agent)
		hvd_agent_send(shim->agent, json_pack("{s:s, s:b}", "t", "done", "munge", munge_is_there(shim)));
	disconnect(shim);
}

/* slurmstepd is gone, so the rank's output, signals to the rank and the report of its end get lost. */
static void on_orphaned(void *arg)
{
	struct shim *shim = arg;

	if (shim->agent)
		hvd_agent_send(shim->agent, json_pack("{s:s, s:s}", "t", "orphan", "parent", shim->parent));
}

static void on_output(enum hvd_stream stream, const char *bytes, size_t n, void *arg)
{
	struct shim *shim = arg;

	if (stream == HVD_STDERR)
		hvd_evidence_stderr(shim->evidence, bytes, n);
	if (shim->watch)
		hvd_rank_watch_output(shim->watch, n);
}

static void send_answer(json_t *msg, void *arg)
{
	hvd_agent_send(((struct shim *)arg)->agent, msg);
}

static void on_started(pid_t pid, void *arg)
{
	struct shim *shim = arg;

	shim->command = shim->was = pid;
	if (!shim->agent)
		return;
	shim->watch = hvd_rank_watch_create(shim->base, send_answer, shim, shim->log);
	hvd_rank_watch_add(shim->watch, shim->info->rank, pid);
}

static void on_ending(pid_t pid, void *arg)
{
	struct shim *shim = arg;

	(void)pid;
	shim->command = 0;
	hvd_rank_watch_destroy(shim->watch);
	shim->watch = NULL;
}

/* Run the command, with the environment that the plan makes. Returns 0 with *status as from waitpid(2); -1 with err set
 * if it could not be started. */
static int run_command(struct shim *shim, struct hvd_command *command, int *status, struct hvd_err *err)
{
	struct hvd_rank_facts facts = hvd_rank_env_facts(!command->follow);
	struct hvd_strv env = {0};
	int rc;

	facts.names = hvd_rank_env_names(json_object_get(shim->plan, "env"));
	hvd_rank_env_make(&env, json_object_get(shim->plan, "env"), &facts, command->argv[0], shim->key_fd,
			  shim->info->rank == 0 ? shim->log : NULL);
	hvd_evidence_env(shim->evidence, &env);
	json_decref(shim->plan);
	command->base = shim->base;
	command->envp = env.v;
	command->key_fd = shim->key_fd;
	command->look = on_output;
	command->started = on_started;
	command->ending = on_ending;
	command->arg = shim;
	rc = hvd_command_run(command, status, err);
	if (shim->key_fd)
		close(shim->key_fd);
	hvd_reserve_clear(&shim->reserved);
	hvd_strv_free(&env);
	return rc;
}

int hvd_rank_run(const struct hvd_boot *boot, struct hvd_taskinfo *info, char *const *argv,
		 const struct hvd_output_style *style, bool follow, const struct hvd_log *log)
{
	struct shim shim = {.log = log, .info = info, .boot = boot, .task = getpid(), .lasts = true};
	struct hvd_output_losses losses = {.log = log, .host = info->name};
	struct hvd_output_style sized = *style;
	struct hvd_command command = {
		.argv = argv, .rank = (int)info->rank, .style = &sized, .follow = follow, .parent = getppid()};
	struct hvd_rank_end end = {.rank = info->rank, .local_rank = info->local_rank};
	struct hvd_err err = {0};
	int rc, status;

	if (!follow) {
		command.orphaned = on_orphaned;
		hvd_command_parent(shim.parent);
	}
	end.status = fetch_plan(&shim, role_of(info));
	if (end.status != 0 || !json_is_true(json_object_get(shim.plan, "keep")))
		disconnect(&shim);
	if (end.status != 0 || !shim.plan)
		return end.status;
	if (!shim.base)
		shim.base = event_base_new();
	shim.evidence = hvd_evidence_create(shim.base, boot->stderr_lines);
	sized.size = (int)info->size;
	command.rank = (int)info->rank;
	end.rank = info->rank;
	sized.losses = &losses;
	sized.look = boot->stderr_lines > 0;
	rc = run_command(&shim, &command, &end.status, &err);
	end.pid = shim.was;
	if (rc != 0) {
		hvd_err_host(&err, info->name);
		hvd_log_err(log, &err);
		end.status = 127 << 8;
		end.cause = HVD_END_NOT_STARTED;
	}
	hvd_evidence_end(shim.evidence, &end);
	if (rc != 0)
		end.error = hvd_xstrdup(err.msg);
	/* The exit status does not tell of lost output: the scheduler would take it for a failure of the rank, and end
	 * the others. */
	if (losses.any)
		report(&shim, json_pack("{s:s}", "t", "output-lost"));
	/* A rank that was ended with all others is not what ended the job, and the scheduler says why. */
	/* That it ended well matters if the others still needed it, and is no reason for another connection. */
	if (end.status == 0 ? shim.agent != NULL : !hvd_command_signalled_with_us(end.status))
		report_end(&shim, &end);
	hvd_evidence_destroy(shim.evidence);
	say_done(&shim);
	status = end.status;
	hvd_rank_end_clear(&end);
	if (rc == 0 && follow)
		hvd_kill_adopted();
	return rc == 0 ? hvd_command_mirror(status) : 127;
}
