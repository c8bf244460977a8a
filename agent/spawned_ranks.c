/* SPDX-License-Identifier: Apache-2.0 */
#include "spawned_ranks_internal.h"

#include "crash_info.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "lib/process/apptainer.h"
#include "lib/process/rlimits.h"
#include "lib/process/spawn.h"
#include "output.h"
#include "preload.h"
#include "rank_env.h"
#include "streams.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How many descriptors this process itself has open, with those that it needs to start a rank. */
#define OTHER_FILES 40

extern char **environ;

static struct hvd_world_rank name_of(const struct hvd_spawned_rank *rank)
{
	return (struct hvd_world_rank){rank->of.world, (uint32_t)rank->of.id};
}

static void on_output(enum hvd_stream stream, const char *bytes, size_t n, void *arg)
{
	struct hvd_spawned_rank *rank = arg;

	if (stream == HVD_STDERR)
		hvd_crash_info_stderr(rank->crash_info, bytes, n, hvd_now());
	if (rank->streams.all)
		hvd_crash_info_output(rank->crash_info, bytes, n);
	hvd_agent_rank_output(rank->all->agent, name_of(rank), n);
}

static void began(const struct hvd_spawned_rank *rank)
{
	hvd_agent_rank_began(rank->all->agent, name_of(rank), rank->pid);
	if (rank->streams.all)
		hvd_agent_rank_output(rank->all->agent, name_of(rank), 0);
}

static void reaped(struct hvd_spawned_ranks *ranks, pid_t pid, int status)
{
	for (size_t i = 0; i < ranks->n; i++) {
		struct hvd_spawned_rank *rank = ranks->v[i];

		if (rank->pid != pid)
			continue;
		rank->pid = 0;
		/* What is in the pipes is read now: processes that the rank left behind may keep them open. */
		hvd_streams_close(&rank->streams);
		hvd_spawned_rank_end_left(rank);
		hvd_spawned_rank_tell_end(rank, pid, status);
		return;
	}
	hvd_preload_reaped(ranks->preload, pid, status);
}

/* Kill what the rank has left in its groups, while it was not waited for. */
static void end_left_of(struct hvd_spawned_ranks *ranks, pid_t pid)
{
	for (size_t i = 0; i < ranks->n; i++)
		if (ranks->v[i]->pid == pid)
			hvd_spawned_rank_signal(ranks->v[i], SIGKILL);
}

static void on_child(int sig, void *arg)
{
	struct hvd_spawned_ranks *ranks = arg;
	int status;
	pid_t pid;

	(void)sig;
	for (;;) {
		siginfo_t ended = {0};

		if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0)
			break;
		end_left_of(ranks, ended.si_pid);
		pid = waitpid(ended.si_pid, &status, 0);
		if (pid > 0)
			reaped(ranks, pid, status);
	}
	hvd_spawned_ranks_check_gone(ranks);
}

/* No process of this rank is left, and nothing of it is still to be done. */
static bool is_over(const struct hvd_spawned_rank *rank)
{
	return rank->pid <= 0 && !rank->pending && !rank->grace && (rank->group <= 0 || kill(-rank->group, 0) != 0) &&
	       hvd_streams_ended(&rank->streams);
}

/* An elastic job starts ranks again and again. */
static void forget_over(struct hvd_spawned_ranks *ranks)
{
	size_t n = 0;

	for (size_t i = 0; i < ranks->n; i++) {
		if (!is_over(ranks->v[i])) {
			ranks->v[n++] = ranks->v[i];
			continue;
		}
		hvd_crash_info_destroy(ranks->v[i]->crash_info);
		hvd_strv_free(&ranks->v[i]->own);
		free(ranks->v[i]);
	}
	ranks->n = n;
}

/* Have the rank forked, if there is a Python for that. */
static bool fork_rank(struct hvd_spawned_rank *rank, const struct hvd_spawn *spawn, const json_t *plan)
{
	struct hvd_preload *preload = rank->all->preload;

	if (!preload || rank->plainly || !hvd_preload_rank(preload, spawn, rank->slot == 0, rank))
		return false;
	rank->pending = true;
	rank->plan = json_incref((json_t *)plan);
	return true;
}

/* Find out what is the same for all ranks of the host. */
static void find_out(struct hvd_spawned_ranks *ranks, const json_t *plan)
{
	ranks->names = hvd_rank_env_names(plan);
	ranks->names_asked = true;
	if (ranks->ops->names)
		ranks->ops->names(&ranks->names, ranks->agent->ranks);
}

/* Look at the command of a rank, unless that is the one that was looked at last. */
static void look_at(struct hvd_spawned_ranks *ranks, const json_t *plan, char *const *argv)
{
	size_t i = 0;

	while (i < ranks->looked_at.n && argv[i] && strcmp(argv[i], ranks->looked_at.v[i]) == 0)
		i++;
	if (i > 0 && i == ranks->looked_at.n && !argv[i])
		return;
	hvd_strv_free(&ranks->looked_at);
	hvd_strv_add_all(&ranks->looked_at, argv);
	ranks->command = hvd_rank_env_command(plan, argv);
}

/* The environment that the rank gets beside its plan: this process's, or *own, a copy with the rank's share of the GPUs. NULL
 * with err set. */
static char *const *make_env(const struct hvd_spawned_rank *rank, const char *command, struct hvd_strv *own,
			     struct hvd_err *err)
{
	hvd_cleanup_free char *list = NULL;
	const char *name;

	if (hvd_gpu_share("", environ, &rank->gpus, &name, &list, err) != 0)
		return NULL;
	if (!list)
		return environ;
	hvd_strv_add_all(own, environ);
	hvd_apptainer_setenv(own, command, name, list);
	return own->v;
}

static int start_rank(struct hvd_spawned_ranks *ranks, struct hvd_spawned_rank *rank, const json_t *plan,
		      struct hvd_err *err)
{
	/* Only rank 0 gets this process's stdin. */
	const bool input = rank->of.number == 0 && !ranks->agent->elastic && ranks->opts->terminal_group >= 0;
	const pid_t terminal = input ? ranks->opts->terminal_group : 0;
	char *const *argv = rank->own.n ? rank->own.v : ranks->opts->argv;
	struct hvd_spawn spawn = {.path = argv[0],
				  .argv = argv,
				  .parent_death_signal = SIGKILL,
				  .group = terminal ? NULL : &rank->group,
				  .join_group = terminal,
				  .ignore_ends = ranks->opts->ignore_ends,
				  .nofile = ranks->nofile,
				  .cpus = rank->bound ? &rank->cpus : NULL};
	struct hvd_rank_facts facts = {.host_cpus = rank->host_cpus,
				       .cpus = rank->bound ? CPU_COUNT(&rank->cpus) : rank->host_cpus};
	struct hvd_oom_kills kills = hvd_oom_kills(0);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv own = {0}, env = {0};
	int rc;

	facts.envp = make_env(rank, argv[0], &own, err);
	if (!facts.envp)
		return hvd_err_prefix(err, "rank %d", rank->of.number);
	rank->at_terminal = terminal > 0;
	if (rank->at_terminal)
		rank->group = terminal;
	if (!ranks->names_asked)
		find_out(ranks, plan);
	look_at(ranks, plan, argv);
	facts.names = ranks->names;
	facts.command = ranks->command;
	hvd_rank_env_make(&env, plan, &facts, argv[0], ranks->agent->key_fd,
			  rank->of.number == 0 && !ranks->advised ? ranks->agent->log : NULL);
	ranks->advised = ranks->advised || rank->of.number == 0;
	rank->crash_info = hvd_crash_info_create(ranks->agent->base, ranks->agent->settings.stderr_lines, &kills);
	hvd_rank_env_error_file(&env, hvd_crash_info_file(rank->crash_info));
	spawn.envp = env.v;
	if (ranks->agent->key_fd)
		hvd_spawn_fd(&spawn, ranks->agent->key_fd, ranks->agent->key_fd);
	if (!input)
		hvd_spawn_fd(&spawn, -1, STDIN_FILENO);
	rc = hvd_streams_open(&rank->streams, ranks->agent->base,
			      (struct hvd_output_rank){rank->of.number, rank->of.of}, &ranks->opts->output, on_output,
			      NULL, rank, &spawn, err);
	if (rc == 0 && !fork_rank(rank, &spawn, plan))
		rc = (rank->pid = hvd_spawn(&spawn, err)) < 0 ? -1 : 0;
	hvd_streams_started(&rank->streams);
	if (rc != 0) {
		rank->pid = 0;
		hvd_streams_close(&rank->streams);
		return hvd_err_prefix(err, "rank %d", rank->of.number);
	}
	if (!rank->pending)
		began(rank);
	return 0;
}

static int bind_for(struct hvd_spawned_ranks *ranks, const struct hvd_rank_place *place, struct hvd_err *err)
{
	const struct hvd_spawned_ranks_opts *opts = ranks->opts;
	const char *how = place->bind;
	const struct hvd_binding_need need = {.ranks = place->slots,
					      .bind = how ? strcmp(how, "none") != 0 : opts->bind,
					      .near = how ? strcmp(how, "cores") != 0 : opts->near,
					      .cpus = place->share.cpus,
					      .listed = opts->cpus};

	return hvd_rank_binding_find(&ranks->binding, &need, ranks->agent->log, err);
}

/* A rank that cannot be started has no id. */
static int add_rank(struct hvd_spawned_ranks *ranks, const struct hvd_rank_process *of, const json_t *plan,
		    const json_t *command, const struct hvd_rank_place *place, struct hvd_err *err)
{
	struct hvd_spawned_rank *rank;

	if (bind_for(ranks, place, err) != 0)
		return hvd_err_prefix(err, "rank %d", of->number);
	rank = hvd_xcalloc(1, sizeof(*rank));
	ranks->v = hvd_xrealloc(ranks->v, ranks->n + 1, sizeof(struct hvd_spawned_rank *));
	ranks->v[ranks->n++] = rank;
	rank->all = ranks;
	rank->of = *of;
	rank->slot = place->slot;
	rank->gpus = place->share.gpus;
	rank->host_cpus = ranks->binding.cpus ? ranks->binding.cpus : hvd_rank_env_cpus();
	rank->bound = place->slot < ranks->binding.sets.n;
	if (rank->bound)
		rank->cpus = ranks->binding.sets.sets[place->slot];
	hvd_rank_env_own_command(command, &rank->own);
	if (start_rank(ranks, rank, plan, err) == 0)
		return 0;
	rank->of.id = -1;
	return -1;
}

/* No rank will come after those that there are, so the Python that forks them is not needed any more. */
static void end_preload(struct hvd_spawned_ranks *ranks)
{
	for (size_t i = 0; i < ranks->n; i++)
		if (ranks->v[i]->pending)
			return;
	if (!ranks->agent->elastic)
		hvd_preload_end(ranks->preload);
}

static void on_forked(pid_t pid, pid_t group, void *arg)
{
	struct hvd_spawned_rank *rank = arg;
	struct hvd_spawned_ranks *ranks = rank->all;
	json_t *plan = json_incref(rank->plan);
	struct hvd_err why = {0};

	hvd_spawned_rank_forget_pending(rank);
	if (pid > 0) {
		rank->pid = pid;
		/* A child that has not begun another program can be moved. */
		if (!rank->at_terminal || setpgid(pid, rank->group) != 0) {
			rank->at_terminal = false;
			rank->group = group;
		}
		began(rank);
	} else {
		rank->plainly = true;
		hvd_streams_close(&rank->streams);
		hvd_crash_info_destroy(rank->crash_info);
		rank->crash_info = NULL;
		if (start_rank(ranks, rank, plan, &why) != 0)
			ranks->ops->not_started(&rank->of, &why, ranks->agent->ranks);
	}
	json_decref(plan);
	end_preload(ranks);
}

/* Fail if limits of this host do not allow so many ranks, before thousands of them have been started. */
static int check_room(struct hvd_spawned_ranks *ranks, size_t n, struct hvd_err *err)
{
	const struct hvd_output_style *style = &ranks->opts->output;
	size_t each =
		(size_t)hvd_streams_fds(style) + HVD_EVIDENCE_FDS + (ranks->opts->preload ? HVD_PRELOAD_RANK_FDS : 0);
	char what[64];

	if (hvd_limits_ranks("", (long)n, err) != 0)
		return -1;
	ranks->nofile = hvd_raise_nofile();
	snprintf(what, sizeof(what), "%zu ranks with output %s", n,
		 style->dir                 ? "into files"
		 : hvd_output_wanted(style) ? "by lines"
					    : "that is watched");
	return hvd_limits_files(n * each + OTHER_FILES, what, err);
}

struct hvd_spawned_ranks *hvd_spawned_ranks_start(struct hvd_agent *agent, const json_t *plans, const json_t *commands,
						  const struct hvd_spawned_ranks_opts *opts,
						  const struct hvd_spawned_ranks_ops *ops, struct hvd_err *err)
{
	struct hvd_spawned_ranks *ranks = hvd_xcalloc(1, sizeof(*ranks));
	size_t n = json_array_size(plans);

	ranks->agent = agent;
	ranks->opts = opts;
	ranks->ops = ops;
	ranks->preload_opts = (struct hvd_preload_opts){
		.modules = opts->preload, .host = agent->info->name, .key_fd = agent->key_fd, .forked = on_forked};
	if (opts->preload)
		ranks->preload = hvd_preload_create(agent->base, &ranks->preload_opts, agent->log);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	ranks->child = hvd_signal_watch(agent->base, SIGCHLD, on_child, ranks);
	if (check_room(ranks, n, err) != 0) {
		hvd_spawned_ranks_destroy(ranks);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		const int number = (int)agent->info->ranks[i];
		const struct hvd_rank_process of = {.id = number, .number = number};
		const struct hvd_rank_place place = {.slot = (int)i, .slots = (int)n, .share = HVD_WHOLE_HOST};

		if (add_rank(ranks, &of, json_array_get(plans, i), json_array_get(commands, i), &place, err) == 0)
			continue;
		hvd_spawned_ranks_destroy(ranks);
		return NULL;
	}
	return ranks;
}

int hvd_spawned_ranks_add(struct hvd_spawned_ranks *ranks, const struct hvd_rank_process *of, const json_t *plan,
			  const json_t *command, const struct hvd_rank_place *place, struct hvd_err *err)
{
	if (ranks->ending)
		return hvd_err_set(err, HVD_E_FAILED, "the ranks of this host are being ended");
	forget_over(ranks);
	return add_rank(ranks, of, plan, command, place, err);
}

void hvd_spawned_ranks_lines(const struct hvd_spawned_ranks *ranks, struct hvd_world_rank of,
			     struct hvd_rank_lines *lines)
{
	const struct hvd_spawned_rank *rank = NULL;

	for (size_t i = 0; i < ranks->n && !rank; i++)
		if (ranks->v[i]->pid > 0 && hvd_world_rank_same(name_of(ranks->v[i]), of))
			rank = ranks->v[i];
	if (rank && (rank->streams.out[HVD_STDERR] || rank->streams.all))
		lines->text = hvd_crash_info_lines(rank->crash_info);
	lines->of = hvd_xstrdup(!rank               ? "nothing: it does not run"
				: rank->streams.all ? "stdout and stderr"
				: lines->text       ? "stderr; its stdout does not pass through hvd"
						    : "nothing: its output does not pass through hvd");
}

size_t hvd_spawned_ranks_running(const struct hvd_spawned_ranks *ranks)
{
	size_t n = 0;

	for (size_t i = 0; i < ranks->n; i++)
		n += ranks->v[i]->pid > 0 || ranks->v[i]->pending;
	return n;
}

void hvd_spawned_ranks_destroy(struct hvd_spawned_ranks *ranks)
{
	if (!ranks)
		return;
	hvd_spawned_ranks_signal(ranks, SIGKILL);
	hvd_preload_destroy(ranks->preload);
	for (size_t i = 0; i < ranks->n; i++) {
		hvd_streams_close(&ranks->v[i]->streams);
		json_decref(ranks->v[i]->plan);
		hvd_crash_info_destroy(ranks->v[i]->crash_info);
		if (ranks->v[i]->pid > 0 && !ranks->v[i]->unkillable)
			waitpid(ranks->v[i]->pid, NULL, 0);
		hvd_timer_free(ranks->v[i]->grace);
		hvd_strv_free(&ranks->v[i]->own);
		free(ranks->v[i]);
	}
	/* Processes that left their rank's group are children of this process by now. When they end, theirs are
	 * next. */
	while (!ranks->gone && hvd_spawned_ranks_kill_children(ranks) > 0)
		if (waitpid(-1, NULL, 0) < 0 && errno != EINTR)
			break;
	hvd_signal_unwatch(ranks->child);
	hvd_rank_binding_clear(&ranks->binding);
	hvd_strv_free(&ranks->looked_at);
	free(ranks->v);
	free(ranks);
}
