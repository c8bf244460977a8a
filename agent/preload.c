/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload.c - the Python is started with the first rank, and while there may be more ranks there is one, unless it was
 * given up. It gets one request at a time; the ranks behind that wait in a queue. Whatever happens to it, its end comes
 * as hvd_preload_reaped(), which decides what is next: so a Python that must go is killed, and nothing else.
 *
 *   ABSENT ── the first rank ──► IMPORTING ── ready ──► READY ── it ends ──► IMPORTING, at most MOST_STARTS times
 *                                    │ ends, refuses, is late                │ is late, sends nonsense
 *                                    └──────────────────────► GIVEN_UP ◄─────┘  also after hvd_preload_end()
 */
#include "preload.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/procfs.h"
#include "preload_python.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Modules come from a file system that all hosts may read at the same time. */
#define IMPORT_SECONDS 300
#define FORK_SECONDS   30
#define MOST_STARTS    16

enum state {
	ABSENT,
	IMPORTING,
	READY,
	GIVEN_UP,
};

/* A rank that is to be forked. */
struct request {
	void *rank;               /* NULL: it is no longer wanted */
	int fds[HVD_PRELOAD_FDS]; /* those of the message; -1 once it was sent */
	int go;                   /* the other end of its pipe */
	struct request *next;
};

struct hvd_preload {
	struct event_base *base;
	const struct hvd_preload_opts *opts;
	const struct hvd_log *log;
	enum state state;
	pid_t pid; /* 0 = there is none */
	int socket;
	struct hvd_timer *late;
	struct event *readable;
	bool asked; /* the first of the queue was sent */
	struct request *queue;
	int starts;
	bool replaced; /* it was killed, since ranks need one with another environment */
	struct hvd_preload_python python;
};

/* ---- the queue ---- */

static void free_request(struct request *req)
{
	for (int i = 0; i < HVD_PRELOAD_FDS; i++)
		if (req->fds[i] >= 0)
			close(req->fds[i]);
	if (req->go >= 0)
		close(req->go);
	free(req);
}

static struct request *take_first(struct hvd_preload *preload)
{
	struct request *req = preload->queue;

	preload->queue = req->next;
	preload->asked = false;
	return req;
}

/* Copy the descriptor that would have this number in a spawned child. */
static int copy_fd(const struct hvd_spawn *sp, int number)
{
	int from = number;

	for (int i = 0; i < sp->n_fds; i++)
		if (sp->child_fd[i] == number)
			from = sp->parent_fd[i];
	return from < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fcntl(from, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

static struct request *new_request(const struct hvd_spawn *sp, void *rank)
{
	struct request *req = hvd_xcalloc(1, sizeof(*req));
	int ends[2] = {-1, -1};
	const cpu_set_t *cpus = sp->cpus;
	cpu_set_t own;
	bool ok;

	req->rank = rank;
	if (pipe2(ends, O_CLOEXEC) != 0)
		ends[0] = ends[1] = -1;
	req->go = ends[1];
	/* The Python may be bound. */
	if (!cpus && sched_getaffinity(0, sizeof(own), &own) == 0)
		cpus = &own;
	req->fds[0] = hvd_preload_request(cpus, sp->envp, NULL);
	req->fds[1] = ends[0];
	for (int number = 0; number <= STDERR_FILENO; number++)
		req->fds[2 + number] = copy_fd(sp, number);
	ok = req->go >= 0;
	for (int i = 0; i < HVD_PRELOAD_FDS; i++)
		ok = ok && req->fds[i] >= 0;
	if (ok)
		return req;
	free_request(req);
	return NULL;
}

/* Have the first rank of the queue started by hvd_spawn(). */
static void return_first(struct hvd_preload *preload)
{
	struct request *req = take_first(preload);
	void *rank = req->rank;

	free_request(req);
	if (rank)
		preload->opts->forked(0, 0, rank);
}

static void return_all(struct hvd_preload *preload)
{
	while (preload->queue)
		return_first(preload);
}

/* ---- giving up ---- */

/* It leads a process group: a wrapper may have started it as a child. */
static void kill_python(const struct hvd_preload *preload)
{
	if (preload->pid > 0)
		kill(-preload->pid, SIGKILL);
}

static void disconnect(struct hvd_preload *preload)
{
	hvd_event_unwatch(&preload->readable);
	if (preload->socket >= 0)
		close(preload->socket);
	preload->socket = -1;
	hvd_timer_stop(preload->late);
}

static void give_up(struct hvd_preload *preload)
{
	preload->state = GIVEN_UP;
	kill_python(preload);
	disconnect(preload);
	return_all(preload);
}

static void __attribute__((format(printf, 2, 3))) fail(struct hvd_preload *preload, const char *fmt, ...)
{
	char why[HVD_PRELOAD_ANSWER_MAX];
	va_list ap;

	if (preload->state == GIVEN_UP)
		return;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	hvd_warn(preload->log, "%s: ranks start without --preload=%s: %s", preload->opts->host, preload->opts->modules,
		 why);
	give_up(preload);
}

static void wait_until(struct hvd_preload *preload, double seconds)
{
	hvd_timer_at(preload->late, hvd_deadline_in(seconds));
}

static void on_late(void *arg)
{
	struct hvd_preload *preload = arg;

	if (preload->state == IMPORTING)
		fail(preload, "the modules were not imported within %d s", IMPORT_SECONDS);
	else
		fail(preload, "no rank was forked within %d s", FORK_SECONDS);
}

/* ---- forking ranks ---- */

static void ask_next(struct hvd_preload *preload)
{
	struct request *req;

	while (preload->queue && !preload->queue->rank && !preload->asked)
		free_request(take_first(preload));
	req = preload->queue;
	if (!req || preload->asked || preload->state != READY)
		return;
	if (hvd_preload_send(preload->socket, req->fds) != 0) {
		kill_python(preload);
		return;
	}
	for (int i = 0; i < HVD_PRELOAD_FDS; i++)
		close(req->fds[i]);
	memset(req->fds, -1, sizeof(req->fds));
	preload->asked = true;
	wait_until(preload, FORK_SECONDS);
}

static void on_started(struct hvd_preload *preload, const struct hvd_preload_answer *answer)
{
	struct hvd_process process;
	struct request *req;

	if (hvd_process_read(answer->pid, &process) != 0 || process.parent != getpid() ||
	    process.group != answer->group) {
		fail(preload, "it says that it has forked process %d, which is no new child of hvd-agent",
		     (int)answer->pid);
		return;
	}
	hvd_timer_stop(preload->late);
	req = take_first(preload);
	if (req->rank) {
		preload->opts->forked(answer->pid, answer->group, req->rank);
		if (write(req->go, "g", 1) != 1)
			kill(answer->pid, SIGKILL);
	}
	free_request(req);
	ask_next(preload);
}

static void on_not_forked(struct hvd_preload *preload, const char *why)
{
	hvd_timer_stop(preload->late);
	hvd_verbose(preload->log, "%s: a rank starts without --preload: %s", preload->opts->host, why);
	return_first(preload);
	ask_next(preload);
}

static void on_answer(struct hvd_preload *preload, const char *text)
{
	struct hvd_preload_answer answer;
	struct hvd_err why = {0};

	if (hvd_preload_answer_parse(text, &answer, &why) != 0) {
		fail(preload, "%s", why.msg);
	} else if (answer.word == HVD_PRELOAD_REFUSED) {
		fail(preload, "%s", answer.why);
	} else if ((answer.word == HVD_PRELOAD_READY) != (preload->state == IMPORTING) ||
		   (preload->state == READY && !preload->asked)) {
		fail(preload, "it has sent an answer to nothing");
	} else if (answer.word == HVD_PRELOAD_READY) {
		hvd_timer_stop(preload->late);
		preload->state = READY;
		hvd_verbose(preload->log, "%s: process %d has imported %s", preload->opts->host, (int)preload->pid,
			    preload->opts->modules);
		ask_next(preload);
	} else if (answer.word == HVD_PRELOAD_STARTED) {
		on_started(preload, &answer);
	} else {
		on_not_forked(preload, answer.why);
	}
}

/* Read an answer of the Python. Returns what recv(2) returns. */
static ssize_t read_answer(struct hvd_preload *preload)
{
	char text[HVD_PRELOAD_ANSWER_MAX];
	ssize_t n = recv(preload->socket, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (n > 0) {
		text[n] = '\0';
		on_answer(preload, text);
	}
	return n;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_preload *preload = arg;
	ssize_t n = read_answer(preload);

	(void)fd;
	(void)what;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	/* It is ending, or a module has closed its socket. */
	event_del(preload->readable);
	kill_python(preload);
}

/* ---- starting the Python ---- */

static void start(struct hvd_preload *preload)
{
	const struct hvd_preload_opts *opts = preload->opts;
	struct hvd_err why = {0};
	pid_t pid = hvd_preload_python_start(&preload->python, opts->modules, opts->key_fd, &preload->socket, &why);

	if (pid < 0) {
		fail(preload, "%s", why.msg);
		return;
	}
	preload->pid = pid;
	preload->starts++;
	preload->state = IMPORTING;
	preload->readable = hvd_event_watch(preload->base, preload->socket, EV_READ | EV_PERSIST, on_readable, preload);
	wait_until(preload, IMPORT_SECONDS);
}

static void begin(struct hvd_preload *preload, const struct hvd_spawn *sp)
{
	const char *name = hvd_preload_python_obstacle(sp);

	hvd_preload_python_keep(&preload->python, sp);
	if (name)
		fail(preload, "%s is set, which is read when a module is imported, and ranks have CPUs of their own",
		     name);
	else
		start(preload);
}

/* ---- interface ---- */

bool hvd_preload_rank(struct hvd_preload *preload, const struct hvd_spawn *sp, bool first, void *rank)
{
	struct request *req, **at = &preload->queue;
	bool fits;

	/* What else hvd_spawn() can do would have to be done in sitecustomize.py, too. */
	assert((sp->group || sp->join_group) && !sp->root_fd && !sp->cwd && !sp->keep_fds && !sp->new_session &&
	       sp->parent_death_signal == SIGKILL);
	if (preload->state == ABSENT)
		begin(preload, sp);
	if (preload->state == GIVEN_UP)
		return false;
	fits = hvd_preload_python_fits(&preload->python, sp);
	if (!fits && first && preload->state == READY && !preload->queue) {
		/* The host has another number of ranks than before. */
		hvd_preload_python_keep(&preload->python, sp);
		disconnect(preload);
		preload->state = IMPORTING;
		preload->replaced = true;
		kill_python(preload);
	}
	fits = hvd_preload_python_fits(&preload->python, sp);
	req = fits ? new_request(sp, rank) : NULL;
	if (!req) {
		hvd_verbose(preload->log, "%s: a rank starts without --preload: %s", preload->opts->host,
			    fits ? "too few descriptors" : "its OMP_NUM_THREADS is not that of the host's first rank");
		return false;
	}
	while (*at)
		at = &(*at)->next;
	*at = req;
	ask_next(preload);
	return true;
}

void hvd_preload_forget(struct hvd_preload *preload, const void *rank)
{
	for (struct request *req = preload->queue; req; req = req->next)
		if (req->rank == rank)
			req->rank = NULL;
}

static void on_end(struct hvd_preload *preload, int status)
{
	bool again = preload->replaced || (preload->state == READY && preload->starts < MOST_STARTS);
	char text[64];

	if (!again && preload->state == IMPORTING && status == 0) {
		fail(preload, "Python did not read hvd-agent's sitecustomize.py (does the command have -E, -I or -S?)");
	} else if (!again) {
		fail(preload, "Python has ended: %s", hvd_status_text(status, text, sizeof(text)));
	} else {
		disconnect(preload);
		if (!preload->replaced)
			return_all(preload);
		preload->replaced = false;
		if (preload->state != GIVEN_UP) /* a job of fixed size has all of its ranks now */
			start(preload);
	}
}

void hvd_preload_reaped(struct hvd_preload *preload, pid_t pid, int status)
{
	if (!preload || pid != preload->pid)
		return;
	preload->pid = 0;
	/* It may have said why it ends. */
	while (preload->socket >= 0 && read_answer(preload) > 0)
		;
	if (preload->state != GIVEN_UP)
		on_end(preload, status);
}

void hvd_preload_end(struct hvd_preload *preload)
{
	if (preload && preload->state != GIVEN_UP)
		give_up(preload);
}

struct hvd_preload *hvd_preload_create(struct event_base *base, const struct hvd_preload_opts *opts,
				       const struct hvd_log *log)
{
	struct hvd_preload *preload = hvd_xcalloc(1, sizeof(*preload));

	preload->base = base;
	preload->opts = opts;
	preload->log = log;
	preload->socket = -1;
	preload->late = hvd_timer_new(base, on_late, preload);
	return preload;
}

void hvd_preload_destroy(struct hvd_preload *preload)
{
	if (!preload)
		return;
	for (struct request *req = preload->queue; req; req = req->next)
		req->rank = NULL;
	if (preload->state != GIVEN_UP)
		give_up(preload);
	hvd_timer_free(preload->late);
	hvd_preload_python_clear(&preload->python);
	free(preload);
}
