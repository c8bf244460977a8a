/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks_ask.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "stacks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_RANKS 4096 /* as many as fit into an argument */
#define PER_WAKE  (256 * 1024)

struct hvd_stacks_ask {
	void (*done)(json_t *found, void *arg);
	void *arg;
	pid_t pid;
	int fd;
	struct hvd_timer *timer;
	struct event *readable;
	char *text;
	size_t len, room;
};

void hvd_stacks_ask_destroy(struct hvd_stacks_ask *ask)
{
	if (!ask)
		return;
	event_free(ask->readable);
	hvd_timer_free(ask->timer);
	close(ask->fd);
	/* The child ends by itself at the end of its output, and may have been reaped since, so its number is not used
	 * then. Processes that it has started end with it. */
	if (ask->pid > 0) {
		kill(ask->pid, SIGKILL);
		hvd_wait(ask->pid, hvd_deadline_in(1), NULL, NULL);
	}
	free(ask->text);
	free(ask);
}

static void finish(struct hvd_stacks_ask *ask)
{
	json_auto_t *answer = ask->len ? json_loadb(ask->text, ask->len, 0, NULL) : NULL;
	json_t *found = json_object_get(answer, "ranks");
	json_auto_t *none = json_array();

	event_del(ask->readable);
	hvd_timer_stop(ask->timer);
	ask->done(json_is_array(found) ? found : none, ask->arg);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_stacks_ask *ask = arg;
	ssize_t n;

	(void)what;
	if (ask->room - ask->len < PER_WAKE)
		ask->text = hvd_xrealloc(ask->text, ask->room = 2 * ask->room + PER_WAKE, 1);
	n = read(fd, ask->text + ask->len, PER_WAKE);
	if (n < 0)
		return; /* nothing there yet; the timer ends it all */
	if (n > 0 && (ask->len += (size_t)n) <= 2 * HVD_STACKS_MAX_OUTPUT)
		return;
	if (n == 0) {
		hvd_wait(ask->pid, hvd_deadline_in(1), NULL, NULL);
		ask->pid = 0;
	}
	finish(ask);
}

static void on_time(void *arg)
{
	finish(arg);
}

static pid_t start(const struct hvd_watched_rank *ranks, size_t n, double seconds, int out, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	hvd_cleanup_free char *which = NULL;
	struct hvd_spawn sp = {.path = "/proc/self/exe", .new_group = 1};

	for (size_t i = 0; i < n && i < MAX_RANKS; i++)
		hvd_xappendf(&which, "%s%u:%d", i ? "," : "", (unsigned)ranks[i].rank, (int)ranks[i].pid);
	hvd_strv_add(&argv, "hvd-agent");
	hvd_strv_add(&argv, "inspect");
	hvd_strv_addf(&argv, "%s@%.3f", which ? which : "", seconds);
	sp.argv = argv.v;
	sp.parent_death_signal = SIGKILL;
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, out, STDOUT_FILENO);
	hvd_spawn_fd(&sp, -1, STDERR_FILENO);
	return hvd_spawn(&sp, err);
}

struct hvd_stacks_ask *hvd_stacks_ask_begin(struct event_base *base, const struct hvd_watched_rank *ranks, size_t n,
					    double seconds, void (*done)(json_t *found, void *arg), void *arg,
					    struct hvd_err *err)
{
	hvd_time latest = hvd_deadline_in(seconds + 0.5);
	struct hvd_stacks_ask *ask;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0) {
		hvd_err_sys(err, "cannot make a pipe");
		return NULL;
	}
	pid = start(ranks, n, seconds, fds[1], err);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return NULL;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	ask = hvd_xcalloc(1, sizeof(*ask));
	*ask = (struct hvd_stacks_ask){.done = done, .arg = arg, .pid = pid, .fd = fds[0]};
	ask->readable = event_new(base, ask->fd, EV_READ | EV_PERSIST, on_readable, ask);
	ask->timer = hvd_timer_new(base, on_time, ask);
	event_add(ask->readable, NULL);
	hvd_timer_at(ask->timer, latest);
	return ask;
}
