/* SPDX-License-Identifier: Apache-2.0 */
#include "rank.h"

#include "agent.h"
#include "emit.h"
#include "link.h"
#include "output.h"
#include "serve.h"
#include "spawn.h"
#include "strv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A driver that does not take the report within this time is not going to act on it. */
#define REPORT_SECONDS 3.0
/* A step daemon signals one process of its step after the other; this is enough for all of a host's. */
#define SIGNAL_ROUND_MS 100

/* When a task fails srun ends the step, and loses what the task said in the moment before: give it time to arrive. */
#define LAST_WORDS_MS 100
/* How long a command has after SIGTERM when what started this rank has gone. */
#define ORPHAN_SECONDS 5
/* How often, 10 ms apart, what the command has left is looked for. */
#define LEFT_TRIES 100
/* Sent to a shim when its parent ends; nobody else sends it. */
#define ORPHAN_SIGNAL (SIGRTMIN + 7)

extern char **environ;

struct fetch {
	const struct hvd_log *log;
	const struct hvd_taskinfo *info;
	struct hvd_agent *agent;
	struct event_base *base;
	struct hvd_strv env; /* NAME=VALUE of the plan */
	int status;          /* -1 while it goes on */
	bool said;           /* an error message went out */
	bool keep;           /* the driver wants to know when this host is lost: stay connected */
};

static void end(struct fetch *fetch, int status)
{
	if (fetch->status < 0)
		fetch->status = status;
	event_base_loopbreak(fetch->base);
}

/* MPI's workers in a step that srun was not told to start an MPI in: each would find itself alone, and go on. With
 * Slurm's own libpmi it is right. */
static void warn_without_pmi(const struct fetch *fetch)
{
	const char *controller = hvd_env_get(&fetch->env, "HOROVOD_CONTROLLER");

	if (fetch->info->rank != 0 || fetch->info->size < 2 || !controller || strcmp(controller, "mpi") != 0 ||
	    getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK"))
		return;
	hvd_warn(fetch->log, "the workers' controller is MPI, but nothing here tells an MPI its rank");
	hvd_info(fetch->log, "srun needs --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI), whatever 'srun "
			     "--mpi=list' has");
}

static void on_plan(const json_t *plan, void *arg)
{
	struct fetch *fetch = arg;
	const char *name;
	json_t *value;

	json_object_foreach(json_object_get(plan, "env"), name, value)
	{
		char *set = json_is_string(value) ? hvd_emit_name(name, environ) : NULL;

		if (set)
			hvd_strv_addf(&fetch->env, "%s=%s", set, json_string_value(value));
		free(set);
	}
	warn_without_pmi(fetch);
	fetch->keep = json_is_true(json_object_get(plan, "keep"));
	end(fetch, 0);
}

static void on_serve(void *arg)
{
	struct fetch *fetch = arg;
	struct hvd_err why = {0};

	if (hvd_serve_spawn(&why) != 0)
		hvd_agent_send(fetch->agent, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", fetch->info->name,
						       "why", why.msg, "hint", why.hint));
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct fetch *fetch = arg;
	struct hvd_err here = *why;

	/* The first rank that ends has srun send this to the others, which are about to end with the same status. */
	signal(SIGTERM, SIG_IGN);
	/* What the driver has told already is not said again by every rank. */
	if (why->code != HVD_E_FAILED) {
		if (!here.host[0])
			hvd_err_host(&here, fetch->info->name);
		hvd_log_err(fetch->log, &here);
		fetch->said = true;
	}
	end(fetch, 1);
}

/* Last words go out to the driver; returns when they are out, at most after their second. */
static void part(struct fetch *fetch)
{
	hvd_agent_destroy(fetch->agent);
	fetch->agent = NULL;
	if (fetch->base) {
		event_base_dispatch(fetch->base);
		event_base_free(fetch->base);
	}
	fetch->base = NULL;
	if (fetch->said)
		poll(NULL, 0, LAST_WORDS_MS);
}

/* Get the plan. 0 with fetch->env filled, or an exit status. The connection is there still until part(). */
static int fetch_plan(struct fetch *fetch, const struct hvd_boot *boot)
{
	static const struct hvd_agent_ops ops = {.plan = on_plan, .serve = on_serve, .failed = on_failed};
	struct hvd_session session;
	struct hvd_err why = {0};

	fetch->status = -1;
	fetch->base = event_base_new();
	if (!fetch->base || hvd_agent_session(boot, &session, &why) != 0)
		on_failed(&why, fetch);
	else if (!(fetch->agent =
			   hvd_agent_create(fetch->base, boot, &session, fetch->info, fetch->info->local_rank != 0,
					    hvd_deadline_in(boot->timeout), &ops, fetch, fetch->log, &why)))
		on_failed(&why, fetch);
	else if (fetch->status < 0)
		event_base_dispatch(fetch->base);
	return fetch->status < 0 ? 1 : fetch->status;
}

int hvd_rank_print_plan(const struct hvd_boot *boot, const struct hvd_taskinfo *info, const struct hvd_log *log)
{
	struct fetch fetch = {.log = log, .info = info};
	int status = fetch_plan(&fetch, boot);

	part(&fetch);
	for (size_t i = 0; status == 0 && i < fetch.env.n; i++)
		if (fwrite(fetch.env.v[i], strlen(fetch.env.v[i]) + 1, 1, stdout) != 1)
			status = 1;
	if (status == 0 && (fputc('\0', stdout) == EOF || fflush(stdout) != 0))
		status = 1;
	hvd_strv_free(&fetch.env);
	return status;
}

struct last_word {
	struct event_base *base;
	const struct hvd_taskinfo *info;
	int status;
};

static void on_up(struct hvd_conn *conn, void *arg)
{
	struct last_word *word = arg;

	hvd_conn_send(conn, json_pack("{s:s, s:I, s:i}", "t", "exit", "rank", (json_int_t)word->info->rank, "status",
				      word->status));
	hvd_conn_finish(conn, hvd_deadline_in(REPORT_SECONDS));
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)why; /* the driver went first: then it was not this rank that ended the job */
	event_base_loopbreak(((struct last_word *)arg)->base);
}

static void report_exit(const struct hvd_boot *boot, const struct hvd_taskinfo *info, int status)
{
	struct last_word word = {.base = event_base_new(), .info = info, .status = status};
	struct hvd_session session;
	struct hvd_link *link;

	if (!word.base)
		return;
	if (hvd_agent_session(boot, &session, NULL) == 0) {
		link = hvd_link_create(word.base, boot, &session, hvd_deadline_in(REPORT_SECONDS), on_up, on_down,
				       &word);
		event_base_dispatch(word.base);
		hvd_link_destroy(link);
	}
	event_base_free(word.base);
}

/* A connection that ends without this tells the driver that the host was lost. */
static void say_done(struct fetch *fetch)
{
	if (fetch->agent)
		hvd_agent_send(fetch->agent, json_pack("{s:s}", "t", "done"));
	part(fetch);
}

/* Did the signal that ended the command go to the whole step: scancel, a time limit, a lost node, Ctrl-C? The shim has
 * all signals blocked and is sent it as well, now or in a moment. Then this rank is not what ended the job, and the
 * scheduler says why. */
static bool sent_to_all(int status)
{
	struct timespec moment = {.tv_nsec = SIGNAL_ROUND_MS * 1000000L};
	sigset_t one;

	if (!WIFSIGNALED(status))
		return false;
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	return sigtimedwait(&one, NULL, &moment) == WTERMSIG(status);
}

/* End as the command did, so that the scheduler sees the same. */
int hvd_rank_mirror(int status)
{
	struct rlimit none = {0, 0};

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &none); /* the command's core is the one of interest */
	signal(WTERMSIG(status), SIG_DFL);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return hvd_status_exit(status);
}

/* The command, and its output where that is to be labelled. */
struct command {
	struct event_base *base;
	struct hvd_output *out[2];
	pid_t pid;
	int status;
	bool follow;
	pid_t parent; /* what started the shim */
};

int hvd_rank_follow(void)
{
	prctl(PR_SET_PDEATHSIG, ORPHAN_SIGNAL);
	return ORPHAN_SIGNAL;
}

/* Wait for the command, up to so many seconds. */
static bool ends_within(struct command *cmd, int seconds)
{
	struct timespec most = {.tv_sec = seconds};
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		if (waitpid(cmd->pid, &cmd->status, WNOHANG) == cmd->pid)
			return true;
		if (sigtimedwait(&chld, NULL, &most) < 0 && errno == EAGAIN)
			return false;
	}
}

/* Processes that outlived the command are this shim's, which has made itself their reaper. */
static void end_left(void)
{
	struct timespec moment = {.tv_nsec = 10000000};

	for (int tries = 0; tries < LEFT_TRIES && hvd_kill_children() > 0; tries++) {
		nanosleep(&moment, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

/* What started the rank has gone: so must the rank. The shim has all signals blocked, and goes last. */
static void end_orphan(struct command *cmd)
{
	bool leads = getpgrp() == getpid();
	sigset_t had;

	if (getppid() == cmd->parent)
		return; /* only a thread of it */
	/* What is being killed for not heeding SIGTERM gets no more time. */
	if (sigpending(&had) != 0 || !sigismember(&had, SIGTERM)) {
		kill(leads ? 0 : cmd->pid, SIGTERM);
		ends_within(cmd, ORPHAN_SECONDS);
	}
	end_left();
	if (leads)
		kill(0, SIGKILL);
	_exit(1);
}

static void on_output_end(void *arg)
{
	*(struct hvd_output **)arg = NULL;
}

static void on_child(evutil_socket_t sig, short what, void *arg)
{
	struct command *cmd = arg;

	(void)sig;
	(void)what;
	if (waitpid(cmd->pid, &cmd->status, WNOHANG) == cmd->pid)
		event_base_loopbreak(cmd->base);
}

static void on_orphan(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	end_orphan(arg);
}

static void wait_plainly(struct command *cmd)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, ORPHAN_SIGNAL);
	while (cmd->follow && waitpid(cmd->pid, &cmd->status, WNOHANG) == 0)
		if (sigwaitinfo(&set, NULL) == ORPHAN_SIGNAL)
			end_orphan(cmd);
	while (!cmd->follow && waitpid(cmd->pid, &cmd->status, 0) < 0 && errno == EINTR)
		;
}

/* Start it with its output coming through here, and pass that on until it ends. -1 when it cannot be started. */
static int run_labelled(struct command *cmd, struct hvd_spawn *spawn, int rank, const struct hvd_output_style *style,
			struct hvd_err *err)
{
	struct event *child, *orphan;
	int pipes[2][2] = {{-1, -1}, {-1, -1}}, rc = 0;
	sigset_t chld;

	cmd->base = event_base_new();
	child = evsignal_new(cmd->base, SIGCHLD, on_child, cmd);
	event_add(child, NULL);
	orphan = evsignal_new(cmd->base, ORPHAN_SIGNAL, on_orphan, cmd);
	event_add(orphan, NULL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigaddset(&chld, ORPHAN_SIGNAL);
	sigprocmask(SIG_UNBLOCK, &chld, NULL);
	for (int s = 0; s < 2 && rc == 0; s++) {
		if (pipe2(pipes[s], O_CLOEXEC) != 0) {
			rc = hvd_err_sys(err, "cannot make a pipe");
			break;
		}
		hvd_spawn_fd(spawn, pipes[s][1], s + 1);
		cmd->out[s] = hvd_output_create(cmd->base, pipes[s][0], rank, (enum hvd_stream)s, style, on_output_end,
						&cmd->out[s], err);
		rc = cmd->out[s] ? 0 : -1;
	}
	if (rc == 0)
		rc = (cmd->pid = hvd_spawn(spawn, err)) < 0 ? -1 : 0;
	for (int s = 0; s < 2; s++)
		if (pipes[s][1] >= 0)
			close(pipes[s][1]);
	if (rc == 0)
		event_base_dispatch(cmd->base);
	for (int s = 0; s < 2; s++)
		hvd_output_destroy(cmd->out[s]);
	event_free(child);
	event_free(orphan);
	event_base_free(cmd->base);
	return rc;
}

static int run_command(struct command *cmd, struct hvd_spawn *spawn, int rank, const struct hvd_output_style *style,
		       struct hvd_err *err)
{
	sigset_t all;

	/* Signals for the group go to the command as well; the shim only waits. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (hvd_output_wanted(style))
		return run_labelled(cmd, spawn, rank, style, err);
	cmd->pid = hvd_spawn(spawn, err);
	if (cmd->pid < 0)
		return -1;
	wait_plainly(cmd);
	return 0;
}

int hvd_rank_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, char *const *argv,
		 const struct hvd_output_style *style, bool follow, const struct hvd_log *log)
{
	struct fetch fetch = {.log = log, .info = info};
	struct hvd_spawn spawn = {.path = argv[0], .argv = argv, .keep_fds = 1, .parent_death_signal = SIGKILL};
	struct hvd_output_style sized = *style;
	struct command cmd = {.follow = follow, .parent = getppid()};
	struct hvd_strv env = {0};
	struct hvd_err err = {0};
	int status = fetch_plan(&fetch, boot);

	if (status != 0 || !fetch.keep)
		part(&fetch);
	if (status != 0)
		return status;
	hvd_strv_add_all(&env, environ);
	hvd_env_unset(&env, HVD_BOOT_ENV);
	for (size_t i = 0; i < fetch.env.n; i++) {
		char *value = strchr(fetch.env.v[i], '=');

		*value = '\0';
		hvd_env_set(&env, fetch.env.v[i], value + 1);
	}
	hvd_strv_free(&fetch.env);
	spawn.envp = env.v;
	if (follow)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	sized.size = (int)info->size;
	status = run_command(&cmd, &spawn, (int)info->rank, &sized, &err);
	hvd_strv_free(&env);
	if (status != 0) {
		hvd_err_host(&err, info->name);
		hvd_log_err(log, &err);
		report_exit(boot, info, 127 << 8);
		say_done(&fetch);
		return 127;
	}
	if (cmd.status != 0 && !sent_to_all(cmd.status))
		report_exit(boot, info, cmd.status);
	say_done(&fetch);
	if (follow)
		end_left();
	return hvd_rank_mirror(cmd.status);
}
