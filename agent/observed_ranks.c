/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank begins with its TASK event, and ends with its EXIT event. Between them its tee passes its standard error on;
 * an event of the event loop waits for that end of the tee that blocks. After the EXIT event the rest of the tee is
 * passed on, the rank's end is reported, and when the driver knows of it the EXIT event is acknowledged.
 */
#include "observed_ranks.h"

#include "crash_info.h"
#include "lib/base/cleanup.h"
#include "lib/base/tail.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/program.h"
#include "task_stderr.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The most bytes of one rank that are passed on in a turn of the event loop. */
#define TURN_BYTES (1024 * 1024)
/* Bytes of the reason why a rank was not started. */
#define REASON_MAX 1024
/* The files of at most so many failed ranks are read, one after the other: most ranks only die of the first. */
#define FILES_MOST 16

extern char **environ;

/* How long a rank may take to end after the signal to end: Slurm's KillWait, and some more. */
#define SIGNAL_NS 120000000000LL

struct rank {
	struct hvd_observed_ranks *owner;
	uint32_t rank, local_id;
	pid_t pid;
	struct hvd_stderr_tee tee;
	struct hvd_stderr_file file; /* in place of it */
	bool known, teed, exited, with_all, reported, acknowledged;
	struct event *readable, *writable;
	struct hvd_crash_info *crash_info;
	int status;
	int64_t at;
};

struct hvd_observed_ranks {
	struct hvd_observed_ranks_opts opts;
	struct hvd_stderr_tee_view view;
	struct rank *all; /* by local rank */
	uint32_t n, files_read;
	bool no_more_events; /* no event will come */
	hvd_time signalled;  /* 0 = never */
};

static void acknowledge(struct rank *r)
{
	if (r->acknowledged)
		return;
	r->acknowledged = true;
	r->owner->opts.seen(r->local_id, r->owner->opts.agent->ranks);
}

/* ---- standard error ---- */

static void forget_tee(struct rank *r)
{
	hvd_event_unwatch(&r->readable);
	hvd_event_unwatch(&r->writable);
	if (r->teed)
		hvd_stderr_tee_close(&r->tee);
	r->teed = false;
}

static void on_stderr(const char *bytes, size_t len, void *arg)
{
	struct rank *r = arg;

	hvd_crash_info_stderr(r->crash_info, bytes, len, hvd_now());
	hvd_agent_rank_output(r->owner->opts.agent, (struct hvd_world_rank){0, r->rank}, len);
}

static void tell(struct rank *r, char *why);

static void pass(struct rank *r)
{
	enum hvd_stderr_tee_state state = hvd_stderr_tee_pass(&r->tee, &r->owner->view, TURN_BYTES, on_stderr, r);

	event_del(r->readable);
	event_del(r->writable);
	if (state == HVD_TEE_EMPTY)
		event_add(r->readable, NULL);
	else if (state == HVD_TEE_FULL)
		event_add(r->writable, NULL);
	else if (state == HVD_TEE_MORE)
		event_active(r->readable, EV_READ, 0);
	else
		forget_tee(r);
	/* Other processes may write to the pipe of a rank that has ended. This delays its end by one turn at most. */
	if (r->exited && !r->reported && state != HVD_TEE_FULL)
		tell(r, NULL);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pass(arg);
}

/* Takes the descriptors. */
static void begin_tee(struct rank *r, const int fds[2])
{
	struct event_base *base = r->owner->opts.agent->base;

	r->tee = (struct hvd_stderr_tee){.in = fds[0], .out = fds[1]};
	r->teed = true;
	r->readable = hvd_event_watch(base, fds[0], EV_READ, on_ready, r);
	r->writable = event_new(base, fds[1], EV_WRITE, on_ready, r);
	if (!r->writable)
		abort();
}

/* Do several ranks write to the rank's file, as with -o FILE.%N? */
static bool shares_file(const struct rank *r)
{
	for (uint32_t i = 0; i < r->owner->n; i++)
		if (&r->owner->all[i] != r && r->owner->all[i].file.path &&
		    strcmp(r->owner->all[i].file.path, r->file.path) == 0)
			return true;
	return false;
}

/* The rank has failed, and its standard error is in a file: look at the end of it. Returns what to put in front of the
 * last lines; the caller frees it. NULL: there is no file. */
static char *look_at_file(struct rank *r)
{
	hvd_cleanup_free char *text = NULL;
	bool hangs = false;
	size_t len;

	if (!r->file.path)
		return NULL;
	if (shares_file(r))
		return hvd_xasprintf("(its output, and that of other ranks, is in %s)", r->file.path);
	if (r->owner->files_read < FILES_MOST) {
		r->owner->files_read++;
		text = hvd_stderr_file_end(&r->file, &len, &hangs);
	}
	if (hangs)
		r->owner->files_read = FILES_MOST;
	if (!text)
		return hvd_xasprintf("(its output is in %s)", r->file.path);
	hvd_crash_info_stderr(r->crash_info, text, len, r->at);
	return hvd_xasprintf("(the end of %s)\n", r->file.path);
}

/* The end of a file that only this rank writes. NULL: it cannot be read, or not in time. */
static char *lines_of_file(const struct rank *r)
{
	struct hvd_tail tail;
	bool hangs;
	size_t len;
	char *text = hvd_stderr_file_end(&r->file, &len, &hangs), *lines = NULL;

	if (!text)
		return NULL;
	hvd_tail_init(&tail, HVD_RANK_END_TAIL);
	hvd_tail_add(&tail, text, len);
	lines = hvd_tail_lines(&tail, HVD_LAST_LINES);
	hvd_tail_clear(&tail);
	free(text);
	return lines;
}

void hvd_observed_ranks_lines(const struct hvd_observed_ranks *ranks, uint32_t number, struct hvd_rank_lines *lines)
{
	const struct rank *r = NULL;

	for (uint32_t i = 0; ranks && i < ranks->n && !r; i++)
		if (ranks->all[i].rank == number && ranks->all[i].known && !ranks->all[i].exited)
			r = &ranks->all[i];
	if (r && r->file.path && !shares_file(r))
		lines->text = lines_of_file(r);
	else if (r && r->teed)
		lines->text = hvd_crash_info_lines(r->crash_info);
	if (!r)
		lines->of = hvd_xstrdup("nothing: it does not run");
	else if (r->file.path && shares_file(r))
		lines->of = hvd_xasprintf("nothing: it writes to %s, as other ranks do", r->file.path);
	else if (r->file.path)
		lines->of = hvd_xasprintf("%s%s",
					  lines->text ? "" : "nothing: it cannot be read or is empty: ", r->file.path);
	else
		lines->of = hvd_xstrdup(lines->text ? "stderr; its stdout does not pass through hvd"
						    : "nothing: its output does not pass through hvd");
}

/* ---- ends ---- */

/* Does slurmstepd report the first of several ranks after all have ended? srun would end the others, but it learns of
 * the end only when this process has acknowledged it. So one signal has ended them all. This process need not have got
 * the signal: Slurm's proctrack/linuxproc does not find it. */
static bool ended_at_once(const struct rank *r)
{
	const struct hvd_observed_ranks *ranks = r->owner;
	uint32_t reported = 0;

	for (uint32_t i = 0; i < ranks->n; i++)
		reported += ranks->all[i].reported;
	return ranks->n > 1 && reported == 1 && ranks->opts.over(ranks->opts.agent->ranks);
}

/* Was it ended by what ends all ranks? */
static bool ended_with_all(const struct rank *r)
{
	int sig = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0;

	if (sig != SIGTERM && sig != SIGINT && sig != SIGHUP && sig != SIGKILL)
		return false;
	if (ended_at_once(r))
		hvd_observed_ranks_signalled(r->owner);
	return r->owner->signalled && hvd_now() - r->owner->signalled < SIGNAL_NS;
}

/* Could slurmstepd not run the program? It says so on the rank's standard error, and ends with the errno. */
static void look_for_refusal(struct hvd_rank_end *end)
{
	int code = WIFEXITED(end->status) ? WEXITSTATUS(end->status) : 0;
	struct hvd_err err = {0};

	if (end->error || !hvd_program_refused(end->tail, code, environ, &err))
		return;
	hvd_err_join(&err);
	end->cause = HVD_END_NOT_STARTED;
	end->error = hvd_xstrdup(err.msg);
	free(end->tail);
	end->tail = NULL;
}

/* If the text becomes too long, the beginning of the last lines goes. */
static void put_in_front(char **tail, const char *line)
{
	size_t room = HVD_RANK_END_TAIL - strlen(line), n = *tail ? strlen(*tail) : 0;
	char *all = hvd_xasprintf("%s%s", line, n > room ? *tail + n - room : *tail ? *tail : "");

	free(*tail);
	*tail = all;
}

/* `why`: it was not started, for this reason; else NULL. */
static void tell(struct rank *r, char *why)
{
	struct hvd_rank_end end = {
		.rank = r->rank, .local_rank = r->local_id, .pid = r->pid, .status = r->status, .ended_at = r->at};
	hvd_cleanup_free char *in_front = NULL;

	r->reported = true;
	if (r->with_all)
		end.cause = HVD_END_WITH_ALL;
	else if (why)
		end.cause = HVD_END_NOT_STARTED;
	if (!why && r->status != 0 && !r->with_all)
		in_front = look_at_file(r);
	hvd_crash_info_end(r->crash_info, &end);
	if (end.cause == HVD_END_NONE && r->owner->opts.over && ended_with_all(r))
		end.cause = HVD_END_WITH_ALL;
	if (why) {
		free(end.error);
		end.error = hvd_xstrdup(why);
	} else if (end.cause == HVD_END_NONE) {
		look_for_refusal(&end);
	}
	if (in_front && end.cause != HVD_END_NOT_STARTED)
		put_in_front(&end.tail, in_front);
	if (r->owner->opts.ended(&end, r->owner->opts.agent->ranks))
		acknowledge(r);
	hvd_rank_end_clear(&end);
}

void hvd_observed_ranks_signalled(struct hvd_observed_ranks *ranks)
{
	ranks->signalled = hvd_now();
}

static void on_exit_event(struct rank *r, const struct hvd_step_event *event)
{
	if (r->exited)
		return;
	r->exited = true;
	r->with_all = event->kind == HVD_STEP_EXIT_WITH_ALL;
	r->status = event->status;
	r->at = event->at;
	if (!r->teed) {
		tell(r, NULL);
		return;
	}
	hvd_stderr_tee_widen(&r->tee);
	pass(r);
}

static void on_not_started(struct rank *r, const struct hvd_step_event *event, int fd)
{
	char why[REASON_MAX + 1];
	ssize_t n = fd >= 0 ? pread(fd, why, REASON_MAX, 0) : 0;

	if (r->exited)
		return;
	why[n > 0 ? n : 0] = '\0';
	r->known = r->exited = true;
	r->status = event->status;
	r->at = event->at;
	forget_tee(r);
	tell(r, why);
}

static void on_task_event(struct rank *r, const struct hvd_step_event *event, int fds[2])
{
	if (fds[0] >= 0 && r->owner->view.bytes && !r->teed) {
		begin_tee(r, fds);
		fds[0] = fds[1] = -1;
	}
	if (r->known || event->pid <= 0)
		return;
	r->known = true;
	r->pid = event->pid;
	hvd_crash_info_began(r->crash_info, r->pid);
	hvd_agent_rank_began(r->owner->opts.agent, (struct hvd_world_rank){0, r->rank}, r->pid);
}

void hvd_observed_ranks_event(struct hvd_observed_ranks *ranks, const struct hvd_step_event *event, int fds[2])
{
	struct rank *r = event->local_id < ranks->n ? &ranks->all[event->local_id] : NULL;

	if (r && event->kind == HVD_STEP_TASK)
		on_task_event(r, event, fds);
	else if (r && event->kind == HVD_STEP_FILE && fds[0] >= 0 && !r->file.path)
		hvd_stderr_file_open(&r->file, fds, event->at);
	else if (r && (event->kind == HVD_STEP_EXIT || event->kind == HVD_STEP_EXIT_WITH_ALL))
		on_exit_event(r, event);
	else if (r && event->kind == HVD_STEP_NOT_STARTED)
		on_not_started(r, event, fds[0]);
	hvd_step_event_close(fds);
}

bool hvd_observed_ranks_lose(struct hvd_observed_ranks *ranks, uint32_t local_id, uint32_t *rank)
{
	struct rank *r = local_id < ranks->n ? &ranks->all[local_id] : NULL;

	if (!r || r->exited)
		return false;
	r->known = r->exited = r->reported = r->acknowledged = true;
	*rank = r->rank;
	return true;
}

void hvd_observed_ranks_no_more_events(struct hvd_observed_ranks *ranks)
{
	ranks->no_more_events = true;
}

void hvd_observed_ranks_delivered(struct hvd_observed_ranks *ranks)
{
	for (uint32_t i = 0; i < ranks->n; i++)
		if (ranks->all[i].reported)
			acknowledge(&ranks->all[i]);
}

bool hvd_observed_ranks_left(const struct hvd_observed_ranks *ranks)
{
	for (uint32_t i = 0; !ranks->no_more_events && i < ranks->n; i++)
		if (ranks->all[i].known && !ranks->all[i].acknowledged)
			return true;
	return false;
}

/* ---- begin and end ---- */

const char *hvd_observed_ranks_error_file(const struct hvd_observed_ranks *ranks, uint32_t local_id)
{
	return local_id < ranks->n ? hvd_crash_info_file(ranks->all[local_id].crash_info) : NULL;
}

struct hvd_observed_ranks *hvd_observed_ranks_create(const struct hvd_observed_ranks_opts *opts)
{
	struct hvd_observed_ranks *ranks = hvd_xcalloc(1, sizeof(*ranks));
	const struct hvd_agent *agent = opts->agent;
	const unsigned lines = agent->settings.stderr_lines;
	struct hvd_oom_kills kills = hvd_oom_kills(0);

	ranks->opts = *opts;
	ranks->n = agent->info->local_size;
	ranks->all = hvd_xcalloc(ranks->n, sizeof(*ranks->all));
	for (uint32_t i = 0; i < ranks->n; i++)
		ranks->all[i] = (struct rank){.owner = ranks,
					      .rank = agent->info->ranks[i],
					      .local_id = i,
					      .crash_info = hvd_crash_info_create(agent->base, lines, &kills)};
	if (lines)
		hvd_stderr_tee_view_open(&ranks->view);
	return ranks;
}

void hvd_observed_ranks_destroy(struct hvd_observed_ranks *ranks)
{
	if (!ranks)
		return;
	for (uint32_t i = 0; i < ranks->n; i++) {
		forget_tee(&ranks->all[i]);
		hvd_stderr_file_close(&ranks->all[i].file);
		hvd_crash_info_destroy(ranks->all[i].crash_info);
	}
	hvd_stderr_tee_view_close(&ranks->view);
	free(ranks->all);
	free(ranks);
}

/* ---- without an event loop, in place of one that was killed ---- */

struct passing {
	struct hvd_stderr_tee *tees;
	struct pollfd *waits; /* of the tees, then `backup_fd`, then the tasks */
	size_t n;
};

static void take_backup(struct passing *p, int backup_fd)
{
	struct hvd_step_event event;
	int fds[2];

	while (hvd_step_event_take(backup_fd, &event, fds) > 0) {
		if (fds[0] < 0 || event.kind != HVD_STEP_TASK)
			continue;
		p->tees = hvd_xrealloc(p->tees, p->n + 1, sizeof(*p->tees));
		p->waits = hvd_xrealloc(p->waits, p->n + 3, sizeof(*p->waits));
		p->tees[p->n] = (struct hvd_stderr_tee){.in = fds[0], .out = fds[1]};
		p->waits[p->n++] = (struct pollfd){.fd = fds[0], .events = POLLIN};
	}
}

static void pass_all(struct passing *p, struct hvd_stderr_tee_view *view)
{
	for (size_t i = 0; i < p->n; i++) {
		struct hvd_stderr_tee *tee = &p->tees[i];

		if (!p->waits[i].revents)
			continue;
		switch (hvd_stderr_tee_pass(tee, view, TURN_BYTES, NULL, NULL)) {
		case HVD_TEE_FULL:
			p->waits[i] = (struct pollfd){.fd = tee->out, .events = POLLOUT};
			break;
		case HVD_TEE_OVER:
			hvd_stderr_tee_close(tee);
			p->waits[i].fd = -1;
			break;
		default:
			p->waits[i] = (struct pollfd){.fd = tee->in, .events = POLLIN};
		}
	}
}

static bool any_left(const struct passing *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->waits[i].fd >= 0)
			return true;
	return false;
}

void hvd_observed_ranks_pass_on(int backup_fd, struct hvd_step_tasks *tasks)
{
	struct hvd_stderr_tee_view view;
	struct passing p = {.waits = hvd_xcalloc(2, sizeof(*p.waits))};

	if (hvd_stderr_tee_view_open(&view) != 0)
		return;
	take_backup(&p, backup_fd);
	while (hvd_step_tasks_left(tasks) && (backup_fd >= 0 || any_left(&p))) {
		p.waits[p.n] = (struct pollfd){.fd = backup_fd, .events = POLLIN};
		p.waits[p.n + 1] = (struct pollfd){.fd = tasks->fd, .events = POLLIN};
		if (poll(p.waits, p.n + 2, -1) < 0 && errno != EINTR)
			break;
		if (p.waits[p.n].revents & POLLIN)
			take_backup(&p, backup_fd);
		if (p.waits[p.n].revents & ~POLLIN) /* all that was sent has been taken */
			backup_fd = -1;
		pass_all(&p, &view);
	}
	for (size_t i = 0; i < p.n; i++) {
		if (p.waits[i].fd < 0)
			continue;
		hvd_stderr_tee_widen(&p.tees[i]);
		hvd_stderr_tee_pass(&p.tees[i], &view, TURN_BYTES, NULL, NULL);
	}
}
