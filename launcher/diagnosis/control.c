/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - a client is one connection: it is accepted, sends its request, waits for the answer, reads it, and is
 * closed. Until then the next client waits in the kernel's queue. Each step has a deadline. */
#include "control.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/random.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/accept.h"
#include "lib/process/capture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENT_SECONDS 5
#define TURN_MS        200
#define MAX_REQUEST    64
#define MAX_ANSWER     (512u << 20)
#define PER_WAKE       (256 * 1024)

struct hvd_control {
	struct event_base *base;
	struct hvd_stacks *stacks;
	struct hvd_acceptor *acceptor;
	int client; /* -1 = none */
	struct hvd_timer *timer;
	struct event *event;
	char request[MAX_REQUEST];
	size_t got;
	char *answer;
	size_t len, sent;
};

/* ---- names ---- */

static socklen_t make_address(const char *name, struct sockaddr_un *sun)
{
	size_t n = strlen(name);

	*sun = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (n + 1 > sizeof(sun->sun_path))
		n = sizeof(sun->sun_path) - 1;
	memcpy(sun->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* The job that this process runs in, in the form of LAUNCH. */
static void own_launch(char text[64])
{
	const struct hvd_batch_job job = hvd_batch_job_here();
	const char *key = job.scheduler->key;

	/* The tasks of an array have its number. */
	if (*job.name)
		snprintf(text, 64, "%.20s-%.*s", key, (int)strcspn(job.name, "["), job.name);
	else
		snprintf(text, 64, "%s", key);
}

/* Is the peer a process of this user, or of root? */
static bool is_own(int fd, bool or_root)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == getuid() || (or_root && peer.uid == 0));
}

/* ---- the launch's end ---- */

static void finish_client(struct hvd_control *control)
{
	hvd_stacks_forget(control->stacks, control);
	event_free(control->event);
	control->event = NULL;
	hvd_timer_stop(control->timer);
	close(control->client);
	control->client = -1;
	free(control->answer);
	control->answer = NULL;
	control->got = control->len = control->sent = 0;
	hvd_acceptor_resume(control->acceptor);
}

static void on_client_time(void *arg)
{
	finish_client(arg);
}

static void wait_for_client(struct hvd_control *control, short events, void (*on_event)(evutil_socket_t, short, void *),
			    double seconds)
{
	if (control->event)
		event_free(control->event);
	control->event = event_new(control->base, control->client, (short)(events | EV_PERSIST), on_event, control);
	event_add(control->event, NULL);
	hvd_timer_at(control->timer, hvd_deadline_in(seconds));
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_control *control = arg;
	size_t left = control->len - control->sent;
	ssize_t n = send(fd, control->answer + control->sent, left < PER_WAKE ? left : PER_WAKE, MSG_NOSIGNAL);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		control->sent += (size_t)n;
	if (n <= 0 || control->sent == control->len)
		finish_client(control);
}

static void on_stacks(json_t *stacks, void *arg)
{
	struct hvd_control *control = arg;

	control->answer = json_dumps(stacks, JSON_COMPACT);
	control->len = control->answer ? strlen(control->answer) : 0;
	wait_for_client(control, EV_WRITE, on_writable, CLIENT_SECONDS);
}

/* The client has closed its end, or has sent more than a request. */
static void on_impatient(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	finish_client(arg);
}

static void on_request(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_control *control = arg;
	ssize_t n = recv(fd, control->request + control->got, sizeof(control->request) - 1 - control->got, 0);
	double seconds;

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		control->got += (size_t)n;
	control->request[control->got] = '\0';
	if (n > 0 && !strchr(control->request, '\n') && control->got < sizeof(control->request) - 1)
		return;
	if (n <= 0 || sscanf(control->request, "stacks %lf", &seconds) != 1 ||
	    !(seconds > 0 && seconds <= HVD_CONTROL_MAX_SECONDS)) {
		finish_client(control);
		return;
	}
	wait_for_client(control, EV_READ, on_impatient, seconds + 2);
	hvd_stacks_ask(control->stacks, seconds, on_stacks, control);
}

static void on_client(void *arg, int fd, const struct sockaddr_storage *peer)
{
	struct hvd_control *control = arg;

	(void)peer;
	if (!is_own(fd, true)) {
		close(fd);
		return;
	}
	hvd_acceptor_pause(control->acceptor);
	control->client = fd;
	wait_for_client(control, EV_READ, on_request, CLIENT_SECONDS);
}

/* Give a socket the name of the launch, or a longer one where another user has taken that. -1 with errno. */
static int bind_name(int fd, const char *launch, pid_t pid)
{
	struct sockaddr_un sun;
	char name[100];
	socklen_t len;
	unsigned more;

	snprintf(name, sizeof(name), "hvd/%u/%.50s/%d", (unsigned)getuid(), launch, (int)pid);
	len = make_address(name, &sun);
	if (bind(fd, (struct sockaddr *)&sun, len) == 0)
		return 0;
	if (errno != EADDRINUSE || hvd_random(&more, sizeof(more), NULL) != 0)
		return -1;
	snprintf(name, sizeof(name), "hvd/%u/%.50s/%08x/%d", (unsigned)getuid(), launch, more, (int)pid);
	len = make_address(name, &sun);
	return bind(fd, (struct sockaddr *)&sun, len);
}

struct hvd_control *hvd_control_open(struct event_base *base, const char *launch, pid_t pid, struct hvd_stacks *stacks)
{
	static const struct hvd_acceptor_ops ops = {.accepted = on_client};
	struct hvd_control *control;
	char own[64];
	int fd;

	if (!launch) {
		own_launch(own);
		launch = own;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	control = hvd_xcalloc(1, sizeof(*control));
	*control = (struct hvd_control){.base = base, .stacks = stacks, .client = -1};
	if (fd >= 0 && bind_name(fd, launch, pid) == 0 && listen(fd, 4) == 0)
		control->acceptor = hvd_acceptor_create(base, fd, &ops, control, NULL);
	if (!control->acceptor) {
		if (fd >= 0)
			close(fd);
		free(control);
		return NULL;
	}
	control->timer = hvd_timer_new(base, on_client_time, control);
	return control;
}

void hvd_control_close(struct hvd_control *control)
{
	if (!control)
		return;
	if (control->client >= 0)
		finish_client(control);
	hvd_acceptor_destroy(control->acceptor);
	hvd_timer_free(control->timer);
	free(control);
}

/* ---- the asking end ---- */

/* Does the target match `name` (LAUNCH/PID)? */
static bool is_meant(const char *name, const char *target)
{
	const char *slash = strrchr(name, '/'), *job = strchr(name, '-');
	size_t n = strlen(target);

	if (!slash)
		return false;
	if (strncmp(target, "pid:", 4) == 0)
		return strcmp(slash + 1, target + 4) == 0;
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
		if (inodes->n == inodes->room) {
			inodes->room = inodes->room * 2 + 64;
			inodes->v = hvd_xrealloc(inodes->v, inodes->room, sizeof(*inodes->v));
		}
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

/* Connect to a launch of this user; the kernel names its owner before it answers. Returns the connection, or -1 with
 * errno; EAGAIN: so many others wait there that nothing is known of it after `wait_ms`. */
static int connect_to(const char *name, int wait_ms)
{
	struct sockaddr_un sun;
	socklen_t len = make_address(name, &sun);
	hvd_cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait_ms ? 0 : SOCK_NONBLOCK), 0);
	struct timeval tv = {.tv_usec = (suseconds_t)wait_ms * 1000};

	if (fd >= 0 && wait_ms)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)); /* which connect(2) keeps to */
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, len) != 0)
		return -1;
	if (is_own(fd, false))
		return hvd_take_fd(&fd);
	errno = EPERM;
	return -1;
}

/* Connect to this user's launch that matches the target. A launch of this user that does not answer at once, since others
 * wait there, is waited for; no time is spent on other users' sockets. -1 with err set. */
static int find_launch(const char *target, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv own = {0}, others = {0}, busy = {0};
	const struct hvd_strv *names = &own;
	hvd_time deadline = hvd_deadline_in(CLIENT_SECONDS);
	hvd_cleanup_close int found = -1;

	find_names(target, deadline, &own, &others);
	if (!own.n)
		names = &others;
	for (size_t i = 0; i < names->n && hvd_left(deadline) > 0; i++) {
		int fd = connect_to(names->v[i], 0);

		if (fd >= 0 && found >= 0) {
			close(fd);
			return hvd_err_set(err, HVD_E_NOENT, "%s matches more than one of your launches on this host",
					   target);
		}
		if (fd >= 0)
			found = fd;
		else if (errno == EAGAIN && names == &own)
			hvd_strv_add(&busy, names->v[i]);
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

json_t *hvd_control_ask(const char *target, double seconds, struct hvd_err *err)
{
	hvd_cleanup_close int fd = find_launch(target, err);
	hvd_cleanup_free char *text = NULL;
	char request[MAX_REQUEST];
	size_t len;
	json_t *said;

	if (fd < 0)
		return NULL;
	snprintf(request, sizeof(request), "stacks %.1f\n", seconds);
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0) {
		hvd_err_sys(err, "cannot ask the launch");
		return NULL;
	}
	text = hvd_capture_fd(fd, "the launch", MAX_ANSWER, hvd_deadline_in(seconds + 3), &len, err);
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
