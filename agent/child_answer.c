/* SPDX-License-Identifier: Apache-2.0 */
#include "child_answer.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define PER_WAKE (256 * 1024)

struct hvd_child_answer {
	pid_t pid; /* 0: it has ended */
	int fd;
	struct hvd_timer *late;
	struct event *readable;
	char *text;
	size_t len, room, max;
	void (*done)(json_t *answer, void *arg);
	void *arg;
};

static void end_child(struct hvd_child_answer *answer)
{
	if (answer->pid <= 0)
		return;
	kill(answer->pid, SIGKILL);
	hvd_wait(answer->pid, hvd_deadline_in(1), NULL, NULL);
	answer->pid = 0;
}

static void finish(void *arg)
{
	struct hvd_child_answer *answer = arg;
	json_auto_t *object = answer->len ? json_loadb(answer->text, answer->len, 0, NULL) : NULL;

	event_del(answer->readable);
	hvd_timer_stop(answer->late);
	end_child(answer);
	answer->done(json_is_object(object) ? object : NULL, answer->arg);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_child_answer *answer = arg;
	ssize_t n;

	(void)what;
	if (answer->room - answer->len < PER_WAKE)
		answer->text = hvd_xrealloc(answer->text, answer->room = 2 * answer->room + PER_WAKE, 1);
	n = read(fd, answer->text + answer->len, PER_WAKE);
	if (n < 0)
		return; /* there is nothing yet; the timer ends it all */
	answer->len += (size_t)n;
	if (n > 0 && answer->len <= answer->max)
		return;
	if (n > 0)
		answer->len = 0;
	/* Others in this process may reap any child: this one ends by itself at the end of its output, and is not killed
	 * then. */
	if (n == 0) {
		hvd_wait(answer->pid, hvd_deadline_in(1), NULL, NULL);
		answer->pid = 0;
	}
	finish(answer);
}

struct hvd_child_answer *hvd_child_answer_begin(struct event_base *base, pid_t pid, int fd, size_t max, hvd_time latest,
						void (*done)(json_t *answer, void *arg), void *arg)
{
	struct hvd_child_answer *answer = hvd_xcalloc(1, sizeof(*answer));

	*answer = (struct hvd_child_answer){.pid = pid, .fd = fd, .max = max, .done = done, .arg = arg};
	fcntl(fd, F_SETFL, O_NONBLOCK);
	answer->readable = hvd_event_watch(base, fd, EV_READ | EV_PERSIST, on_readable, answer);
	answer->late = hvd_timer_new(base, finish, answer);
	hvd_timer_at(answer->late, latest);
	return answer;
}

void hvd_child_answer_destroy(struct hvd_child_answer *answer)
{
	if (!answer)
		return;
	end_child(answer);
	event_free(answer->readable);
	hvd_timer_free(answer->late);
	close(answer->fd);
	free(answer->text);
	free(answer);
}
