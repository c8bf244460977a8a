/* SPDX-License-Identifier: Apache-2.0 */
#include "ready_notify.h"

#include "lib/base/digits.h"
#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "rank_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RANDOM   16
#define PER_WAKE 16  /* messages */
#define MOST_FDS 253 /* in one message: the kernel's SCM_MAX_FD */

struct listener {
	struct hvd_ready_notify *notify;
	uint32_t id;
	bool ready;
	int fd;
	struct event *event;
	char name[sizeof("@hvd-") + 2 * RANDOM];
};

struct hvd_ready_notify {
	struct hvd_agent *agent;
	unsigned world;
	struct listener **v;
	size_t n;
	void (*sent)(uint32_t id, void *arg);
	void *arg;
};

bool hvd_notify_is_ready(const char *bytes, size_t n)
{
	static const char ready[] = "READY=1";
	const char *end = bytes + n, *next;

	if (memchr(bytes, '\0', n))
		return false;
	for (const char *line = bytes; line < end; line = next + 1) {
		next = memchr(line, '\n', (size_t)(end - line));
		next = next ? next : end;
		if ((size_t)(next - line) == sizeof(ready) - 1 && memcmp(line, ready, sizeof(ready) - 1) == 0)
			return true;
	}
	return false;
}

/* ---- messages ---- */

/* Close the descriptors of a message: sd_notify_barrier(3) waits for that. */
static void close_fds(const struct cmsghdr *c)
{
	const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		close(fd);
	}
}

static bool may_send(const struct listener *l, const struct ucred *sender)
{
	const struct hvd_rank_sum *owner = hvd_rank_scan_owner(l->notify->agent->scan, sender->pid);

	return (sender->uid == geteuid() || sender->uid == 0) &&
	       (!owner || hvd_world_rank_same(owner->id, (struct hvd_world_rank){l->notify->world, l->id}));
}

/* False: there is no message. *ready: this one says so, and counts. */
static bool read_message(const struct listener *l, bool *ready)
{
	char text[HVD_NOTIFY_MAX];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MOST_FDS * sizeof(int))];
	} control;
	struct iovec iov = {text, sizeof(text)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct ucred sender = {.pid = 0, .uid = (uid_t)-1};
	const ssize_t n = recvmsg(l->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EINTR;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			close_fds(c);
		else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
			 c->cmsg_len == CMSG_LEN(sizeof(sender)))
			memcpy(&sender, CMSG_DATA(c), sizeof(sender));
	*ready = !(msg.msg_flags & MSG_TRUNC) && hvd_notify_is_ready(text, (size_t)n) && may_send(l, &sender);
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;
	bool ready = false, any = l->ready;

	(void)fd;
	(void)what;
	for (int i = 0; i < PER_WAKE && read_message(l, &ready); i++)
		any = any || ready;
	if (any && !l->ready) {
		l->ready = true;
		l->notify->sent(l->id, l->notify->arg);
	}
}

/* ---- the sockets ---- */

static int bind_name(int fd, const char *name, struct hvd_err *err)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const size_t len = strlen(name);
	const int on = 1;

	memcpy(sun.sun_path + 1, name + 1, len - 1);
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
	    bind(fd, (struct sockaddr *)&sun, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) != 0)
		return hvd_err_sys(err, "cannot open the socket to which a rank sends READY=1");
	return 0;
}

static void free_listener(struct listener *l)
{
	hvd_event_unwatch(&l->event);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

const char *hvd_ready_notify_open(struct hvd_ready_notify *notify, uint32_t id, struct hvd_err *err)
{
	struct listener *l = hvd_xcalloc(1, sizeof(*l));
	unsigned char random[RANDOM];

	*l = (struct listener){.notify = notify, .id = id, .fd = -1, .name = "@hvd-"};
	if (hvd_random(random, sizeof(random), err) == 0) {
		hvd_hex(random, sizeof(random), l->name + strlen(l->name));
		l->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (l->fd < 0)
			hvd_err_sys(err, "cannot make a socket");
	}
	if (l->fd < 0 || bind_name(l->fd, l->name, err) != 0) {
		free_listener(l);
		return NULL;
	}
	l->event = hvd_event_watch(notify->agent->base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	notify->v = hvd_xrealloc(notify->v, notify->n + 1, sizeof(struct listener *));
	notify->v[notify->n++] = l;
	return l->name;
}

void hvd_ready_notify_close(struct hvd_ready_notify *notify, uint32_t id)
{
	for (size_t i = 0; i < notify->n; i++)
		if (notify->v[i]->id == id) {
			on_readable(notify->v[i]->fd, EV_READ, notify->v[i]);
			free_listener(notify->v[i]);
			notify->v[i] = notify->v[--notify->n];
			return;
		}
}

struct hvd_ready_notify *hvd_ready_notify_create(struct hvd_agent *agent, unsigned world,
						 void (*sent)(uint32_t id, void *arg), void *arg)
{
	struct hvd_ready_notify *notify = hvd_xcalloc(1, sizeof(*notify));

	*notify = (struct hvd_ready_notify){.agent = agent, .world = world, .sent = sent, .arg = arg};
	return notify;
}

void hvd_ready_notify_destroy(struct hvd_ready_notify *notify)
{
	if (!notify)
		return;
	for (size_t i = 0; i < notify->n; i++)
		free_listener(notify->v[i]);
	free(notify->v);
	free(notify);
}
