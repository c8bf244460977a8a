/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of other processes are broken. Each test acts as hvd-agent does, with processes that have TCP
 * connections: a child, the child of a child, and a process whose parent has ended.
 */
#include "agent/kill_connections.h"
#include "lib/process/spawn.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* The two ends of a connection: a child gets `accepted`, `other` stays in this process. */
struct link {
	int listener, accepted, other;
	struct hvd_addr addr; /* of `accepted` */
	in_port_t port;
};

static void make_link(struct link *l, int family)
{
	struct hvd_addr addr;
	struct sockaddr_storage ss;
	socklen_t len;

	hvd_addr_parse(family == AF_INET ? "127.0.0.1" : "::1", &addr);
	len = hvd_addr_to_sockaddr(&addr, 0, &ss);
	l->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(l->listener, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(listen(l->listener, 1), 0);
	len = sizeof(ss);
	assert_int_equal(getsockname(l->listener, (struct sockaddr *)&ss, &len), 0);
	hvd_addr_from_sockaddr((struct sockaddr *)&ss, &l->addr, &l->port);
	l->other = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(l->other, (struct sockaddr *)&ss, len), 0);
	l->accepted = accept(l->listener, NULL, NULL);
	assert_true(l->accepted >= 0);
}

static void close_link(const struct link *l)
{
	close(l->listener);
	close(l->accepted);
	close(l->other);
}

/* Does the end in this process see that the connection is broken? It does so at once or never. */
static bool is_broken(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN | POLLRDHUP};

	return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void becomes_broken(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLRDHUP};

	assert_int_equal(poll(&pfd, 1, 10000), 1);
}

enum {
	CHILD,
	GRANDCHILD, /* started by a thread of its parent that is not the main thread */
	ORPHAN,
	HOLDERS,
};

static void *fork_holder(void *arg)
{
	if (fork() == 0)
		for (;;)
			pause();
	return arg;
}

/* Start a process that has all descriptors which are open now, or a process below which such a one is. Returns the
 * child; 0 for an orphan. */
static pid_t hold(int how)
{
	int ready[2];
	pthread_t thread;
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (how == GRANDCHILD) {
			/* Only the process below keeps the descriptors. */
			if (pthread_create(&thread, NULL, fork_holder, NULL) != 0)
				_exit(1);
			pthread_join(thread, NULL);
		} else if (how == ORPHAN && fork() != 0) {
			_exit(0);
		}
		if (how == GRANDCHILD)
			for (int fd = 3; fd < 256; fd++)
				if (fd != ready[1])
					close(fd);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	if (how == ORPHAN)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	return how == ORPHAN ? 0 : pid;
}

static bool may_take_over(void)
{
	pid_t pid = hold(CHILD);
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd = (int)syscall(SYS_pidfd_getfd, pidfd, 2, 0);

	close(pidfd);
	if (fd >= 0)
		close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd >= 0;
}

static void the_right_ones_are_broken(int how, int family)
{
	struct link meant, foreign;
	struct hvd_portset at = {0};
	struct hvd_err err = {0};
	int fds;
	pid_t pid;

	if (!may_take_over())
		skip_because("descriptors of children cannot be had here");
	make_link(&meant, family);
	make_link(&foreign, family);
	pid = hold(how);
	close(meant.accepted); /* only the other process has it now */
	close(foreign.accepted);
	meant.accepted = foreign.accepted = -1;
	hvd_portset_add(&at, &meant.addr, meant.port);
	fds = open_fds();
	assert_false(is_broken(meant.other));
	assert_true(hvd_kill_connections(&at, hvd_deadline_in(30), &err) >= 1);
	assert_int_equal(err.code, HVD_OK);
	becomes_broken(meant.other);
	assert_false(is_broken(foreign.other));
	assert_int_equal(open_fds(), fds);
	hvd_portset_clear(&at);
	close_link(&meant);
	close_link(&foreign);
	if (pid)
		kill(pid, SIGKILL);
}

TEST(a_childs)
{
	the_right_ones_are_broken(CHILD, AF_INET);
}

TEST(a_childs_over_ipv6)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool here = fd >= 0 && bind(fd, (struct sockaddr *)&in6, sizeof(in6)) == 0;

	close(fd);
	if (!here)
		skip_because("there is no IPv6 here");
	the_right_ones_are_broken(CHILD, AF_INET6);
}

TEST(a_grandchilds)
{
	the_right_ones_are_broken(GRANDCHILD, AF_INET);
}

TEST(an_adopted_ones)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	the_right_ones_are_broken(ORPHAN, AF_INET);
}

TEST(the_other_end_and_listeners_stay)
{
	struct link mine, theirs;
	struct hvd_portset at = {0};
	struct hvd_err err = {0};
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int again;

	if (!may_take_over())
		skip_because("descriptors of children cannot be had here");
	make_link(&mine, AF_INET);
	make_link(&theirs, AF_INET);
	hold(CHILD);
	/* The child has the listeners at both addresses and the connecting ends; it shares the accepted ends. */
	hvd_portset_add(&at, &theirs.addr, theirs.port + 1);
	assert_int_equal(hvd_kill_connections(&at, hvd_deadline_in(30), &err), 0);
	assert_int_equal(err.code, HVD_OK);
	assert_false(is_broken(mine.other));
	assert_false(is_broken(theirs.other));
	close(mine.accepted);
	mine.accepted = -1;
	/* A listening socket at a port of the set is left alone. */
	hvd_portset_add(&at, &theirs.addr, theirs.port);
	hvd_kill_connections(&at, hvd_deadline_in(30), &err);
	assert_int_equal(getsockname(theirs.listener, (struct sockaddr *)&ss, &len), 0);
	again = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(again, (struct sockaddr *)&ss, len), 0);
	assert_false(is_broken(again));
	assert_false(is_broken(mine.other));
	close(again);
	hvd_portset_clear(&at);
	close_link(&mine);
	close_link(&theirs);
}

/* A process into which this one may not look, as into one that has changed its user. */
TEST(says_which_it_may_not_look_into)
{
	struct hvd_portset at = {0};
	struct hvd_err err = {0};
	struct link link;
	int ready[2], status;
	pid_t pid;
	char c;

	make_link(&link, AF_INET);
	hvd_portset_add(&at, &link.addr, link.port);
	assert_int_equal(pipe(ready), 0);
	pid = fork(); /* acts as hvd-agent, without root's rights */
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
			_exit(9);
		prctl(PR_SET_DUMPABLE, 1);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			prctl(PR_SET_DUMPABLE, 0);
			if (write(ready[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		if (read(ready[0], &c, 1) != 1)
			_exit(8);
		status = hvd_kill_connections(&at, hvd_deadline_in(30), &err) == 0 && err.code == HVD_E_SYS &&
			 strstr(err.msg, "ptrace") && strstr(err.msg, "kernel.yama.ptrace_scope");
		_exit(status ? 0 : 7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(is_broken(link.other));
	close(ready[0]);
	close(ready[1]);
	hvd_portset_clear(&at);
	close_link(&link);
}

/* A process that has ended belongs to root in /proc, but has no connections either. */
TEST(says_nothing_of_one_that_has_ended)
{
	struct hvd_portset at = {0};
	struct hvd_err err = {0};
	siginfo_t info;
	int status;
	pid_t pid;

	pid = fork(); /* acts as hvd-agent, without root's rights */
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
			_exit(9);
		prctl(PR_SET_DUMPABLE, 1);
		if (fork() == 0)
			_exit(0);
		if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0)
			_exit(8);
		_exit(hvd_kill_connections(&at, hvd_deadline_in(30), &err) == 0 && err.code == HVD_OK ? 0 : 7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	hvd_portset_clear(&at);
}

TEST(messages_are_answered)
{
	json_t *bad = json_pack("{s:s, s:{s:[i]}}", "t", "kill-connections", "at", "elsewhere", 1);
	json_t *none = json_pack("{s:s, s:{s:[i]}}", "t", "kill-connections", "at", "192.0.2.1", 1);
	json_t *answer = hvd_kill_connections_answer(bad);

	assert_string_equal(json_string_value(json_object_get(answer, "t")), "kill-connections");
	assert_in(json_string_value(json_object_get(answer, "why")), "\"elsewhere\" is not an address");
	json_decref(answer);
	json_decref(bad);
	answer = hvd_kill_connections_answer(none);
	assert_int_equal(json_integer_value(json_object_get(answer, "n")), 0);
	assert_string_equal(json_string_value(json_object_get(answer, "why")), "");
	json_decref(answer);
	json_decref(none);
}

static int end_children(void **state)
{
	pid_t pid;

	hvd_kill_adopted();
	pid = waitpid(-1, NULL, WNOHANG);
	return pid == -1 && errno == ECHILD ? 0 : -1;
}

int main(void)
{
	alarm(120); /* whatever happens */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return run_unit_tests((struct test_hooks){.teardown = end_children});
}
