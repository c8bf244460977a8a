/* SPDX-License-Identifier: Apache-2.0 */
#include "spawned_ranks.h"

#include "crash_info.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/job/bind.h"
#include "lib/job/unkillable.h"
#include "lib/process/descendants.h"
#include "lib/process/process_usage.h"
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

/* How often a rank that is being ended is looked at: do all of its processes ignore SIGTERM, and has SIGKILL ended it? */
#define LOOK_USEC 250000
/* How many descriptors this process itself has open, with those that it needs to start a rank. */
#define OTHER_FILES 40

extern char **environ;

struct rank {
	struct hvd_spawned_ranks *all;
	int id, number, slot;
	pid_t pid; /* 0 when it has been reaped, or is pending */
	pid_t group;
	struct hvd_streams streams;
	struct hvd_crash_info *crash_info;
	bool ended_here;     /* this process has sent it a signal to end, before it had ended */
	struct event *grace; /* runs while this rank, or what it has left, is being ended; else NULL */
	hvd_time kill_at;    /* … then it gets SIGKILL, … */
	bool heeding;        /* … or sooner, when all of its processes ignore SIGTERM */
	hvd_time killed_at;  /* when it got SIGKILL; 0 = not yet */
	hvd_time quiet_at;   /* … since when it has used no processor time, */
	int64_t cpu_ns;      /* … but so much before */
	bool unkillable;     /* this was reported */
	bool pending;        /* it will be forked (preload.h), … */
	bool plainly;        /* … or could not be, so it is spawned */
	bool bound;
	cpu_set_t cpus; /* if it is bound; that and the plan are kept while it is pending */
	json_t *plan;
};

static void on_grace(evutil_socket_t fd, short what, void *arg);

struct hvd_spawned_ranks {
	struct event_base *base;
	const struct hvd_spawned_ranks_opts *opts;
	const struct hvd_spawned_ranks_ops *ops;
	void *arg;
	const struct hvd_log *log;
	struct rank **v;
	size_t n;
	struct hvd_binding bound;
	struct hvd_name_service names; /* asked when the first rank starts */
	bool names_asked;
	unsigned long nofile;        /* the ranks' soft limit of open files; 0 = this process's */
	struct hvd_preload *preload; /* NULL = none */
	struct hvd_preload_opts preload_opts;
	struct event *child;
	bool ending; /* hvd_spawned_ranks_end() was called */
	bool told;   /* the launcher has asked for it */
	bool gone;   /* all_gone was called */
};

/* Signal the rank's process group, and the group that the rank has made for itself, perhaps with a session (setsid).
 * This is safe for a rank that has ended but was not waited for: its groups cannot have become another process's
 * yet. */
static void signal_rank(const struct rank *rank, int sig)
{
	pid_t own = rank->pid > 0 ? getpgid(rank->pid) : -1;

	if (rank->group > 0)
		kill(-rank->group, sig);
	if (own > 0 && own != rank->group)
		kill(own == getpgrp() ? rank->pid : -own, sig);
}

static void signal_groups(struct hvd_spawned_ranks *ranks, int sig)
{
	for (size_t i = 0; i < ranks->n; i++)
		signal_rank(ranks->v[i], sig);
}

static void check_gone(struct hvd_spawned_ranks *ranks)
{
	int unkillable = 0;

	if (ranks->opts->stay && !ranks->ending)
		return;
	for (size_t i = 0; i < ranks->n; i++) {
		const struct rank *rank = ranks->v[i];

		if (!rank->unkillable && (rank->pid > 0 || rank->pending || !hvd_streams_ended(&rank->streams)))
			return;
		unkillable += rank->unkillable;
	}
	if (ranks->gone)
		return;
	/* End all processes that the ranks have left in their groups, and also those that have left the groups: such
	 * processes became children of this process when their parents ended. */
	signal_groups(ranks, SIGKILL);
	hvd_preload_end(ranks->preload);
	if (hvd_kill_children() > unkillable)
		return; /* their SIGCHLD leads to another call */
	ranks->gone = true;
	ranks->ops->all_gone(ranks->arg);
}

static void on_output(enum hvd_stream stream, const char *bytes, size_t n, void *arg)
{
	struct rank *rank = arg;

	if (stream == HVD_STDERR)
		hvd_crash_info_stderr(rank->crash_info, bytes, n);
	if (rank->all->opts->watch)
		hvd_rank_watch_output(rank->all->opts->watch, n);
}

/* Tell how a rank has ended. */
static void tell_end(struct hvd_spawned_ranks *ranks, struct rank *rank, pid_t pid, int status)
{
	struct hvd_rank_end end = {
		.rank = (uint32_t)rank->number, .local_rank = (uint32_t)rank->slot, .pid = pid, .status = status};

	if (rank->ended_here && (WIFSIGNALED(status) || status == 0))
		end.cause = HVD_END_WITH_ALL;
	hvd_crash_info_end(rank->crash_info, &end);
	hvd_crash_info_destroy(rank->crash_info);
	rank->crash_info = NULL;
	ranks->ops->exited(rank->id, &end, ranks->arg);
	hvd_rank_end_clear(&end);
}

static void stop_ending(struct rank *rank)
{
	if (rank->grace)
		event_free(rank->grace);
	rank->grace = NULL;
	rank->killed_at = 0;
	rank->unkillable = false;
}

/* A process that the rank has left in its group, and that has become a child of this process; 0: none. A child's pid is
 * no other process's, as long as it was not waited for. */
static pid_t left_of(const struct rank *rank)
{
	struct hvd_pids pids = {0};
	struct hvd_process process;
	pid_t found = 0;

	if (rank->group <= 0 || kill(-rank->group, 0) != 0)
		return 0;
	hvd_pids_add_children(&pids, getpid());
	for (size_t i = 0; i < pids.n && !found; i++)
		if (hvd_process_read(pids.v[i], &process) == 0 && process.group == rank->group && process.state != 'Z')
			found = pids.v[i];
	free(pids.v);
	return found;
}

/* What SIGKILL should end: the rank, or what it has left. */
static pid_t victim_of(const struct rank *rank)
{
	return rank->pid > 0 ? rank->pid : left_of(rank);
}

static void look_again(struct rank *rank)
{
	evtimer_add(rank->grace, &(struct timeval){.tv_usec = LOOK_USEC});
}

/* It got SIGKILL with the rank's end (end_left_of()): see to it that it ends. */
static void end_left(struct rank *rank)
{
	rank->grace = evtimer_new(rank->all->base, on_grace, rank);
	rank->kill_at = 0;
	look_again(rank);
}

static void reaped(struct hvd_spawned_ranks *ranks, pid_t pid, int status)
{
	for (size_t i = 0; i < ranks->n; i++) {
		struct rank *rank = ranks->v[i];

		if (rank->pid != pid)
			continue;
		rank->pid = 0;
		/* What is in the pipes is read now: processes that the rank left behind may keep them open. */
		hvd_streams_close(&rank->streams);
		stop_ending(rank);
		if (left_of(rank))
			end_left(rank);
		tell_end(ranks, rank, pid, status);
		return;
	}
	hvd_preload_reaped(ranks->preload, pid, status);
}

/* Kill what the rank has left in its groups. The rank must not have been waited for, see signal_rank(). */
static void end_left_of(struct hvd_spawned_ranks *ranks, pid_t pid)
{
	for (size_t i = 0; i < ranks->n; i++) {
		if (ranks->v[i]->pid != pid)
			continue;
		signal_rank(ranks->v[i], SIGKILL);
		if (ranks->opts->watch)
			hvd_rank_watch_remove(ranks->opts->watch, (uint32_t)ranks->v[i]->number);
	}
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_spawned_ranks *ranks = arg;
	int status;
	pid_t pid;

	(void)fd;
	(void)what;
	for (;;) {
		siginfo_t ended = {0};

		if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0)
			break;
		end_left_of(ranks, ended.si_pid);
		pid = waitpid(ended.si_pid, &status, 0);
		if (pid > 0)
			reaped(ranks, pid, status);
	}
	check_gone(ranks);
}

static struct rank *new_rank(struct hvd_spawned_ranks *ranks)
{
	ranks->v = hvd_xrealloc(ranks->v, ranks->n + 1, sizeof(struct rank *));
	ranks->v[ranks->n] = hvd_xcalloc(1, sizeof(struct rank));
	ranks->v[ranks->n]->all = ranks;
	return ranks->v[ranks->n++];
}

/* It is pending no longer. */
static void forget_pending(struct rank *rank)
{
	rank->pending = false;
	json_decref(rank->plan);
	rank->plan = NULL;
}

/* Have the rank forked, if there is a Python for that. */
static bool fork_rank(struct rank *rank, const struct hvd_spawn *spawn, const json_t *plan)
{
	struct hvd_preload *preload = rank->all->preload;

	if (!preload || rank->plainly || !hvd_preload_rank(preload, spawn, rank->slot == 0, rank))
		return false;
	rank->pending = true;
	rank->plan = json_incref((json_t *)plan);
	rank->bound = spawn->cpus;
	if (spawn->cpus)
		rank->cpus = *spawn->cpus;
	return true;
}

static void watch_rank(const struct rank *rank)
{
	if (rank->all->opts->watch)
		hvd_rank_watch_add(rank->all->opts->watch, (uint32_t)rank->number, rank->pid);
}

static int start_rank(struct hvd_spawned_ranks *ranks, struct rank *rank, const json_t *plan, const cpu_set_t *cpus,
		      struct hvd_err *err)
{
	struct hvd_spawn spawn = {.path = ranks->opts->argv[0],
				  .argv = ranks->opts->argv,
				  .parent_death_signal = SIGKILL,
				  .group = &rank->group,
				  .ignore_ends = ranks->opts->ignore_ends,
				  .nofile = ranks->nofile,
				  .cpus = cpus};
	struct hvd_rank_facts facts = {.envp = environ, .host_cpus = hvd_rank_env_cpus()};
	struct hvd_oom_kills kills = hvd_oom_kills(0);
	struct hvd_strv env = {0};
	int rc;

	facts.cpus = cpus ? CPU_COUNT(cpus) : facts.host_cpus;
	if (!ranks->names_asked)
		ranks->names = hvd_rank_env_names(plan);
	ranks->names_asked = true;
	facts.names = ranks->names;
	hvd_rank_env_make(&env, plan, &facts, ranks->opts->argv[0], ranks->opts->key_fd,
			  rank->number == 0 ? ranks->log : NULL);
	rank->crash_info = hvd_crash_info_create(ranks->base, ranks->opts->stderr_lines, &kills);
	hvd_rank_env_error_file(&env, hvd_crash_info_file(rank->crash_info));
	spawn.envp = env.v;
	if (ranks->opts->key_fd)
		hvd_spawn_fd(&spawn, ranks->opts->key_fd, ranks->opts->key_fd);
	/* Only rank 0 gets this process's stdin. */
	if (rank->number != 0 || ranks->opts->stay)
		hvd_spawn_fd(&spawn, -1, STDIN_FILENO);
	rc = hvd_streams_open(&rank->streams, ranks->base, rank->number, &ranks->opts->output, on_output, NULL, rank,
			      &spawn, err);
	if (rc == 0 && !fork_rank(rank, &spawn, plan))
		rc = (rank->pid = hvd_spawn(&spawn, err)) < 0 ? -1 : 0;
	hvd_streams_started(&rank->streams);
	hvd_strv_free(&env);
	if (rc != 0) {
		rank->pid = 0;
		hvd_streams_close(&rank->streams);
		return hvd_err_prefix(err, "rank %d", rank->number);
	}
	if (!rank->pending)
		watch_rank(rank);
	return 0;
}

/* No rank will come after those that there are, so the Python that forks them is not needed any more. */
static void end_preload(struct hvd_spawned_ranks *ranks)
{
	for (size_t i = 0; i < ranks->n; i++)
		if (ranks->v[i]->pending)
			return;
	if (!ranks->opts->stay)
		hvd_preload_end(ranks->preload);
}

static void on_forked(pid_t pid, pid_t group, void *arg)
{
	struct rank *rank = arg;
	struct hvd_spawned_ranks *ranks = rank->all;
	json_t *plan = json_incref(rank->plan);
	struct hvd_err why = {0};

	forget_pending(rank);
	if (pid > 0) {
		rank->pid = pid;
		rank->group = group;
		watch_rank(rank);
	} else {
		rank->plainly = true;
		hvd_streams_close(&rank->streams);
		hvd_crash_info_destroy(rank->crash_info);
		rank->crash_info = NULL;
		if (start_rank(ranks, rank, plan, rank->bound ? &rank->cpus : NULL, &why) != 0)
			ranks->ops->not_started(rank->id, &why, ranks->arg);
	}
	json_decref(plan);
	end_preload(ranks);
}

/* End a rank that is pending; false: it is not. */
static bool end_pending(struct rank *rank)
{
	if (!rank->pending)
		return false;
	hvd_preload_forget(rank->all->preload, rank);
	forget_pending(rank);
	hvd_streams_close(&rank->streams);
	rank->ended_here = true;
	tell_end(rank->all, rank, 0, SIGTERM);
	return true;
}

static void bind_for(struct hvd_spawned_ranks *ranks, int n)
{
	struct hvd_binding *bound = &ranks->bound;
	struct hvd_err why = {0};

	hvd_binding_clear(bound);
	memset(bound, 0, sizeof(*bound));
	if (ranks->opts->bind && ranks->opts->cpus) {
		if (hvd_bind_listed(bound, n, ranks->opts->cpus, &why) == 0)
			return;
		hvd_warn(ranks->log, "cannot use the scheduler's list of CPUs, ranks are bound without it: %s",
			 why.msg);
	}
	if (ranks->opts->bind && n > 1 &&
	    (hvd_bind_split(bound, n, ranks->opts->near, NULL, NULL) != 0 || bound->n == 0))
		hvd_verbose(ranks->log, "ranks are not bound to CPUs: %s", bound->why ? bound->why : "hwloc failed");
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

struct hvd_spawned_ranks *hvd_spawned_ranks_start(struct event_base *base, const json_t *plans,
						  const struct hvd_spawned_ranks_opts *opts,
						  const struct hvd_spawned_ranks_ops *ops, void *arg,
						  const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_spawned_ranks *ranks = hvd_xcalloc(1, sizeof(*ranks));
	size_t n = json_array_size(plans);
	struct hvd_binding *bound = &ranks->bound;

	ranks->base = base;
	ranks->opts = opts;
	ranks->ops = ops;
	ranks->arg = arg;
	ranks->log = log;
	ranks->preload_opts = (struct hvd_preload_opts){
		.modules = opts->preload, .host = opts->host, .key_fd = opts->key_fd, .forked = on_forked};
	if (opts->preload)
		ranks->preload = hvd_preload_create(base, &ranks->preload_opts, log);
	bind_for(ranks, (int)n);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	ranks->child = evsignal_new(base, SIGCHLD, on_child, ranks);
	event_add(ranks->child, NULL);
	if (check_room(ranks, n, err) != 0) {
		hvd_spawned_ranks_destroy(ranks);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		struct rank *rank = new_rank(ranks);

		rank->id = rank->number = (int)opts->numbers[i];
		rank->slot = (int)i;
		if (start_rank(ranks, rank, json_array_get(plans, i), bound->n ? &bound->sets[i] : NULL, err) == 0)
			continue;
		hvd_spawned_ranks_destroy(ranks);
		return NULL;
	}
	return ranks;
}

int hvd_spawned_ranks_add(struct hvd_spawned_ranks *ranks, int id, int number, const json_t *plan, int slot, int slots,
			  struct hvd_err *err)
{
	struct rank *rank;

	if (ranks->ending)
		return hvd_err_set(err, HVD_E_FAILED, "the ranks of this host are being ended");
	if (slots != ranks->bound.n)
		bind_for(ranks, slots);
	rank = new_rank(ranks);
	rank->id = id;
	rank->number = number;
	rank->slot = slot;
	if (start_rank(ranks, rank, plan, slot < ranks->bound.n ? &ranks->bound.sets[slot] : NULL, err) != 0) {
		rank->id = -1;
		return -1;
	}
	return 0;
}

/* It has SIGKILL, and is still there: report it when it has done nothing for some time. */
static void check_killed(struct rank *rank, pid_t pid)
{
	struct hvd_unkillable what = {.left = rank->pid <= 0};
	struct hvd_process process;
	hvd_time now = hvd_now();

	if (rank->unkillable || hvd_process_read(pid, &process) != 0)
		return;
	if (!rank->killed_at)
		rank->killed_at = now;
	if (!rank->quiet_at || process.cpu_ns != rank->cpu_ns)
		rank->quiet_at = now;
	rank->cpu_ns = process.cpu_ns;
	if (now < rank->killed_at + HVD_UNKILLABLE_SECONDS * 1000000000LL ||
	    now < rank->quiet_at + HVD_UNKILLABLE_QUIET_SECONDS * 1000000000LL)
		return;
	rank->unkillable = true;
	hvd_unkillable_look(&what, pid);
	rank->all->ops->unkillable(rank->id, rank->number, &what, rank->all->arg);
}

static void on_grace(evutil_socket_t fd, short what, void *arg)
{
	struct rank *rank = arg;
	pid_t pid = victim_of(rank);

	(void)fd;
	(void)what;
	if (pid <= 0) {
		stop_ending(rank);
		return;
	}
	if (hvd_left(rank->kill_at) <= 0 || (rank->heeding && hvd_all_ignore(rank->pid, SIGTERM))) {
		if (rank->pid > 0)
			signal_rank(rank, SIGKILL);
		else
			kill(pid, SIGKILL);
		check_killed(rank, pid);
	}
	look_again(rank);
	if (rank->unkillable)
		check_gone(rank->all);
}

/* A signal to end is about to be sent to the rank. A rank that is already ending by itself, though the kernel is not
 * done with it, does not react to the signal: on a busy host the others may have noticed its end before. */
static void note_end(struct rank *rank)
{
	struct hvd_process process;

	if (rank->pid > 0 && hvd_process_read(rank->pid, &process) == 0 && !process.ending)
		rank->ended_here = true;
}

/* Ask the rank to end, and have it killed at `kill_at`; `kill_at` 0: kill it now. A rank that is being ended keeps the
 * earlier time. */
static void end_rank(struct rank *rank, hvd_time kill_at, bool heeding)
{
	static const struct timeval soon = {.tv_usec = LOOK_USEC / 25};
	struct timeval then;

	if (end_pending(rank) || rank->pid <= 0)
		return;
	note_end(rank);
	rank->kill_at = rank->grace ? hvd_earlier(rank->kill_at, kill_at) : kill_at;
	rank->heeding = heeding;
	signal_rank(rank, rank->kill_at ? SIGTERM : SIGKILL);
	signal_rank(rank, SIGCONT); /* a stopped process does not handle SIGTERM */
	if (!rank->grace)
		rank->grace = evtimer_new(rank->all->base, on_grace, rank);
	then = hvd_left_tv(rank->kill_at);
	evtimer_add(rank->grace, heeding || !rank->kill_at ? &soon : &then);
}

void hvd_spawned_ranks_end_one(struct hvd_spawned_ranks *ranks, int id, bool kill)
{
	for (size_t i = 0; i < ranks->n; i++)
		if (ranks->v[i]->id == id)
			end_rank(ranks->v[i], kill ? 0 : hvd_deadline_in(ranks->opts->kill_wait), !kill);
}

void hvd_spawned_ranks_end(struct hvd_spawned_ranks *ranks)
{
	hvd_time kill_at = hvd_deadline_in(ranks->opts->kill_wait);

	if (ranks->gone || ranks->ending)
		return;
	ranks->ending = true;
	for (size_t i = 0; i < ranks->n; i++)
		end_rank(ranks->v[i], kill_at, ranks->opts->ignore_ends);
	event_active(ranks->child, EV_SIGNAL, 1); /* if there is no rank, no SIGCHLD will come */
}

void hvd_spawned_ranks_end_told(struct hvd_spawned_ranks *ranks)
{
	for (size_t i = 0; i < ranks->n && ranks->told && !ranks->gone; i++)
		end_rank(ranks->v[i], 0, false);
	ranks->told = true;
	hvd_spawned_ranks_end(ranks);
}

size_t hvd_spawned_ranks_running(const struct hvd_spawned_ranks *ranks)
{
	size_t n = 0;

	for (size_t i = 0; i < ranks->n; i++)
		n += ranks->v[i]->pid > 0 || ranks->v[i]->pending;
	return n;
}

void hvd_spawned_ranks_signal(struct hvd_spawned_ranks *ranks, int sig)
{
	signal_groups(ranks, sig);
}

void hvd_spawned_ranks_destroy(struct hvd_spawned_ranks *ranks)
{
	if (!ranks)
		return;
	signal_groups(ranks, SIGKILL);
	hvd_preload_destroy(ranks->preload);
	for (size_t i = 0; i < ranks->n; i++) {
		hvd_streams_close(&ranks->v[i]->streams);
		json_decref(ranks->v[i]->plan);
		hvd_crash_info_destroy(ranks->v[i]->crash_info);
		if (ranks->v[i]->pid > 0 && !ranks->v[i]->unkillable)
			waitpid(ranks->v[i]->pid, NULL, 0);
		if (ranks->v[i]->grace)
			event_free(ranks->v[i]->grace);
		free(ranks->v[i]);
	}
	/* Processes that left their rank's group are children of this process by now. When they end, theirs are
	 * next. */
	while (!ranks->gone && hvd_kill_children() > 0)
		if (waitpid(-1, NULL, 0) < 0 && errno != EINTR)
			break;
	event_free(ranks->child);
	hvd_binding_clear(&ranks->bound);
	free(ranks->v);
	free(ranks);
}
