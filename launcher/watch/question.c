/* SPDX-License-Identifier: Apache-2.0 */
#include "question.h"

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/process_watch.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_SIZE    65536
#define MOST_MESSAGE 2000

struct hvd_question {
	struct event_base *base;
	int seconds;
	size_t most;
	hvd_answer_fn *fn;
	void *arg;
	struct hvd_timer *late;
	struct event *out, *ended;
	pid_t pid; /* 0: none runs */
	int out_fd, said_fd, pid_fd;
	hvd_time began;
	char *text;
	size_t len, room;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void make_room(struct hvd_question *q, size_t more)
{
	if (q->room - q->len >= more)
		return;
	q->room = 2 * q->room + more;
	q->text = hvd_xrealloc(q->text, q->room, 1);
}

/* Nothing runs any longer. */
static void forget(struct hvd_question *q)
{
	if (q->out)
		event_free(q->out);
	if (q->ended)
		event_free(q->ended);
	q->out = q->ended = NULL;
	close_fd(&q->out_fd);
	close_fd(&q->said_fd);
	close_fd(&q->pid_fd);
	hvd_end(q->pid, 0, NULL);
	q->pid = 0;
	hvd_timer_stop(q->late);
}

/* `why`: it was killed; NULL: the message is what it said. */
static void answer(struct hvd_question *q, int status, const char *why)
{
	char message[MOST_MESSAGE + 1] = "";
	struct hvd_answer a = {.status = status, .seconds = (double)(hvd_now() - q->began) / 1e9};
	ssize_t n = why || q->said_fd < 0 ? 0 : pread(q->said_fd, message, MOST_MESSAGE, 0);

	while (n > 0 && message[n - 1] == '\n')
		n--;
	message[n > 0 ? n : 0] = '\0';
	a.message = why ? why : message;
	make_room(q, 1);
	q->text[q->len] = '\0';
	a.text = q->text;
	a.len = q->len;
	forget(q);
	q->fn(&a, q->arg);
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_question *q = arg;
	const pid_t pid = q->pid;
	int status = 0;

	(void)what;
	if (!hvd_child_ended(fd, pid))
		return;
	hvd_wait(pid, hvd_deadline_in(1), &status, NULL); /* it is there */
	q->pid = 0;
	answer(q, hvd_status_exit(status), NULL);
}

static void on_out(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_question *q = arg;
	ssize_t n;

	(void)what;
	make_room(q, READ_SIZE);
	n = read(fd, q->text + q->len, READ_SIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	q->len += n > 0 ? (size_t)n : 0;
	if (q->len > q->most) {
		q->len = 0;
		answer(q, 1, "the answer is too long");
		return;
	}
	if (n > 0)
		return;
	/* It ends now; only then is its status known. */
	event_free(q->out);
	q->out = NULL;
	event_add(q->ended, NULL);
}

static void on_late(void *arg)
{
	struct hvd_question *q = arg;

	answer(q, 1, q->began ? "there is no answer in time" : "no process can be started");
}

static int start(struct hvd_question *q, char *const *argv)
{
	struct hvd_spawn sp = {.path = argv[0], .argv = argv, .new_group = 1, .parent_death_signal = SIGTERM};
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	q->out_fd = fds[0];
	fcntl(q->out_fd, F_SETFL, O_NONBLOCK);
	q->said_fd = memfd_create("messages", MFD_CLOEXEC);
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, fds[1], STDOUT_FILENO);
	hvd_spawn_fd(&sp, q->said_fd, STDERR_FILENO);
	q->pid = hvd_spawn(&sp, NULL);
	close(fds[1]);
	if (q->pid < 0)
		q->pid = 0;
	q->pid_fd = q->pid ? hvd_child_watch(q->pid) : -1;
	return q->pid_fd < 0 ? -1 : 0;
}

bool hvd_question_runs(const struct hvd_question *q)
{
	return hvd_timer_runs(q->late);
}

void hvd_question_ask(struct hvd_question *q, char *const *argv)
{
	if (hvd_question_runs(q))
		return;
	q->len = 0;
	q->began = hvd_now();
	if (start(q, argv) != 0) {
		q->began = 0;
		hvd_timer_in_ms(q->late, 0);
		return;
	}
	q->out = event_new(q->base, q->out_fd, EV_READ | EV_PERSIST, on_out, q);
	q->ended = event_new(q->base, q->pid_fd, EV_READ | EV_PERSIST, on_ended, q);
	event_add(q->out, NULL);
	hvd_timer_in_ms(q->late, q->seconds * 1000);
}

struct hvd_question *hvd_question_create(struct event_base *base, int seconds, size_t most, hvd_answer_fn *fn,
					 void *arg)
{
	struct hvd_question *q = hvd_xcalloc(1, sizeof(*q));

	*q = (struct hvd_question){.base = base,
				   .seconds = seconds,
				   .most = most,
				   .fn = fn,
				   .arg = arg,
				   .out_fd = -1,
				   .said_fd = -1,
				   .pid_fd = -1};
	q->late = hvd_timer_new(base, on_late, q);
	return q;
}

void hvd_question_destroy(struct hvd_question *q)
{
	if (!q)
		return;
	forget(q);
	hvd_timer_free(q->late);
	free(q->text);
	free(q);
}
