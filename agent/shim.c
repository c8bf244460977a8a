/* SPDX-License-Identifier: Apache-2.0 */
#include "shim.h"

#include "agent_socket.h"
#include "last_report.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/host/rank_error.h"
#include "lib/process/spawn.h"
#include "lib/protocol/agent_settings.h"
#include "lib/protocol/step_event.h"
#include "lib/protocol/wire.h"
#include "rank_env.h"
#include "run_child.h"
#include "session_wrapper.h"
#include "stdio_sink.h"

#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* When a task fails, srun ends the step, and loses messages that the task wrote just before. So wait until they have
 * arrived. */
#define LAST_WORDS_MS 100
/* How much longer than the start timeout to wait for the agent, which keeps that timeout itself. */
#define EXTRA_SECONDS 10.0
/* How long the agent may take to see the end of a rank, and whether munged is there then. */
#define SEEN_SECONDS 4.0
#define NOT_STARTED  (127 << 8) /* the wait status of a rank that could not be started, as a shell has it */

/* A shim, or hvd-agent plan. */
struct shim {
	struct hvd_bootstrap *start;
	const struct hvd_shim_opts *opts; /* NULL: hvd-agent plan, which runs nothing */
	uint32_t local_id;
	int agent;           /* the connection to the agent; -1 = none */
	json_t *plan;        /* shims.h */
	struct hvd_strv own; /* the rank's own command; empty: that of `opts` */
	struct hvd_agent_settings settings;
	int key_fd; /* of --run-func; 0 = none */
	struct event_base *base;
	struct event *events;
	struct hvd_child_process *process; /* while the command runs */
	bool seen;
};

static int fail(const struct shim *shim, struct hvd_err *err)
{
	if (!err->host[0])
		hvd_err_host(err, shim->start->info.name);
	hvd_log_err(&shim->start->log, err);
	return hvd_err_status(err);
}

/* ---- the plan ---- */

static json_t *read_plan(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	json_t *plan = text == MAP_FAILED ? NULL : json_loadb(text, (size_t)size, 0, NULL);

	if (text != MAP_FAILED)
		munmap(text, (size_t)size);
	return plan;
}

static bool says(const struct shim *shim, const char *key)
{
	return json_is_true(json_object_get(shim->plan, key));
}

/* Takes the descriptors. */
static int take_plan(struct shim *shim, int fds[2], struct hvd_err *err)
{
	shim->plan = fds[0] >= 0 ? read_plan(fds[0]) : NULL;
	if (says(shim, "func_key")) {
		shim->key_fd = fds[1];
		fds[1] = -1;
	}
	hvd_step_event_close(fds);
	if (!shim->plan)
		return hvd_err_set(err, HVD_E_PROTO, "the plan of this host's node agent is damaged");
	hvd_rank_env_own_command(json_object_get(shim->plan, "command"), &shim->own);
	/* Without a rank the plan is empty. */
	return json_object_size(shim->plan) == 0
		       ? 0
		       : hvd_agent_settings_read(json_object_get(shim->plan, "settings"), &shim->settings, err);
}

/* Ask, and wait for the answer. Returns 0, for a shim with its plan, or the status to end with, after saying why. */
static int ask(struct shim *shim)
{
	struct hvd_step_event event = {.kind = HVD_STEP_ASK, .local_id = shim->local_id, .pid = getpid()};
	hvd_time deadline = hvd_deadline_in(shim->start->boot.timeout + EXTRA_SECONDS);
	struct pollfd pfd = {.fd = shim->agent, .events = POLLIN};
	struct hvd_err err = {0};
	int fds[2], rc = hvd_step_event_send(shim->agent, &event, NULL);

	while (rc == 0 && hvd_left(deadline) > 0) {
		poll(&pfd, 1, hvd_left_ms(deadline));
		rc = hvd_step_event_take(shim->agent, &event, fds);
		if (rc > 0 && event.kind == HVD_STEP_PLAN)
			return !shim->opts || take_plan(shim, fds, &err) == 0 ? 0 : fail(shim, &err);
		if (rc > 0 && event.kind == HVD_STEP_REFUSED) {
			/* The first rank that ends has srun send SIGTERM to the others, which are about to end with the
			 * same status. */
			signal(SIGTERM, SIG_IGN);
			poll(NULL, 0, LAST_WORDS_MS);
			return event.status;
		}
		if (rc > 0)
			hvd_step_event_close(fds);
		rc = rc > 0 ? 0 : rc;
	}
	if (rc == 0)
		hvd_err_set(&err, HVD_E_TIMEOUT, "this host's node agent (hvd-agent) does not answer");
	else
		hvd_err_set(&err, HVD_E_FAILED,
			    "this host's node agent (hvd-agent) ended before the ranks had started");
	hvd_err_hint(&err,
		     "was it killed or stopped by a user, or killed by the kernel for lack of memory? (dmesg there)");
	return fail(shim, &err);
}

static char *const *command_of(const struct shim *shim)
{
	return shim->own.n ? shim->own.v : shim->opts->argv;
}

/* The agent has asked the name service. */
static struct hvd_rank_facts own_facts(const struct shim *shim)
{
	struct hvd_rank_facts facts = hvd_rank_env_facts(shim->opts->starter->step);

	facts.names =
		(struct hvd_name_service){.slow = says(shim, "slow_names"), .no_own_name = says(shim, "no_own_name")};
	facts.command = hvd_rank_env_command(json_object_get(shim->plan, "env"), command_of(shim));
	return facts;
}

/* Announce that no more events follow, and wait until the agent has closed the connection: with the last shim of a host
 * the agent ends. When the last task of a step has ended, Slurm kills the rest of the step, and if it tracks by control
 * groups it sleeps for a second before it looks again. */
static void leave(const struct shim *shim)
{
	hvd_time deadline = hvd_deadline_in(HVD_STEP_SEEN_MS / 1e3);
	struct pollfd pfd = {.fd = shim->agent, .events = POLLIN};
	struct hvd_step_event event;
	int fds[2], rc = shutdown(shim->agent, SHUT_WR);

	while (rc >= 0 && hvd_left(deadline) > 0) {
		poll(&pfd, 1, hvd_left_ms(deadline));
		while ((rc = hvd_step_event_take(shim->agent, &event, fds)) > 0)
			hvd_step_event_close(fds);
	}
}

static void clear(struct shim *shim)
{
	if (shim->agent >= 0)
		close(shim->agent);
	if (shim->key_fd)
		close(shim->key_fd);
	hvd_event_unwatch(&shim->events);
	if (shim->base)
		event_base_free(shim->base);
	json_decref(shim->plan);
	hvd_strv_free(&shim->own);
}

/* ---- the plugin ---- */

int hvd_shim_plan(struct hvd_bootstrap *start, bool events, char *const *command)
{
	struct shim shim = {.start = start, .local_id = start->info.local_rank, .agent = -1};
	/* The parent is the task itself, in which the plugin runs. */
	struct hvd_observed_opts agent = {.starter = &hvd_starter_plugin,
					  .start = start,
					  .events = events,
					  .command = command,
					  .task = getppid()};
	struct hvd_err err = {0};
	int pair[2], status;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		hvd_err_sys(&err, "cannot make a socket");
		return fail(&shim, &err);
	}
	shim.agent = pair[0];
	agent.socket = pair[1];
	if (hvd_observed_start(&agent, &err) < 0)
		status = fail(&shim, &err);
	else
		status = ask(&shim);
	clear(&shim);
	return status;
}

/* ---- a rank ---- */

/* The agent that is found, or started. */
static int find_agent(struct shim *shim, struct hvd_err *err)
{
	hvd_time deadline = hvd_deadline_in(shim->start->boot.timeout);
	struct hvd_observed_opts agent = {.starter = shim->opts->starter, .start = shim->start, .task = getpid()};

	shim->agent = hvd_agent_socket_connect(shim->start->boot.session, shim->start->info.node, deadline,
					       &agent.socket, err);
	if (shim->agent < 0)
		return -1;
	return agent.socket >= 0 && hvd_observed_start(&agent, err) < 0 ? -1 : 0;
}

static int send_event(const struct shim *shim, struct hvd_step_event *event, const int fds[2])
{
	event->local_id = shim->local_id;
	event->at = hvd_now();
	return shim->agent >= 0 ? hvd_step_event_send(shim->agent, event, fds) : -1;
}

static void forget_agent(struct shim *shim)
{
	hvd_event_unwatch(&shim->events);
	close(shim->agent);
	shim->agent = -1;
	if (shim->process && shim->opts->starter->shims_end)
		hvd_child_end(shim->process);
	event_base_loopbreak(shim->base);
}

static void on_events(evutil_socket_t fd, short what, void *arg)
{
	struct shim *shim = arg;
	struct hvd_step_event event;
	int fds[2], rc;

	(void)what;
	while ((rc = hvd_step_event_take(fd, &event, fds)) > 0) {
		hvd_step_event_close(fds);
		if (event.kind == HVD_STEP_SIGNAL && shim->process)
			hvd_child_signal(shim->process, event.status);
		else if (event.kind == HVD_STEP_END && shim->process)
			hvd_child_end(shim->process);
		else if (event.kind == HVD_STEP_SEEN)
			shim->seen = true;
	}
	if (rc < 0)
		forget_agent(shim);
	else if (shim->seen)
		event_base_loopbreak(shim->base);
}

static bool on_tap(const int fds[2], void *arg)
{
	return send_event(arg, &(struct hvd_step_event){.kind = HVD_STEP_TASK}, fds) == 0;
}

static void on_started(struct hvd_child_process *process, pid_t pid, void *arg)
{
	struct shim *shim = arg;

	shim->process = process;
	send_event(shim, &(struct hvd_step_event){.kind = HVD_STEP_TASK, .pid = pid}, NULL);
}

/* Wait until the agent has seen the rank's end: whoever ends this process may end the agent, too. */
static void await_seen(struct shim *shim)
{
	struct timeval tv = hvd_left_tv(hvd_deadline_in(SEEN_SECONDS));

	if (shim->agent < 0)
		return;
	event_base_loopexit(shim->base, &tv);
	while (shim->agent >= 0 && !shim->seen && event_base_dispatch(shim->base) == 0 &&
	       !event_base_got_exit(shim->base))
		;
}

static void tell_not_started(struct shim *shim, struct hvd_err *err)
{
	int fd = memfd_create("why", MFD_CLOEXEC), fds[2] = {fd, fd};

	hvd_err_join(err);
	shim->seen = false;
	if (fd >= 0 && write(fd, err->msg, strlen(err->msg)) >= 0 &&
	    send_event(shim, &(struct hvd_step_event){.kind = HVD_STEP_NOT_STARTED, .status = NOT_STARTED}, fds) == 0)
		await_seen(shim);
	/* The report of the launch has it, too: one line for each host is enough. */
	if (!shim->seen || shim->start->info.local_rank == 0)
		fail(shim, err);
	if (fd >= 0)
		close(fd);
}

/* A rank that a scheduler has ended with all others is not the cause of the job's end. But a failure must reach the
 * driver even if the agent has gone. */
static void tell_end(struct shim *shim, pid_t pid, int status)
{
	bool with_all = hvd_child_signalled_with_us(status);
	struct hvd_step_event event = {.kind = with_all ? HVD_STEP_EXIT_WITH_ALL : HVD_STEP_EXIT, .status = status};

	struct hvd_rank_end end = {.rank = shim->start->info.rank,
				   .local_rank = shim->start->info.local_rank,
				   .pid = pid,
				   .status = status};

	shim->seen = false;
	send_event(shim, &event, NULL);
	await_seen(shim);
	end.ended_at = hvd_now();
	if (shim->agent < 0 && status != 0 && !with_all)
		hvd_last_report_exit(&shim->start->boot, &end);
}

static void on_ended(pid_t pid, int status, void *arg)
{
	struct shim *shim = arg;

	shim->process = NULL;
	tell_end(shim, pid, status);
}

/* Run the command with the environment that the plan makes. Returns the status to end with. */
static int run_command(struct shim *shim)
{
	const struct hvd_shim_opts *opts = shim->opts;
	const struct hvd_rank_starter *starter = opts->starter;
	/* An MPI ends only the processes that it has started itself. */
	const bool follows = !starter->step && !starter->shims_end;
	struct hvd_output_losses losses = {.log = &shim->start->log, .host = shim->start->info.name};
	struct hvd_output_style style = *opts->style;
	struct hvd_rank_facts facts = own_facts(shim);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};
	struct hvd_child command = {.base = shim->base,
				    .argv = command_of(shim),
				    .rank = (int)shim->start->info.rank,
				    .style = &style,
				    .tap = on_tap,
				    .no_input = starter->shims_end && shim->start->info.rank != 0,
				    .started = on_started,
				    .ended = on_ended,
				    .key_fd = shim->key_fd,
				    .follow = follows,
				    .own_group = starter->shims_end,
				    .adopts = !starter->step,
				    .parent = getppid(),
				    .kill_wait = shim->settings.kill_wait,
				    .arg = shim};
	const json_t *plan = json_object_get(shim->plan, "env");
	struct hvd_err err = {0};
	int status = 0, rc;

	style.size = (int)shim->start->info.size;
	style.losses = &losses;
	style.sink = hvd_stdio_sink_create(shim->base, &losses);
	style.read_stderr = shim->settings.stderr_lines > 0;
	hvd_rank_env_make(&env, plan, &facts, command.argv[0], shim->key_fd,
			  shim->start->info.rank == 0 ? &shim->start->log : NULL);
	hvd_rank_env_error_file(&env, json_string_value(json_object_get(shim->plan, "error_file")));
	command.envp = env.v;
	rc = hvd_child_run(&command, &status, &err);
	hvd_stdio_sink_destroy(style.sink);
	if (rc != 0)
		tell_not_started(shim, &err);
	/* Lost output does not change the exit status: the scheduler would take it for a failure of the rank, and end
	 * the others. */
	shim->seen = false;
	if (losses.any && send_event(shim, &(struct hvd_step_event){.kind = HVD_STEP_OUTPUT_LOST}, NULL) == 0)
		await_seen(shim);
	if (rc != 0)
		return 127;
	if (command.adopts)
		hvd_kill_adopted();
	if (command.follow)
		hvd_session_wrapper_wake(command.parent);
	return hvd_child_mirror(status);
}

int hvd_shim_run(struct hvd_bootstrap *start, const struct hvd_shim_opts *opts)
{
	struct hvd_taskinfo *info = &start->info;
	struct shim shim = {.start = start, .opts = opts, .local_id = info->local_rank, .agent = -1};
	struct hvd_err err = {0};
	int status = find_agent(&shim, &err) == 0 ? ask(&shim) : fail(&shim, &err);

	if (status == 0 && json_object_get(shim.plan, "env")) {
		info->rank = (uint32_t)json_integer_value(json_object_get(shim.plan, "rank"));
		info->size = (uint32_t)json_integer_value(json_object_get(shim.plan, "size"));
		if (info->rank == 0)
			hvd_rank_env_warn_without_pmi(json_object_get(shim.plan, "env"), info->size, &start->log);
		shim.base = event_base_new();
		if (shim.base)
			shim.events = hvd_event_watch(shim.base, shim.agent, EV_READ | EV_PERSIST, on_events, &shim);
		status = shim.events ? run_command(&shim) : 1;
	}
	if (shim.agent >= 0)
		leave(&shim);
	clear(&shim);
	return status;
}
