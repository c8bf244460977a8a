/* SPDX-License-Identifier: Apache-2.0 */
/* How the shims of a host find their agent, of which the first is to be the one that starts it. */
#include "agent/agent_socket.h"

#include "tests/unit/unit.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define STRANGER 12345 /* a user */

/* A session that no other run of this test has. */
static const char *session(void)
{
	static char text[40];

	if (!text[0])
		snprintf(text, sizeof(text), "%032d", (int)getpid());
	return text;
}

static int connect_to(uint32_t node, int *listening, struct hvd_err *err)
{
	*err = (struct hvd_err){0};
	return hvd_agent_socket_connect(session(), node, hvd_deadline_in(5), listening, err);
}

/* Accept a connection, and check that `fd` is its other end. */
static void meets(int listening, int fd)
{
	int other = accept(listening, NULL, NULL);
	char c = 0;

	assert_true(other >= 0);
	assert_true(hvd_agent_socket_own(other));
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(read(other, &c, 1), 1);
	assert_int_equal(c, 'x');
	close(other);
}

TEST(the_first_is_told_so_and_the_others_find_it)
{
	int before = open_fds(), listening, none, first, second, elsewhere, other;
	struct hvd_err err;

	first = connect_to(1, &listening, &err);
	assert_true(first >= 0 && listening >= 0);
	second = connect_to(1, &none, &err);
	assert_true(second >= 0);
	assert_int_equal(none, -1);
	meets(listening, first);
	meets(listening, second);
	elsewhere = connect_to(2, &other, &err); /* another host, in the same network namespace */
	assert_true(elsewhere >= 0 && other >= 0);
	close(first);
	close(second);
	close(listening);
	close(elsewhere);
	close(other);
	/* When it has ended the next one is the first. */
	first = connect_to(1, &listening, &err);
	assert_true(first >= 0 && listening >= 0);
	close(first);
	close(listening);
	assert_int_equal(open_fds(), before);
}

/* Everybody on a host sees the names that are bound. */
TEST(a_name_tells_neither_the_session_nor_another_name)
{
	struct sockaddr_un names[4];
	const char *prefix = "hvd-agent.";

	hvd_agent_socket_name(session(), 0, 0, &names[0]);
	hvd_agent_socket_name(session(), 0, 1, &names[1]);
	hvd_agent_socket_name(session(), 1, 0, &names[2]);
	hvd_agent_socket_name("0123456789abcdef0123456789abcdef", 0, 0, &names[3]);
	for (size_t i = 0; i < 4; i++) {
		assert_memory_equal(names[i].sun_path + 1, prefix, strlen(prefix));
		assert_null(strstr(names[i].sun_path + 1, session()));
		for (size_t j = 0; j < i; j++) {
			size_t same = 0;

			for (const char *a = names[i].sun_path + 1 + strlen(prefix),
					*b = names[j].sun_path + 1 + strlen(prefix);
			     *a; a++, b++)
				same += *a == *b;
			assert_true(same < 32); /* of 64 digits 4 by chance */
		}
	}
}

/* A process of another user, or of this one, takes names, and listens there or not, until it is killed. */
static pid_t taken(uint32_t node, int names, uid_t user, bool listens)
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ready[0]);
		if (setuid(user) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
			_exit(1);
		for (int i = 0; i < names; i++) {
			struct sockaddr_un at;
			socklen_t len = hvd_agent_socket_name(session(), node, i, &at);
			int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

			if (bind(fd, (struct sockaddr *)&at, len) != 0 || (listens && listen(fd, 1) != 0))
				_exit(1);
		}
		close(ready[1]);
		for (;;)
			pause();
	}
	await_child(ready);
	return pid;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
}

TEST(names_that_another_user_has_are_passed_over)
{
	int before = open_fds(), listening, none, first, second;
	struct hvd_err err;
	pid_t squatter;

	if (geteuid() != 0)
		skip_because("only root can be another user");
	squatter = taken(3, 2, STRANGER, true);
	first = connect_to(3, &listening, &err);
	assert_true(first >= 0 && listening >= 0);
	second = connect_to(3, &none, &err);
	assert_true(second >= 0);
	assert_int_equal(none, -1);
	meets(listening, first);
	meets(listening, second);
	close(first);
	close(second);
	close(listening);
	end(squatter);
	/* All of them. */
	squatter = taken(3, 16, STRANGER, true);
	assert_int_equal(connect_to(3, &listening, &err), -1);
	assert_int_equal(listening, -1);
	assert_in(err.msg, "its socket belongs to another user");
	assert_in(err.hint, "ss -xlp");
	end(squatter);
	assert_int_equal(open_fds(), before);
}

TEST(a_name_at_which_nobody_listens_is_given_up)
{
	pid_t squatter = taken(4, 1, geteuid(), false);
	int before = open_fds(), listening, first;
	struct hvd_err err;

	first = connect_to(4, &listening, &err);
	assert_true(first >= 0 && listening >= 0);
	meets(listening, first);
	close(first);
	close(listening);
	end(squatter);
	assert_int_equal(open_fds(), before);
}

RUN_TESTS()
