/* SPDX-License-Identifier: Apache-2.0 */
#include "shims.h"

#include "agent_socket.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Notes of one shim, and connections, in a turn of the event loop. */
#define TURN 64

struct shim {
	struct hvd_shims *owner;
	struct shim *next;
	struct event *readable;
	uint32_t local_id;
	pid_t pid;
	bool asked, answered;
};

struct hvd_shims {
	struct event_base *base;
	const struct hvd_shims_ops *ops;
	void *arg;
	struct event *accepts; /* NULL: nobody connects */
	struct shim *all;
	uint32_t expected, connected, n;
	json_t *plans;    /* by local rank; NULL: a process that asks for all finds them in the memory that it shares */
	int key_fd, last; /* last: a connection; -1 = none */
	enum hvd_step_event_kind answer; /* PLAN or REFUSED; 0 = not known yet */
	int status;                      /* of REFUSED, also of a shim to which its plan cannot be sent */
};

static int send_event(const struct shim *s, enum hvd_step_event_kind kind, int value, const int fds[2])
{
	struct hvd_step_event event = {.kind = kind, .local_id = s->local_id, .status = value};

	return hvd_step_event_send(event_get_fd(s->readable), &event, fds);
}

/* The connection of the last one stays open. */
static void keep(struct hvd_shims *shims, int fd)
{
	if (shims->last >= 0)
		close(shims->last);
	shims->last = fd;
}

static void drop(struct shim *s)
{
	struct hvd_shims *shims = s->owner;
	struct shim **at = &shims->all;
	uint32_t local_id = s->local_id;
	bool asked = s->asked, last;
	int fd;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	shims->n--;
	last = shims->n == 0 && shims->connected >= shims->expected;
	fd = event_get_fd(s->readable);
	event_free(s->readable);
	free(s);
	if (last)
		keep(shims, fd);
	else
		close(fd);
	if (asked)
		shims->ops->left(local_id, shims->arg);
	if (last)
		shims->ops->none_left(shims->arg);
}

/* ---- the plan ---- */

/* In one write: json_dumpfd() makes one for each word and each sign between words. */
static int to_memory(const json_t *plan)
{
	hvd_cleanup_close int fd = memfd_create("plan", MFD_CLOEXEC);
	hvd_cleanup_free char *text = plan ? json_dumps(plan, JSON_COMPACT) : hvd_xstrdup("{}");

	if (fd < 0 || !text || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return -1;
	return hvd_take_fd(&fd);
}

static int send_plan(const struct shim *s)
{
	const struct hvd_shims *shims = s->owner;
	hvd_cleanup_close int fd = shims->plans ? to_memory(json_array_get(shims->plans, s->local_id)) : -1;

	if (!shims->plans)
		return send_event(s, HVD_STEP_PLAN, 0, NULL);
	return fd < 0 ? -1 : send_event(s, HVD_STEP_PLAN, 0, (int[2]){fd, shims->key_fd ? shims->key_fd : fd});
}

static void answer(struct shim *s)
{
	const struct hvd_shims *shims = s->owner;

	if (!s->asked || s->answered || !shims->answer)
		return;
	s->answered = true;
	if (shims->answer != HVD_STEP_PLAN || send_plan(s) != 0)
		send_event(s, HVD_STEP_REFUSED, shims->status, NULL);
}

static void answer_all(struct hvd_shims *shims)
{
	for (struct shim *s = shims->all; s; s = s->next)
		answer(s);
}

void hvd_shims_answer(struct hvd_shims *shims, const json_t *plans, int key_fd)
{
	json_decref(shims->plans);
	shims->plans = json_incref((json_t *)plans);
	shims->answer = HVD_STEP_PLAN;
	shims->key_fd = key_fd;
	answer_all(shims);
}

void hvd_shims_refuse(struct hvd_shims *shims, int status)
{
	shims->answer = HVD_STEP_REFUSED;
	shims->status = status;
	answer_all(shims);
}

/* ---- connections ---- */

static void take(struct shim *s, const struct hvd_step_event *event, int fds[2])
{
	struct hvd_step_event own = *event;

	if (event->kind == HVD_STEP_ASK && !s->asked) {
		s->asked = true;
		s->local_id = event->local_id;
		hvd_step_event_close(fds);
		answer(s);
	} else if (s->asked) {
		own.local_id = s->local_id;
		s->owner->ops->event(&own, fds, s->owner->arg);
	} else {
		hvd_step_event_close(fds);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct shim *s = arg;
	struct hvd_step_event event;
	int fds[2], rc = 1;

	(void)what;
	for (int i = 0; rc > 0 && i < TURN; i++) {
		rc = hvd_step_event_take(fd, &event, fds);
		if (rc > 0)
			take(s, &event, fds);
	}
	if (rc < 0)
		drop(s);
}

void hvd_shims_add(struct hvd_shims *shims, int fd)
{
	struct shim *s = hvd_xcalloc(1, sizeof(*s));
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	*s = (struct shim){.owner = shims, .next = shims->all, .pid = peer.pid};
	s->readable = hvd_event_watch(shims->base, fd, EV_READ | EV_PERSIST, on_readable, s);
	shims->all = s;
	shims->connected++;
	shims->n++;
}

static void on_accept(evutil_socket_t listening, short what, void *arg)
{
	struct hvd_shims *shims = arg;

	(void)what;
	for (int i = 0; i < TURN; i++) {
		int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (hvd_agent_socket_own(fd))
			hvd_shims_add(shims, fd);
		else
			close(fd);
	}
}

void hvd_shims_expect_none(struct hvd_shims *shims)
{
	shims->expected = 0;
	if (shims->n == 0)
		shims->ops->none_left(shims->arg);
}

void hvd_shims_seen(struct hvd_shims *shims, uint32_t local_id)
{
	for (const struct shim *s = shims->all; s; s = s->next)
		if (s->local_id == local_id && s->asked)
			send_event(s, HVD_STEP_SEEN, 0, NULL);
}

void hvd_shims_tell(struct hvd_shims *shims, enum hvd_step_event_kind kind, int value)
{
	for (const struct shim *s = shims->all; s; s = s->next)
		send_event(s, kind, value, NULL);
}

uint32_t hvd_shims_connected(const struct hvd_shims *shims)
{
	return shims->n;
}

pid_t hvd_shims_first(const struct hvd_shims *shims)
{
	return shims->all ? shims->all->pid : 0;
}

/* ---- begin and end ---- */

struct hvd_shims *hvd_shims_create(struct event_base *base, uint32_t expected, int listening,
				   const struct hvd_shims_ops *ops, void *arg)
{
	struct hvd_shims *shims = hvd_xcalloc(1, sizeof(*shims));

	*shims =
		(struct hvd_shims){.base = base, .expected = expected, .ops = ops, .arg = arg, .last = -1, .status = 1};
	if (listening < 0)
		return shims;
	evutil_make_socket_nonblocking(listening);
	shims->accepts = hvd_event_watch(base, listening, EV_READ | EV_PERSIST, on_accept, shims);
	return shims;
}

void hvd_shims_leave_last(struct hvd_shims *shims)
{
	shims->last = -1;
}

void hvd_shims_destroy(struct hvd_shims *shims)
{
	if (!shims)
		return;
	keep(shims, -1);
	while (shims->all) {
		struct shim *s = shims->all;

		shims->all = s->next;
		close(event_get_fd(s->readable));
		event_free(s->readable);
		free(s);
	}
	if (shims->accepts) {
		close(event_get_fd(shims->accepts));
		event_free(shims->accepts);
	}
	json_decref(shims->plans);
	free(shims);
}
