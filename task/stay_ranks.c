/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank begins with its TASK note, and ends with its EXIT note. Between them its tap passes its standard error on; an
 * event of the tap waits for the one end of it that is the obstacle. After the EXIT note what is left in the tap is
 * passed on, the rank's end is told, and when the driver knows of it the note is acknowledged.
 */
#include "stay_ranks.h"

#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/job/rank_error.h"
#include "lib/process/oom_kills.h"
#include "lib/protocol/step_note.h"
#include "tap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What one rank's output may take of a turn of the event loop. */
#define TURN_BYTES (1024 * 1024)
/* Notes in a turn. */
#define TURN_NOTES 64

/* How long a rank may take to end after the signal to end: Slurm's KillWait, and some more. */
#define SIGNAL_NS 120000000000LL

struct rank {
	struct hvd_stay_ranks *owner;
	uint32_t rank, local_id;
	pid_t pid;
	struct hvd_tap tap;
	bool known, tapped, exited, told, acknowledged;
	struct event *readable, *writable, *error_file;
	struct hvd_rank_error *error;
	char *cgroup; /* NULL = not known */
	struct hvd_oom_kills before;
	int status;
	int64_t at;
};

struct hvd_stay_ranks {
	struct event_base *base;
	struct hvd_stay_ranks_opts opts;
	struct event *notes; /* NULL: none will come */
	struct hvd_tap_view view;
	struct rank *all; /* by local rank */
	uint32_t n;
	hvd_time signalled; /* 0 = never */
};

static void acknowledge(struct rank *r)
{
	if (r->acknowledged)
		return;
	r->acknowledged = true;
	eventfd_write(r->owner->opts.answers, 1);
	r->owner->opts.seen(r->owner->opts.arg);
}

/* ---- standard error ---- */

static void free_event(struct event **ev)
{
	if (*ev)
		event_free(*ev);
	*ev = NULL;
}

static void forget_tap(struct rank *r)
{
	free_event(&r->readable);
	free_event(&r->writable);
	if (r->tapped)
		hvd_tap_close(&r->tap);
	r->tapped = false;
}

static void look(const char *bytes, size_t len, void *arg)
{
	struct rank *r = arg;

	hvd_rank_error_stderr(r->error, bytes, len, hvd_wall_now());
	if (r->owner->opts.output)
		r->owner->opts.output(len, r->owner->opts.arg);
}

static void tell_end(struct rank *r);

static void pass(struct rank *r)
{
	enum hvd_tap_state state = hvd_tap_pass(&r->tap, &r->owner->view, TURN_BYTES, look, r);

	event_del(r->readable);
	event_del(r->writable);
	if (state == HVD_TAP_EMPTY)
		event_add(r->readable, NULL);
	else if (state == HVD_TAP_FULL)
		event_add(r->writable, NULL);
	else if (state == HVD_TAP_MORE)
		event_active(r->readable, EV_READ, 0);
	else
		forget_tap(r);
	/* What others write to the pipe of a rank that has ended delays its end no longer than for a turn. */
	if (r->exited && !r->told && state != HVD_TAP_FULL)
		tell_end(r);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pass(arg);
}

/* Takes the descriptors. */
static void begin_tap(struct rank *r, const int fds[2])
{
	r->tap = (struct hvd_tap){.in = fds[0], .out = fds[1]};
	r->tapped = true;
	r->readable = event_new(r->owner->base, fds[0], EV_READ, on_ready, r);
	r->writable = event_new(r->owner->base, fds[1], EV_WRITE, on_ready, r);
	if (!r->readable || !r->writable)
		abort();
	event_add(r->readable, NULL);
}

/* ---- error files ---- */

static void read_error_file(struct rank *r)
{
	char bytes[16 * 1024];
	ssize_t n;

	/* As much as a pipe has: more comes with the next event. */
	for (int i = 0; i < 4 && (n = read(event_get_fd(r->error_file), bytes, sizeof(bytes))) > 0; i++)
		hvd_rank_error_file(r->error, bytes, (size_t)n, hvd_wall_now());
}

static void on_error_file(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_error_file(arg);
}

static void begin_error_file(struct rank *r, int fd)
{
	r->error_file = event_new(r->owner->base, fd, EV_READ | EV_PERSIST, on_error_file, r);
	if (!r->error_file)
		abort();
	event_add(r->error_file, NULL);
}

/* ---- ends ---- */

/* Does slurmstepd tell of the first of several ranks when all have ended already? srun, which would end the others,
 * hears of it only when this process has acknowledged it: so one signal has ended them all. It need not have come to
 * this process: Slurm's proctrack/linuxproc does not find it. */
static bool ended_at_once(const struct rank *r)
{
	const struct hvd_stay_ranks *ranks = r->owner;
	uint32_t told = 0;

	for (uint32_t i = 0; i < ranks->n; i++)
		told += ranks->all[i].told;
	return ranks->n > 1 && told == 1 && ranks->opts.over(ranks->opts.arg);
}

/* Was it ended by what ends all ranks? */
static bool ended_with_all(const struct rank *r)
{
	int sig = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0;

	if (sig != SIGTERM && sig != SIGINT && sig != SIGHUP && sig != SIGKILL)
		return false;
	if (ended_at_once(r))
		hvd_stay_ranks_signalled(r->owner);
	return r->owner->signalled && hvd_now() - r->owner->signalled < SIGNAL_NS;
}

static void tell_end(struct rank *r)
{
	struct hvd_rank_end end = {
		.rank = r->rank, .local_rank = r->local_id, .pid = r->pid, .status = r->status, .ended_at = r->at};

	r->told = true;
	if (r->error_file)
		read_error_file(r);
	hvd_rank_error_fill(r->error, &end);
	if (hvd_rank_end_may_be_oom(&end)) {
		struct hvd_oom_kills after = hvd_oom_kills_in(r->cgroup);

		hvd_rank_end_oom(&end, hvd_oom_between(&r->before, &after));
	}
	if (end.cause == HVD_END_NONE && ended_with_all(r))
		end.cause = HVD_END_WITH_ALL;
	if (r->owner->opts.ended(&end, r->owner->opts.arg))
		acknowledge(r);
	hvd_rank_end_clear(&end);
}

void hvd_stay_ranks_signalled(struct hvd_stay_ranks *ranks)
{
	ranks->signalled = hvd_now();
}

static void on_exit_note(struct rank *r, const struct hvd_step_note *note)
{
	if (r->exited)
		return;
	r->exited = true;
	r->status = note->status;
	r->at = note->at;
	if (!r->tapped) {
		tell_end(r);
		return;
	}
	hvd_tap_widen(&r->tap);
	pass(r);
}

static void on_task_note(struct rank *r, const struct hvd_step_note *note, int fds[2])
{
	if (r->known)
		return;
	r->known = true;
	r->pid = note->pid;
	r->cgroup = hvd_oom_cgroup(r->pid);
	r->before = hvd_oom_kills_in(r->cgroup);
	if (fds[0] >= 0 && r->owner->view.bytes) {
		begin_tap(r, fds);
		fds[0] = fds[1] = -1;
	}
	if (r->owner->opts.began)
		r->owner->opts.began(r->rank, r->pid, r->owner->opts.arg);
}

static void on_notes(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_stay_ranks *ranks = arg;
	struct hvd_step_note note;
	int fds[2], rc = 1;

	(void)what;
	for (int i = 0; rc > 0 && i < TURN_NOTES; i++) {
		rc = hvd_step_note_take(fd, &note, fds);
		if (rc > 0 && note.local_id < ranks->n && note.kind == HVD_STEP_TASK)
			on_task_note(&ranks->all[note.local_id], &note, fds);
		else if (rc > 0 && note.local_id < ranks->n && note.kind == HVD_STEP_EXIT)
			on_exit_note(&ranks->all[note.local_id], &note);
		for (int k = 0; k < 2; k++)
			if (rc > 0 && fds[k] >= 0)
				close(fds[k]);
	}
	if (rc >= 0)
		return;
	free_event(&ranks->notes);
	close(fd);
	ranks->opts.seen(ranks->opts.arg);
}

void hvd_stay_ranks_told(struct hvd_stay_ranks *ranks)
{
	for (uint32_t i = 0; i < ranks->n; i++)
		if (ranks->all[i].told)
			acknowledge(&ranks->all[i]);
}

bool hvd_stay_ranks_left(const struct hvd_stay_ranks *ranks)
{
	for (uint32_t i = 0; ranks->notes && i < ranks->n; i++)
		if (ranks->all[i].known && !ranks->all[i].acknowledged)
			return true;
	return false;
}

/* ---- begin and end ---- */

static void begin_rank(struct hvd_stay_ranks *ranks, uint32_t i)
{
	struct rank *r = &ranks->all[i];

	*r = (struct rank){.owner = ranks, .rank = ranks->opts.info->ranks[i], .local_id = i};
	r->error = hvd_rank_error_create(ranks->opts.lines);
	if (ranks->opts.error_files && ranks->opts.error_files[i] > 0)
		begin_error_file(r, ranks->opts.error_files[i]);
}

static void end_rank(struct rank *r)
{
	forget_tap(r);
	if (r->error_file)
		close(event_get_fd(r->error_file));
	free_event(&r->error_file);
	hvd_rank_error_destroy(r->error);
	free(r->cgroup);
}

struct hvd_stay_ranks *hvd_stay_ranks_create(struct event_base *base, const struct hvd_stay_ranks_opts *opts)
{
	struct hvd_stay_ranks *ranks = hvd_xcalloc(1, sizeof(*ranks));

	ranks->base = base;
	ranks->opts = *opts;
	ranks->n = opts->info->local_size;
	ranks->all = hvd_xcalloc(ranks->n, sizeof(*ranks->all));
	for (uint32_t i = 0; i < ranks->n; i++)
		begin_rank(ranks, i);
	if (opts->lines)
		hvd_tap_view_open(&ranks->view);
	ranks->notes = event_new(base, opts->notes, EV_READ | EV_PERSIST, on_notes, ranks);
	if (!ranks->notes)
		abort();
	event_add(ranks->notes, NULL);
	return ranks;
}

void hvd_stay_ranks_destroy(struct hvd_stay_ranks *ranks)
{
	if (!ranks)
		return;
	for (uint32_t i = 0; i < ranks->n; i++)
		end_rank(&ranks->all[i]);
	if (ranks->notes)
		close(event_get_fd(ranks->notes));
	free_event(&ranks->notes);
	close(ranks->opts.answers);
	hvd_tap_view_close(&ranks->view);
	free(ranks->all);
	free(ranks);
}

/* ---- without an event loop, in place of one that was killed ---- */

struct passing {
	struct hvd_tap *taps;
	struct pollfd *waits; /* of the taps, then `spare`, then the tasks */
	size_t n;
};

static void take_spare(struct passing *p, int spare)
{
	struct hvd_step_note note;
	int fds[2];

	while (hvd_step_note_take(spare, &note, fds) > 0) {
		if (fds[0] < 0)
			continue;
		p->taps = hvd_xrealloc(p->taps, p->n + 1, sizeof(*p->taps));
		p->waits = hvd_xrealloc(p->waits, p->n + 3, sizeof(*p->waits));
		p->taps[p->n] = (struct hvd_tap){.in = fds[0], .out = fds[1]};
		p->waits[p->n++] = (struct pollfd){.fd = fds[0], .events = POLLIN};
	}
}

static void pass_all(struct passing *p, struct hvd_tap_view *view)
{
	for (size_t i = 0; i < p->n; i++) {
		struct hvd_tap *tap = &p->taps[i];

		if (!p->waits[i].revents)
			continue;
		switch (hvd_tap_pass(tap, view, TURN_BYTES, NULL, NULL)) {
		case HVD_TAP_FULL:
			p->waits[i] = (struct pollfd){.fd = tap->out, .events = POLLOUT};
			break;
		case HVD_TAP_OVER:
			hvd_tap_close(tap);
			p->waits[i].fd = -1;
			break;
		default:
			p->waits[i] = (struct pollfd){.fd = tap->in, .events = POLLIN};
		}
	}
}

void hvd_stay_ranks_pass_on(int spare, struct hvd_step_tasks *tasks)
{
	struct hvd_tap_view view;
	struct passing p = {.waits = hvd_xcalloc(2, sizeof(*p.waits))};

	if (hvd_tap_view_open(&view) != 0)
		return;
	take_spare(&p, spare);
	while (hvd_step_tasks_left(tasks)) {
		p.waits[p.n] = (struct pollfd){.fd = spare, .events = POLLIN};
		p.waits[p.n + 1] = (struct pollfd){.fd = tasks->fd, .events = POLLIN};
		if (poll(p.waits, p.n + 2, -1) < 0 && errno != EINTR)
			break;
		if (p.waits[p.n].revents & POLLIN)
			take_spare(&p, spare);
		else if (p.waits[p.n].revents)
			spare = -1;
		pass_all(&p, &view);
	}
	for (size_t i = 0; i < p.n; i++) {
		if (p.waits[i].fd < 0)
			continue;
		hvd_tap_widen(&p.taps[i]);
		hvd_tap_pass(&p.taps[i], &view, TURN_BYTES, NULL, NULL);
	}
}
