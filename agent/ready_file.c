/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_file.c - the child writes a byte when the file has changed, and ends. It ends before that when nobody reads from the
 * pipe any longer. Nobody waits for it: it is reaped by the one who reaps the ranks, or with the process.
 */
#include "ready_file.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "lib/process/close_fds.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FIRST_MS 50
#define LAST_MS  1000
#define PAUSE_MS 10 /* after a change: a folder may have thousands each second */

struct hvd_ready_file {
	int fd;
	struct event *event;
	void (*changed)(void *arg);
	void *arg;
};

/* ---- in the child ---- */

struct look {
	const char *path;
	int64_t since; /* the time of day, in nanoseconds */
};

static int64_t in_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* NULL `before`: it was not there. */
static bool is_new(const struct stat *now, const struct stat *before, int64_t since)
{
	return !before || now->st_ino != before->st_ino || now->st_size != before->st_size ||
	       in_ns(&now->st_ctim) != in_ns(&before->st_ctim) || in_ns(&now->st_mtim) != in_ns(&before->st_mtim) ||
	       in_ns(&now->st_ctim) >= since;
}

/* -1: there is no such folder, or it cannot be watched. */
static int watch_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	hvd_cleanup_free char *folder =
		!slash ? hvd_xstrdup(".") : hvd_xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd >= 0 && inotify_add_watch(fd, folder, IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_CLOSE_WRITE) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Wait for a change, or the time. False: nobody reads `out`. */
static bool wait_for(int changes, int out, int ms)
{
	struct pollfd fds[] = {{.fd = out}, {.fd = changes, .events = POLLIN}};
	char events[4096];

	if (poll(fds, 2, ms) > 0 && fds[1].revents)
		poll(fds, 1, PAUSE_MS);
	while (changes >= 0 && read(changes, events, sizeof(events)) > 0)
		;
	return !fds[0].revents;
}

static void look_at(int out, void *arg)
{
	const struct look *look = arg;
	struct stat before, now;
	const bool there = stat(look->path, &before) == 0;
	int changes = -1, ms = FIRST_MS / 2;

	/* Copies of ports that the agent gives to ranks, and of its connections. */
	hvd_close_fds(0, (unsigned)out - 1, false);
	hvd_close_fds((unsigned)out + 1, ~0U, false);
	do {
		if (changes < 0)
			changes = watch_folder(look->path);
		if (stat(look->path, &now) == 0 && is_new(&now, there ? &before : NULL, look->since)) {
			if (write(out, "", 1) != 1)
				_exit(1);
			return;
		}
		ms = 2 * ms < LAST_MS ? 2 * ms : LAST_MS;
	} while (wait_for(changes, out, ms));
}

/* ---- in the agent ---- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_ready_file *file = arg;
	char c;
	const bool changed = read(fd, &c, 1) == 1; /* or the child was killed */

	(void)what;
	hvd_event_unwatch(&file->event);
	if (changed)
		file->changed(file->arg);
}

struct hvd_ready_file *hvd_ready_file_watch(struct event_base *base, const char *path, void (*changed)(void *arg),
					    void *arg, struct hvd_err *err)
{
	struct timespec now;
	struct look look = {.path = path};
	struct hvd_ready_file *file;
	int fd;

	clock_gettime(CLOCK_REALTIME_COARSE, &now); /* from which times of files come */
	look.since = in_ns(&now);
	if (hvd_call_begin(look_at, &look, &fd, err) < 0)
		return NULL;
	file = hvd_xcalloc(1, sizeof(*file));
	*file = (struct hvd_ready_file){.fd = fd, .changed = changed, .arg = arg};
	file->event = hvd_event_watch(base, fd, EV_READ, on_readable, file);
	return file;
}

void hvd_ready_file_destroy(struct hvd_ready_file *file)
{
	if (!file)
		return;
	hvd_event_unwatch(&file->event);
	close(file->fd);
	free(file);
}
