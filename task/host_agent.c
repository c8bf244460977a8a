/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process ends with the ranks. Under the plugin: when the tasks have ended, slurmstepd has told of it, and the
 * driver knows how; all of this takes some milliseconds, or HVD_STEP_SEEN_MS where somebody does not answer. With
 * shims: when the last of them has ended; if slurmstepd ends first, when they have ended since. (An MPI or jsrun may
 * start each shim by a process of its own, so nothing is made of the end of one.) Before the plan: when nobody is left
 * who waits for it.
 */
#include "host_agent.h"

#include "agent.h"
#include "command.h"
#include "last_report.h"
#include "lib/base/xalloc.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/step_note.h"
#include "observed_ranks.h"
#include "ports.h"
#include "rank_env.h"
#include "rank_watch.h"
#include "relay.h"
#include "resident.h"
#include "shims.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long shims may take to end when what has started them has ended, and after a refused start. */
#define ORPHANS_SECONDS 10
#define REFUSED_SECONDS 2
/* Notes in a turn of the event loop. */
#define TURN_NOTES 64

/* Those that Slurm sends to all processes of a step that is to end. */
static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
#define N_SIGNALS (sizeof(ends) / sizeof(ends[0]))

struct host {
	const struct hvd_host_agent_opts *opts;
	struct event_base *base;
	struct hvd_resident *resident;
	struct hvd_agent *agent; /* NULL: there is none */
	struct hvd_shims *shims;
	struct hvd_reserve reserved;
	struct hvd_relay_sockets sockets;
	struct hvd_relay *relay;
	struct hvd_observed_ranks *ranks; /* NULL before the plan, and where nobody sends notes */
	struct hvd_rank_watch *watch;
	struct event *late, *notes, *signals[N_SIGNALS];
	int key_fd, spare; /* spare: notes for the watchdog; 0 = none */
	uint32_t ended;    /* ranks */
	bool planned, unreachable, done, output_lost;
	char parent[HVD_COMMAND_PARENT];
};

static bool has_shims(const struct host *host)
{
	return host->opts->kind != HVD_HOST_AGENT_PLUGIN;
}

static void end_soon(struct host *host, double seconds)
{
	struct timeval tv = hvd_left_tv(hvd_deadline_in(seconds));

	evtimer_add(host->late, &tv);
}

/* ---- ranks ---- */

/* The driver has what was sent, or never will. */
static void settled(struct host *host)
{
	if (host->ranks)
		hvd_observed_ranks_told(host->ranks);
	if (host->output_lost)
		hvd_shims_tell(host->shims, HVD_STEP_SEEN, 0);
	host->output_lost = false;
}

static void on_drained(void *arg)
{
	settled(arg);
}

/* The driver takes a connection that ends without this for the loss of the process. It also wants to know whether
 * munged is there: without it slurmstepd cannot tell srun that ranks have ended. */
static void say_done(struct host *host)
{
	bool asks = host->opts->kind == HVD_HOST_AGENT_SRUN;

	if (!host->done && host->planned)
		hvd_agent_send(host->agent, json_pack("{s:s, s:b}", "t", "done", "munge",
						      !asks || hvd_agent_munge_answers(host->opts->boot)));
	host->done = true;
}

static void count_end(struct host *host)
{
	if (++host->ended == host->opts->info->local_size)
		say_done(host);
}

static bool on_over(void *arg)
{
	return hvd_resident_tasks_over(((struct host *)arg)->resident);
}

static void on_began(uint32_t rank, pid_t pid, void *arg)
{
	hvd_rank_watch_add(((struct host *)arg)->watch, rank, pid);
}

static void on_output(size_t bytes, void *arg)
{
	hvd_rank_watch_output(((struct host *)arg)->watch, bytes);
}

static bool on_ended(const struct hvd_rank_end *end, void *arg)
{
	struct host *host = arg;
	json_t *msg;

	hvd_rank_watch_remove(host->watch, end->rank);
	if (host->unreachable)
		return true;
	msg = hvd_rank_end_json(end);
	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "rank", json_integer((json_int_t)end->rank));
	hvd_agent_send(host->agent, msg);
	count_end(host);
	return !hvd_agent_sending(host->agent);
}

static void on_seen(uint32_t local_id, void *arg)
{
	struct host *host = arg;

	if (has_shims(host))
		hvd_shims_seen(host->shims, local_id);
	else
		eventfd_write(HVD_STEP_SEEN_FD, 1);
	if (!has_shims(host) && event_pending(host->late, EV_TIMEOUT, NULL) && !hvd_observed_ranks_left(host->ranks))
		event_base_loopbreak(host->base);
}

/* slurmstepd's notes. */
static void on_notes(evutil_socket_t fd, short what, void *arg)
{
	struct host *host = arg;
	struct hvd_step_note note;
	int fds[2], rc = 1;

	(void)what;
	for (int i = 0; rc > 0 && i < TURN_NOTES; i++) {
		rc = hvd_step_note_take(fd, &note, fds);
		if (rc > 0)
			hvd_observed_ranks_note(host->ranks, &note, fds);
	}
	if (rc >= 0)
		return;
	event_del(host->notes);
	hvd_observed_ranks_deaf(host->ranks);
	if (event_pending(host->late, EV_TIMEOUT, NULL))
		event_base_loopbreak(host->base);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct host *host = arg;

	(void)sig;
	(void)what;
	if (host->ranks)
		hvd_observed_ranks_signalled(host->ranks);
}

/* ---- shims ---- */

/* The watchdog gets a copy of what it would need, first. */
static void on_shim_note(const struct hvd_step_note *note, int fds[2], void *arg)
{
	struct host *host = arg;

	if (note->kind == HVD_STEP_OUTPUT_LOST && host->agent) {
		hvd_agent_send(host->agent, json_pack("{s:s}", "t", "output-lost"));
		host->output_lost = true;
		if (!hvd_agent_sending(host->agent))
			settled(host);
	} else if (host->ranks) {
		if (host->spare && note->kind == HVD_STEP_TASK && fds[0] >= 0)
			hvd_step_note_send(host->spare, note, fds);
		hvd_observed_ranks_note(host->ranks, note, fds);
		return;
	}
	hvd_step_note_close(fds);
}

static void on_shim_left(uint32_t local_id, void *arg)
{
	struct host *host = arg;
	uint32_t rank;

	host->resident->task = hvd_shims_first(host->shims);
	if (!host->ranks || !has_shims(host) || !hvd_observed_ranks_lose(host->ranks, local_id, &rank))
		return;
	hvd_rank_watch_remove(host->watch, rank);
	hvd_agent_send(host->agent, json_pack("{s:s, s:I}", "t", "lost", "rank", (json_int_t)rank));
	count_end(host);
}

static void on_none_left(void *arg)
{
	struct host *host = arg;

	if (has_shims(host) || !host->planned)
		event_base_loopbreak(host->base);
}

/* ---- the driver ---- */

static bool begin_relay(struct host *host, const json_t *plan, struct hvd_err *err);

static json_t *error_files(const struct host *host)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < host->opts->info->local_size; i++) {
		const char *path = host->ranks ? hvd_observed_ranks_error_file(host->ranks, i) : NULL;

		json_array_append_new(list, path ? json_string(path) : json_null());
	}
	return list;
}

static void hand_out(struct host *host, const json_t *plan)
{
	const struct hvd_taskinfo *info = host->opts->info;
	json_t *numbers = json_array(), *part;

	for (uint32_t i = 0; i < info->local_size; i++)
		json_array_append_new(numbers, json_integer(info->ranks[i]));
	part = json_pack("{s:O, s:o, s:I, s:o, s:b, s:i}", "ranks", json_object_get(plan, "ranks"), "numbers", numbers,
			 "size", (json_int_t)info->size, "error_files", error_files(host), "func_key", host->key_fd > 0,
			 "agent", (int)getpid());
	hvd_shims_answer(host->shims, part, host->key_fd);
	json_decref(part);
}

static void begin_ranks(struct host *host)
{
	struct hvd_observed_ranks_opts opts = {.info = host->opts->info,
					       .lines = host->opts->boot->stderr_lines,
					       .over = has_shims(host) ? NULL : on_over,
					       .began = on_began,
					       .ended = on_ended,
					       .output = on_output,
					       .seen = on_seen,
					       .arg = host};

	if (!has_shims(host) && !host->opts->notes)
		return;
	host->ranks = hvd_observed_ranks_create(host->base, &opts);
	if (has_shims(host))
		return;
	host->notes = event_new(host->base, HVD_STEP_NOTES_FD, EV_READ | EV_PERSIST, on_notes, host);
	if (!host->notes)
		abort();
	event_add(host->notes, NULL);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct host *host = arg;

	if (host->planned) {
		hvd_debug(&host->resident->log, "%s: the driver is gone: %s", host->opts->info->name, why->msg);
		host->unreachable = true;
		hvd_relay_lost(host->relay, why);
		settled(host);
		if (host->opts->kind == HVD_HOST_AGENT_JSRUN)
			hvd_shims_tell(host->shims, HVD_STEP_END, 0);
		return;
	}
	hvd_agent_log_failure(&host->resident->log, host->opts->info, why);
	hvd_shims_refuse(host->shims, hvd_err_status(why));
	end_soon(host, REFUSED_SECONDS);
}

static void on_plan(const json_t *plan, void *arg)
{
	struct host *host = arg;
	struct hvd_err why = {0};

	if (!begin_relay(host, plan, &why) ||
	    hvd_rank_key_take(plan, hvd_agent_key(host->agent), &host->key_fd, &why) != 0) {
		on_failed(&why, host);
		return;
	}
	host->planned = true;
	begin_ranks(host);
	hand_out(host, plan);
	hvd_resident_detach(host->resident);
	host->resident->task = hvd_shims_first(host->shims);
	malloc_trim(0);
}

/* This host has no ranks. */
static void on_spare(void *arg)
{
	struct host *host = arg;
	json_t *none = json_pack("{s:[], s:[], s:i, s:[]}", "ranks", "numbers", "size", 0, "error_files");

	hvd_shims_answer(host->shims, none, 0);
	json_decref(none);
	end_soon(host, REFUSED_SECONDS);
}

static void on_message(json_t *msg, void *arg)
{
	struct host *host = arg;
	const char *type;
	int64_t sig;

	if (hvd_rank_watch_message(host->watch, msg) || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "signal") == 0 && hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		hvd_shims_tell(host->shims, HVD_STEP_SIGNAL, (int)sig);
	else if (strcmp(type, "relay") == 0)
		hvd_relay_again(host->relay);
	else if (strcmp(type, "end") == 0 && host->opts->kind == HVD_HOST_AGENT_JSRUN)
		hvd_shims_tell(host->shims, HVD_STEP_END, 0);
}

static void on_bytes(const void *data, size_t len, void *arg)
{
	hvd_relay_bytes(((struct host *)arg)->relay, data, len);
}

static void on_answer(json_t *msg, void *arg)
{
	hvd_agent_send(((struct host *)arg)->agent, msg);
}

/* ---- the relay ---- */

static bool begin_relay(struct host *host, const json_t *plan, struct hvd_err *err)
{
	struct hvd_relay_opts opts = {.sockets = &host->sockets,
				      .plan = json_object_get(plan, "relay"),
				      .boot = host->opts->boot,
				      .info = host->opts->info,
				      .agent = host->agent};

	if (opts.plan)
		host->relay = hvd_relay_create(host->base, &opts, &host->resident->log, err);
	hvd_relay_sockets_close(&host->sockets);
	return !opts.plan || host->relay;
}

/* ---- life ---- */

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(((struct host *)arg)->base);
}

/* The tasks have ended, or what has started the shims. */
static void on_starter_gone(void *arg)
{
	struct host *host = arg;

	if (!has_shims(host)) {
		if (host->ranks && hvd_observed_ranks_left(host->ranks))
			end_soon(host, HVD_STEP_SEEN_MS / 1e3);
		else
			event_base_loopbreak(host->base);
		return;
	}
	/* Without slurmstepd output of the ranks gets lost, and srun waits for ever. */
	if (host->planned && hvd_resident_orphaned(host->resident) && hvd_shims_connected(host->shims) > 0)
		hvd_agent_send(host->agent, json_pack("{s:s, s:s}", "t", "orphan", "parent", host->parent));
	end_soon(host, ORPHANS_SECONDS);
	hvd_shims_expect_none(host->shims);
}

static void begin_agent(struct host *host)
{
	static const struct hvd_agent_ops ops = {.plan = on_plan,
						 .spare = on_spare,
						 .message = on_message,
						 .failed = on_failed,
						 .drained = on_drained,
						 .bytes = on_bytes};
	const struct hvd_host_agent_opts *opts = host->opts;
	const struct hvd_log *log = &host->resident->log;
	struct hvd_err why = {0};

	host->agent = hvd_agent_create(host->base, opts->boot, opts->info, &ops, host, log, &why);
	if (!host->agent) {
		on_failed(&why, host);
		return;
	}
	hvd_ports_reserve(host->agent, opts->boot, opts->info, &host->reserved, log);
	hvd_relay_offer(host->agent, opts->boot, opts->info, &host->sockets);
}

static void begin_shims(struct host *host)
{
	static const struct hvd_shims_ops ops = {on_shim_note, on_shim_left, on_none_left};
	const struct hvd_host_agent_opts *opts = host->opts;

	host->shims = hvd_shims_create(host->base, has_shims(host) ? opts->info->local_size : 1,
				       has_shims(host) ? opts->socket : -1, &ops, host);
	if (!has_shims(host))
		hvd_shims_add(host->shims, opts->socket);
}

static void begin_signals(struct host *host)
{
	for (size_t i = 0; i < N_SIGNALS; i++) {
		host->signals[i] = evsignal_new(host->base, ends[i], on_signal, host);
		if (host->signals[i])
			event_add(host->signals[i], NULL);
	}
}

static void end(struct host *host)
{
	if (host->agent)
		say_done(host);
	hvd_relay_destroy(host->relay);
	hvd_relay_sockets_close(&host->sockets);
	hvd_observed_ranks_destroy(host->ranks);
	hvd_rank_watch_destroy(host->watch);
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (host->signals[i])
			event_free(host->signals[i]);
	if (host->notes)
		event_free(host->notes);
	event_free(host->late);
	hvd_shims_destroy(host->shims);
	hvd_agent_destroy(host->agent);
	event_base_dispatch(host->base); /* until the last messages are out */
	hvd_reserve_clear(&host->reserved);
}

struct start {
	const struct hvd_host_agent_opts *opts;
	struct hvd_session *session;
	int spare;
	char parent[HVD_COMMAND_PARENT];
};

static void run(struct hvd_resident *self, void *arg)
{
	const struct start *start = arg;
	struct host host = {.opts = start->opts, .resident = self, .base = event_base_new(), .spare = start->spare};

	if (!host.base)
		return;
	snprintf(host.parent, sizeof(host.parent), "%s", start->parent);
	host.late = evtimer_new(host.base, on_late, &host);
	if (!host.late)
		return;
	host.watch = hvd_rank_watch_create(host.base, on_answer, &host, &self->log);
	begin_signals(&host);
	begin_shims(&host);
	begin_agent(&host);
	hvd_resident_watch(self, host.base, on_starter_gone, &host);
	event_base_dispatch(host.base);
	hvd_resident_unwatch(self);
	end(&host);
}

/* In the watchdog: the process has ended before the ranks. If it has ended by itself it has said why. */
static void on_lost(pid_t pid, int status, int spare, struct hvd_step_tasks *tasks, void *arg)
{
	const struct start *start = arg;

	if (status != 0)
		hvd_last_report_death(start->opts->boot, start->session, start->opts->info, pid, status);
	if (spare && (status != 0 || start->opts->notes))
		hvd_observed_ranks_pass_on(spare, tasks);
}

pid_t hvd_host_agent_start(const struct hvd_host_agent_opts *opts, struct hvd_err *err)
{
	struct hvd_session session = {0};
	struct start start = {.opts = opts, .session = &session};
	bool plugin = opts->kind == HVD_HOST_AGENT_PLUGIN;
	int key = strncmp(opts->boot->id, "fd:", 3) == 0 ? atoi(opts->boot->id + 3) : 0, pair[2] = {0, 0};
	int keep[] = {opts->socket, key, plugin && opts->notes ? HVD_STEP_NOTES_FD : 0,
		      plugin && opts->notes ? HVD_STEP_SEEN_FD : 0, 0};
	struct hvd_resident_opts resident = {.name = "hvd-agent",
					     .keep = keep,
					     .n_keep = sizeof(keep) / sizeof(keep[0]),
					     .spare = plugin && opts->notes ? HVD_STEP_SPARE_FD : 0,
					     .log = opts->log,
					     .run = run,
					     .arg = &start,
					     .lost = on_lost};
	pid_t pid = -1;

	hvd_raise_nofile();
	hvd_command_parent(start.parent);
	if (plugin || opts->kind == HVD_HOST_AGENT_SRUN)
		hvd_step_tasks_init(&resident.tasks, opts->task);
	if (!plugin && hvd_step_notes_pair(pair) == 0) {
		start.spare = keep[4] = pair[0];
		resident.spare = pair[1];
	}
	if (hvd_agent_session(opts->boot, &session, err) == 0)
		pid = hvd_resident_start(&resident, err);
	close(opts->socket);
	for (int i = 0; i < 2 && pair[0]; i++)
		close(pair[i]);
	for (int fd = HVD_STEP_NOTES_FD; plugin && opts->notes && fd <= HVD_STEP_SEEN_FD; fd++)
		close(fd);
	return pid;
}
