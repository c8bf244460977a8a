/* SPDX-License-Identifier: Apache-2.0 */
#include "step_event.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for what the tasks of a large host send while nobody reads. */
#define ROOM (1024 * 1024)
/* How much that is no event is passed over in one call. */
#define MOST_STRANGE 64

int hvd_step_events_pair(int ends[2])
{
	int room = ROOM;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	shutdown(ends[0], SHUT_RD);
	/* More than the system's limit is root's right; less is no failure. */
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0)
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return 0;
}

int hvd_step_event_send(int fd, const struct hvd_step_event *event, const int fds[2])
{
	struct iovec iov = {.iov_base = (void *)event, .iov_len = sizeof(*event)};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fds) {
		struct cmsghdr *head;

		msg.msg_control = control.room;
		msg.msg_controllen = sizeof(control.room);
		head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(head), fds, 2 * sizeof(int));
	}
	do
		n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*event) ? 0 : -1;
}

static void take_fds(struct msghdr *msg, int fds[2])
{
	struct cmsghdr *head = CMSG_FIRSTHDR(msg);
	size_t n;

	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
		return;
	n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(head), (n < 2 ? n : 2) * sizeof(int));
}

void hvd_step_event_close(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	fds[0] = fds[1] = -1;
}

int hvd_step_event_take(int fd, struct hvd_step_event *event, int fds[2])
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	ssize_t n;

	/* A writer that never stops holds up nobody: the caller looks at its deadline between the calls. */
	for (int i = 0; i < MOST_STRANGE; i++) {
		struct iovec iov = {.iov_base = event, .iov_len = sizeof(*event)};
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = control.room,
				     .msg_controllen = sizeof(control.room)};

		fds[0] = fds[1] = -1;
		n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
		if (n == 0)
			return -1;
		take_fds(&msg, fds);
		if (n == (ssize_t)sizeof(*event) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
		    (fds[0] >= 0) == (fds[1] >= 0))
			return 1;
		hvd_step_event_close(fds);
	}
	return 0;
}
