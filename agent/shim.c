/* SPDX-License-Identifier: Apache-2.0 */
#include "shim.h"

#include "agent_socket.h"
#include "last_report.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"
#include "lib/job/rank_error.h"
#include "lib/process/spawn.h"
#include "lib/protocol/step_event.h"
#include "lib/protocol/wire.h"
#include "rank_env.h"
#include "run_child.h"
#include "session_wrapper.h"

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

/* A shim, or the process that gets the plans of all ranks of a host. */
struct shim {
	const struct hvd_log *log;
	const struct hvd_boot *boot;
	struct hvd_taskinfo *info;
	const struct hvd_shim_opts *opts;
	uint32_t local_id; /* HVD_STEP_ALL: all */
	int agent;         /* the connection to the agent; -1 = none */
	json_t *plan;      /* shims.h */
	int key_fd;        /* of --run-func; 0 = none */
	struct event_base *base;
	struct event *events;
	struct hvd_child_process *process; /* while the command runs */
	bool seen;
};

static int fail(const struct shim *shim, struct hvd_err *err)
{
	if (!err->host[0])
		hvd_err_host(err, shim->info->name);
	hvd_log_err(shim->log, err);
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
	return 0;
}

/* Ask, and wait for the answer. Returns 0 with shim->plan, or the status to end with, after saying why. */
static int ask(struct shim *shim)
{
	struct hvd_step_event event = {.kind = HVD_STEP_ASK, .local_id = shim->local_id, .pid = getpid()};
	hvd_time deadline = hvd_deadline_in(shim->boot->timeout + EXTRA_SECONDS);
	struct pollfd pfd = {.fd = shim->agent, .events = POLLIN};
	struct hvd_err err = {0};
	int fds[2], rc = hvd_step_event_send(shim->agent, &event, NULL);

	while (rc == 0 && hvd_left(deadline) > 0) {
		poll(&pfd, 1, hvd_left_ms(deadline));
		rc = hvd_step_event_take(shim->agent, &event, fds);
		if (rc > 0 && event.kind == HVD_STEP_PLAN)
			return take_plan(shim, fds, &err) == 0 ? 0 : fail(shim, &err);
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

static const json_t *nth(const struct shim *shim, const char *list, size_t i)
{
	return json_array_get(json_object_get(shim->plan, list), i);
}

/* The agent has asked the name service. */
static struct hvd_rank_facts own_facts(const struct shim *shim, bool slurm_task, char *const *command)
{
	struct hvd_rank_facts facts = hvd_rank_env_facts(slurm_task);

	facts.names =
		(struct hvd_name_service){.slow = says(shim, "slow_names"), .no_own_name = says(shim, "no_own_name")};
	facts.command = hvd_rank_env_command(nth(shim, "ranks", 0), command);
	return facts;
}

/* Warn if the workers' controller is MPI, but srun was not asked to start an MPI: each worker would find itself alone,
 * and go on. */
static void warn_without_pmi(const struct shim *shim)
{
	const char *controller = json_string_value(json_object_get(nth(shim, "ranks", 0), "HOROVOD_CONTROLLER"));

	if (shim->info->rank != 0 || shim->info->size < 2 || !controller || strcmp(controller, "mpi") != 0 ||
	    getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK"))
		return;
	hvd_warn(shim->log, "the controller is MPI, but this process has no MPI rank");
	hvd_info(shim->log, "add --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI) to srun; 'srun --mpi=list' "
			    "shows what it supports");
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
	if (shim->events)
		event_free(shim->events);
	if (shim->base)
		event_base_free(shim->base);
	json_decref(shim->plan);
}

/* ---- the plugin ---- */

/* The variables of one rank's plan, each with its NUL, and an empty string. */
static int print_plan(const struct shim *shim, size_t i, const struct hvd_rank_facts *facts)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};

	hvd_rank_env_add(&env, nth(shim, "ranks", i), facts, NULL,
			 json_integer_value(nth(shim, "numbers", i)) == 0 ? shim->log : NULL);
	hvd_strv_addf(&env, HVD_STEP_AGENT_ENV "=%d", (int)json_integer_value(json_object_get(shim->plan, "agent")));
	if (!hvd_rank_error_file_set(getenv(HVD_RANK_ERROR_FILE)))
		hvd_rank_env_error_file(&env, json_string_value(nth(shim, "error_files", i)));
	for (size_t k = 0; k < env.n; k++)
		if (fwrite(env.v[k], strlen(env.v[k]) + 1, 1, stdout) != 1)
			return 1;
	return putchar('\0') == EOF;
}

/* The plan of a task that takes no part in the job. */
static int print_spare(void)
{
	static const char plan[] = HVD_STEP_SPARE_ENV "=1\0";

	return fwrite(plan, sizeof(plan), 1, stdout) != 1;
}

static int print_all(const struct shim *shim, uint32_t tasks, char *const *command)
{
	size_t n = json_array_size(json_object_get(shim->plan, "ranks"));
	struct hvd_rank_facts facts = own_facts(shim, true, command);
	int status = 0;

	for (uint32_t i = 0; status == 0 && i < tasks; i++)
		status = i < n ? print_plan(shim, i, &facts) : print_spare();
	return status == 0 && fflush(stdout) == 0 ? 0 : 1;
}

int hvd_shim_print_plans(const struct hvd_boot *boot, struct hvd_taskinfo *info, bool events, char *const *command,
			 const struct hvd_log *log)
{
	struct shim shim = {.log = log, .boot = boot, .info = info, .local_id = HVD_STEP_ALL, .agent = -1};
	/* The parent is the task itself, in which the plugin runs. */
	struct hvd_observing_agent_opts agent = {.kind = HVD_OBSERVING_AGENT_PLUGIN,
						 .boot = boot,
						 .info = info,
						 .log = log,
						 .events = events,
						 .task = getppid()};
	struct hvd_err err = {0};
	int pair[2], status;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		hvd_err_sys(&err, "cannot make a socket");
		return fail(&shim, &err);
	}
	shim.agent = pair[0];
	agent.socket = pair[1];
	if (hvd_observing_agent_start(&agent, &err) < 0)
		status = fail(&shim, &err);
	else
		status = ask(&shim);
	if (status == 0)
		warn_without_pmi(&shim);
	if (status == 0)
		status = print_all(&shim, info->local_size, command);
	clear(&shim);
	return status;
}

/* ---- a rank ---- */

/* The agent that is found, or started. */
static int find_agent(struct shim *shim, struct hvd_err *err)
{
	hvd_time deadline = hvd_deadline_in(shim->boot->timeout);
	struct hvd_observing_agent_opts agent = {
		.kind = shim->opts->kind, .boot = shim->boot, .info = shim->info, .log = shim->log, .task = getpid()};

	shim->agent = hvd_agent_socket_connect(shim->boot->session, shim->info->node, deadline, &agent.socket, err);
	if (shim->agent < 0)
		return -1;
	return agent.socket >= 0 && hvd_observing_agent_start(&agent, err) < 0 ? -1 : 0;
}

static int send_event(const struct shim *shim, struct hvd_step_event *event, const int fds[2])
{
	event->local_id = shim->local_id;
	event->at = hvd_now();
	return shim->agent >= 0 ? hvd_step_event_send(shim->agent, event, fds) : -1;
}

static void forget_agent(struct shim *shim)
{
	event_free(shim->events);
	shim->events = NULL;
	close(shim->agent);
	shim->agent = -1;
	if (shim->process && shim->opts->kind == HVD_OBSERVING_AGENT_JSRUN)
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

/* Until the agent has seen the end: what ends this process may end the agent, too. */
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
	if (!shim->seen || shim->info->local_rank == 0)
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

	struct hvd_rank_end end = {
		.rank = shim->info->rank, .local_rank = shim->info->local_rank, .pid = pid, .status = status};

	shim->seen = false;
	send_event(shim, &event, NULL);
	await_seen(shim);
	end.ended_at = hvd_now();
	if (shim->agent < 0 && status != 0 && !with_all)
		hvd_last_report_exit(shim->boot, &end);
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
	struct hvd_output_losses losses = {.log = shim->log, .host = shim->info->name};
	struct hvd_output_style style = *opts->style;
	struct hvd_rank_facts facts = own_facts(shim, opts->kind == HVD_OBSERVING_AGENT_SRUN, opts->argv);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};
	struct hvd_child command = {.base = shim->base,
				    .argv = opts->argv,
				    .rank = (int)shim->info->rank,
				    .style = &style,
				    .tap = on_tap,
				    .no_input = opts->kind == HVD_OBSERVING_AGENT_JSRUN && shim->info->rank != 0,
				    .started = on_started,
				    .ended = on_ended,
				    .key_fd = shim->key_fd,
				    .follow = opts->kind == HVD_OBSERVING_AGENT_MPI,
				    .own_group = opts->kind == HVD_OBSERVING_AGENT_JSRUN,
				    .adopts = opts->kind != HVD_OBSERVING_AGENT_SRUN, /* which tracks all processes */
				    .ends_as_orphan = opts->kind != HVD_OBSERVING_AGENT_MPI,
				    .parent = getppid(),
				    .kill_wait = shim->boot->kill_wait,
				    .arg = shim};
	const json_t *plan = nth(shim, "ranks", 0);
	struct hvd_err err = {0};
	int status = 0, rc;

	style.size = (int)shim->info->size;
	style.losses = &losses;
	style.look = shim->boot->stderr_lines > 0;
	hvd_rank_env_make(&env, plan, &facts, opts->argv[0], shim->key_fd, shim->info->rank == 0 ? shim->log : NULL);
	hvd_rank_env_error_file(&env, json_string_value(nth(shim, "error_files", 0)));
	command.envp = env.v;
	rc = hvd_child_run(&command, &status, &err);
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

int hvd_shim_run(const struct hvd_boot *boot, struct hvd_taskinfo *info, const struct hvd_shim_opts *opts,
		 const struct hvd_log *log)
{
	struct shim shim = {
		.log = log, .boot = boot, .info = info, .opts = opts, .local_id = info->local_rank, .agent = -1};
	struct hvd_err err = {0};
	int status = find_agent(&shim, &err) == 0 ? ask(&shim) : fail(&shim, &err);

	if (status == 0 && json_array_size(json_object_get(shim.plan, "ranks")) > 0) {
		info->rank = (uint32_t)json_integer_value(nth(&shim, "numbers", 0));
		info->size = (uint32_t)json_integer_value(json_object_get(shim.plan, "size"));
		warn_without_pmi(&shim);
		shim.base = event_base_new();
		if (shim.base)
			shim.events = event_new(shim.base, shim.agent, EV_READ | EV_PERSIST, on_events, &shim);
		if (shim.events)
			event_add(shim.events, NULL);
		status = shim.events ? run_command(&shim) : 1;
	}
	if (shim.agent >= 0)
		leave(&shim);
	clear(&shim);
	return status;
}
