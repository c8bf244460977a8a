/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct hvd_ask {
	struct event_base *base;
	hvd_call_fn *ask;
	void *ask_arg;
	int seconds;
	void (*answered)(const char *answer, void *arg);
	void *arg;
	struct hvd_timer *late;
	struct event *answer;
	pid_t pid; /* of the child that asks; not above 0 = none */
	int fd;    /* what it writes; -1 = none */
	char text[HVD_ASK_MAX + 1];
	size_t len;
};

static void reap(struct hvd_ask *ask)
{
	if (ask->answer)
		event_free(ask->answer);
	ask->answer = NULL;
	if (ask->fd >= 0)
		close(ask->fd);
	ask->fd = -1;
	hvd_end(ask->pid, 0, NULL);
	ask->pid = 0;
	hvd_timer_stop(ask->late);
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_ask *ask = arg;
	ssize_t n = read(fd, ask->text + ask->len, HVD_ASK_MAX - ask->len);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		ask->len += (size_t)n;
	if (n > 0 && ask->len < HVD_ASK_MAX)
		return;
	reap(ask);
	ask->text[ask->len] = '\0';
	ask->answered(ask->text, ask->arg);
}

static void on_late(void *arg)
{
	struct hvd_ask *ask = arg;

	reap(ask);
	ask->answered(NULL, ask->arg);
}

void hvd_ask_now(struct hvd_ask *ask)
{
	if (hvd_timer_runs(ask->late))
		return;
	ask->pid = hvd_call_begin(ask->ask, ask->ask_arg, &ask->fd, NULL);
	ask->len = 0;
	if (ask->pid < 0) { /* no process can be started */
		hvd_timer_in_ms(ask->late, 0);
		return;
	}
	ask->answer = event_new(ask->base, ask->fd, EV_READ | EV_PERSIST, on_answer, ask);
	event_add(ask->answer, NULL);
	hvd_timer_in_ms(ask->late, ask->seconds * 1000);
}

struct hvd_ask *hvd_ask_create(struct event_base *base, hvd_call_fn *ask, void *ask_arg, int seconds,
			       void (*answered)(const char *answer, void *arg), void *arg)
{
	struct hvd_ask *made = hvd_xcalloc(1, sizeof(*made));

	*made = (struct hvd_ask){.base = base,
				 .ask = ask,
				 .ask_arg = ask_arg,
				 .seconds = seconds,
				 .answered = answered,
				 .arg = arg,
				 .fd = -1};
	made->late = hvd_timer_new(base, on_late, made);
	return made;
}

void hvd_ask_destroy(struct hvd_ask *ask)
{
	if (!ask)
		return;
	reap(ask);
	hvd_timer_free(ask->late);
	free(ask);
}
