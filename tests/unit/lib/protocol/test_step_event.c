/* SPDX-License-Identifier: Apache-2.0 */
/* Notes between slurmstepd, its tasks and the node agent, with descriptors and without. */
#include "lib/protocol/step_event.h"
#include "tests/unit/unit.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

TEST(test_event)
{
	struct hvd_step_event event = {.kind = HVD_STEP_EXIT, .local_id = 3, .pid = 4, .status = 9, .at = 1LL << 60};
	struct hvd_step_event got;
	int ends[2], fds[2];

	assert_int_equal(hvd_step_events_pair(ends), 0);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), 0);
	assert_int_equal(hvd_step_event_send(ends[0], &event, NULL), 0);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), 1);
	assert_memory_equal(&got, &event, sizeof(event));
	assert_int_equal(fds[0], -1);
	assert_int_equal(fds[1], -1);
	close(ends[0]);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), -1);
	assert_int_equal(hvd_step_event_send(ends[1], &event, NULL), -1);
	close(ends[1]);
}

TEST(test_descriptors)
{
	struct hvd_step_event event = {.kind = HVD_STEP_TASK}, got;
	int ends[2], fds[2], pipe_ends[2], before = open_fds();
	char byte = 'x';

	assert_int_equal(hvd_step_events_pair(ends), 0);
	assert_int_equal(pipe(pipe_ends), 0);
	assert_int_equal(hvd_step_event_send(ends[0], &event, pipe_ends), 0);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), 1);
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(fds[1], &byte, 1), 1);
	assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(open_fds(), before);
}

/* Root's end gets nothing, above all no descriptor: dropping a socket that lingers would hold it up. */
TEST(test_one_way)
{
	struct hvd_step_event event = {.kind = HVD_STEP_TASK}, got;
	int ends[2], fds[2], null = open("/dev/null", O_RDONLY);

	assert_int_equal(hvd_step_events_pair(ends), 0);
	fds[0] = fds[1] = null;
	assert_int_equal(hvd_step_event_send(ends[1], &event, fds), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(send(ends[1], "x", 1, MSG_NOSIGNAL), -1);
	/* The other way is open as before. */
	assert_int_equal(hvd_step_event_send(ends[0], &event, NULL), 0);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), 1);
	close(null);
	close(ends[0]);
	close(ends[1]);
}

/* What is no event is passed over, and its descriptors are closed. */
TEST(test_strange)
{
	struct hvd_step_event event = {.kind = HVD_STEP_TASK, .local_id = 7}, got;
	char long_one[sizeof(event) + 1] = {0}, room[CMSG_SPACE(3 * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = &event, .iov_len = sizeof(event)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int))};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	int ends[2], fds[2], null = open("/dev/null", O_RDONLY), before;

	assert_int_equal(hvd_step_events_pair(ends), 0);
	before = open_fds();
	assert_int_equal(send(ends[0], "short", 5, 0), 5);
	assert_int_equal(send(ends[0], long_one, sizeof(long_one), 0), sizeof(long_one));
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &null, sizeof(null));
	assert_int_equal(sendmsg(ends[0], &msg, 0), sizeof(event));
	assert_int_equal(hvd_step_event_send(ends[0], &event, NULL), 0);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), 1);
	assert_int_equal(got.local_id, 7);
	assert_int_equal(fds[0], -1);
	assert_int_equal(hvd_step_event_take(ends[1], &got, fds), 0);
	assert_int_equal(open_fds(), before);
	close(null);
	close(ends[0]);
	close(ends[1]);
}

/* A reader that does not read holds up nobody. */
TEST(test_full)
{
	struct hvd_step_event event = {.kind = HVD_STEP_EXIT};
	int ends[2], n = 0;

	assert_int_equal(hvd_step_events_pair(ends), 0);
	while (n < 1000000 && hvd_step_event_send(ends[0], &event, NULL) == 0)
		n++;
	assert_int_equal(errno, EAGAIN);
	assert_true(n >= 128);
	close(ends[0]);
	close(ends[1]);
}

RUN_TESTS()
