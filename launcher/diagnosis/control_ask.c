/* SPDX-License-Identifier: Apache-2.0 */
/* control_ask.c - the asking end: finds the launches of this user by the names of their sockets. */
#include "control.h"

#include "control_internal.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define TURN_MS    200
#define MAX_ANSWER (512u << 20)

/* Does the target match `name` (LAUNCH/PID)? */
static bool is_meant(const char *name, const char *target)
{
	const char *slash = strrchr(name, '/'), *job = strchr(name, '-');
	size_t n = strlen(target);

	if (!slash)
		return false;
	if (strncmp(target, "pid:", 4) == 0)
		return strcmp(slash + 1, target + 4) == 0;
	if (strcmp(target, HVD_CONTROL_NO_JOB) == 0)
		return strncmp(name, "none/", 5) == 0;
	return job && job < slash && strncmp(job + 1, target, n) == 0 &&
	       (job[1 + n] == '/' || (job[1 + n] == '.' && !strchr(target, '.')));
}

/* Sockets by their inodes. */
struct inodes {
	unsigned long *v;
	size_t n, room;
};

static void add_sockets_of(const char *pid, struct inodes *inodes)
{
	char path[64], what[32];
	struct dirent *de;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	fds = opendir(path);
	while (fds && (de = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), de->d_name, what, sizeof(what) - 1);
		unsigned long inode;

		what[n < 0 ? 0 : n] = '\0';
		if (sscanf(what, "socket:[%lu]", &inode) != 1)
			continue;
		inodes->v = hvd_xgrow(inodes->v, inodes->n, &inodes->room, sizeof(*inodes->v));
		inodes->v[inodes->n++] = inode;
	}
	if (fds)
		closedir(fds);
}

static int by_number(const void *a, const void *b)
{
	const unsigned long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The sockets of this user's processes: the kernel shows the descriptors of no others. */
static struct inodes own_sockets(hvd_time deadline)
{
	struct inodes inodes = {0};
	struct dirent *de;
	DIR *proc = opendir("/proc");

	while (proc && hvd_left(deadline) > 0 && (de = readdir(proc))) {
		struct stat st;

		if (de->d_name[0] >= '1' && de->d_name[0] <= '9' && fstatat(dirfd(proc), de->d_name, &st, 0) == 0 &&
		    st.st_uid == getuid())
			add_sockets_of(de->d_name, &inodes);
	}
	if (proc)
		closedir(proc);
	if (inodes.n)
		qsort(inodes.v, inodes.n, sizeof(*inodes.v), by_number);
	return inodes;
}

/* The names of listening sockets that match the target: those of this user's processes, and those of other processes,
 * which belong to other users, or to a container of this user. */
static void find_names(const char *target, hvd_time deadline, struct hvd_strv *own, struct hvd_strv *others)
{
	hvd_cleanup_fclose FILE *f = fopen("/proc/net/unix", "re");
	struct inodes inodes = own_sockets(deadline);
	hvd_cleanup_free char *line = NULL;
	char prefix[64];
	size_t room = 0;

	snprintf(prefix, sizeof(prefix), " @hvd/%u/", (unsigned)getuid());
	while (f && hvd_left(deadline) > 0 && getline(&line, &room, f) > 0) {
		char *at = strstr(line, prefix);
		unsigned long inode;
		unsigned flags;

		/* Connections have the name of the socket that they were made to; only the latter listens. */
		if (!at || sscanf(line, "%*x: %*x %*x %x %*x %*x %lu", &flags, &inode) != 2 || !(flags & 0x10000))
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (is_meant(at + strlen(prefix), target) &&
		    strlen(at + 2) < sizeof(((struct sockaddr_un){0}).sun_path))
			hvd_strv_add(inodes.n && bsearch(&inode, inodes.v, inodes.n, sizeof(inode), by_number) ? own
													       : others,
				     at + 2);
	}
	free(inodes.v);
}

/* The names of this user's launches that match the target. If none of this user's processes has such a socket, those of
 * others, which may belong to a container of this user. */
static struct hvd_strv find_own(const char *target, hvd_time deadline, bool *sure)
{
	struct hvd_strv own = {0}, others = {0};

	find_names(target, deadline, &own, &others);
	*sure = own.n > 0;
	hvd_strv_free(*sure ? &others : &own);
	return *sure ? own : others;
}

/* Connect to a launch of this user; the kernel names its owner before it answers. Returns the connection, or -1 with
 * errno; EAGAIN: so many others wait there that nothing is known of it after `wait_ms`. */
static int connect_to(const char *name, int wait_ms)
{
	struct sockaddr_un sun;
	socklen_t len = hvd_control_address(name, &sun);
	hvd_cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait_ms ? 0 : SOCK_NONBLOCK), 0);
	struct timeval tv = {.tv_usec = (suseconds_t)wait_ms * 1000};

	if (fd >= 0 && wait_ms)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)); /* which connect(2) keeps to */
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, len) != 0)
		return -1;
	if (hvd_control_is_own(fd, false))
		return hvd_take_fd(&fd);
	errno = EPERM;
	return -1;
}

/* Connect to this user's launch that matches the target. A launch of this user that does not answer at once, since others
 * wait there, is waited for; no time is spent on other users' sockets. -1 with err set. */
static int find_launch(const char *target, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0}, busy = {0};
	hvd_time deadline = hvd_deadline_in(CLIENT_SECONDS);
	hvd_cleanup_close int found = -1;
	bool sure;

	names = find_own(target, deadline, &sure);
	for (size_t i = 0; i < names.n && hvd_left(deadline) > 0; i++) {
		int fd = connect_to(names.v[i], 0);

		if (fd >= 0 && found >= 0) {
			close(fd);
			return hvd_err_set(err, HVD_E_NOENT, "%s matches more than one of your launches on this host",
					   target);
		}
		if (fd >= 0)
			found = fd;
		else if (errno == EAGAIN && sure)
			hvd_strv_add(&busy, names.v[i]);
	}
	for (size_t turn = 0; busy.n && found < 0 && hvd_left(deadline) > 0; turn++) {
		char **name = &busy.v[turn % busy.n];

		found = connect_to(*name, TURN_MS);
		if (found < 0 && errno != EAGAIN) { /* it has ended */
			free(*name);
			*name = busy.v[--busy.n];
			busy.v[busy.n] = NULL;
		}
	}
	if (found < 0)
		return hvd_err_set(err, HVD_E_NOENT, "%s matches none of your launches on this host", target);
	return hvd_take_fd(&found);
}

/* Connect to a launch. One that does not answer at once, since others wait there, is waited for if it is surely this
 * user's; no time is spent on other users' sockets. -1: it has ended, or there is no more time. */
static int wait_for(const char *name, bool sure, hvd_time deadline)
{
	int fd = connect_to(name, 0);

	while (fd < 0 && errno == EAGAIN && sure && hvd_left(deadline) > 0)
		fd = connect_to(name, TURN_MS);
	return fd;
}

/* Takes the connection. NULL with err set. */
static json_t *ask_one(int connection, const char *question, const char *rank, double seconds, struct hvd_err *err)
{
	hvd_cleanup_close int fd = connection;
	hvd_cleanup_free char *text = NULL;
	char request[MAX_REQUEST];
	size_t len;
	json_t *said;

	snprintf(request, sizeof(request), "%s %.1f%s%s\n", question, seconds, rank ? " " : "", rank ? rank : "");
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0) {
		hvd_err_sys(err, "cannot ask the launch");
		return NULL;
	}
	text = hvd_capture_fd(fd, "the launch", MAX_ANSWER, hvd_deadline_in(seconds + 3), &len, err);
	if (!text && err->code == HVD_E_TIMEOUT)
		hvd_err_set(err, HVD_E_TIMEOUT,
			    "the launch does not answer in time; it answers one question at a time");
	if (!text)
		return NULL;
	said = json_loadb(text, len, 0, NULL);
	if (!json_is_object(said)) {
		json_decref(said);
		hvd_err_set(err, HVD_E_FAILED, "the launch has not answered; it may be ending");
		return NULL;
	}
	return said;
}

json_t *hvd_control_ask_each(const char *target, const char *question, const char *rank, double seconds,
			     struct hvd_err *err)
{
	const hvd_time deadline = hvd_deadline_in(CLIENT_SECONDS);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	json_t *answers = json_array(), *answer;
	bool sure;

	hvd_err_set(err, HVD_E_NOENT, "%s matches none of your launches on this host", target);
	names = find_own(target, deadline, &sure);
	for (size_t i = 0; i < names.n && json_array_size(answers) < HVD_CONTROL_MAX_LAUNCHES; i++) {
		int fd = wait_for(names.v[i], sure, deadline);

		answer = fd >= 0 ? ask_one(fd, question, rank, seconds, err) : NULL;
		if (answer)
			json_array_append_new(answers, answer);
	}
	if (json_array_size(answers))
		return answers;
	json_decref(answers);
	return NULL;
}

json_t *hvd_control_ask(const char *target, const char *question, double seconds, struct hvd_err *err)
{
	int fd = find_launch(target, err);

	return fd < 0 ? NULL : ask_one(fd, question, NULL, seconds, err);
}
