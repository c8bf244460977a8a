/* SPDX-License-Identifier: Apache-2.0 */
/* Reserved ports: nobody gets them by chance, no other user where the server sets SO_REUSEPORT, and a server that names
 * one can listen there again and again. */
#include "lib/net/listen.h"
#include "lib/net/reserve.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* How a server shares its port. */
enum sharing {
	NOT = 0,
	ADDR = 1,
	PORT = 2,
};

/* A socket that is bound to the port of an address; -1 with errno set. */
static int bound_at(in_addr_t addr, in_port_t port, int sharing)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(addr)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), saved, on = 1;

	assert_true(fd >= 0);
	if (sharing & ADDR)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (sharing & PORT)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static int bound(in_port_t port, int sharing)
{
	return bound_at(INADDR_ANY, port, sharing);
}

static int try_connect(in_port_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

TEST(the_ports_differ)
{
	struct hvd_reserve r = {0};

	assert_int_equal(hvd_reserve(&r, 1, HVD_RESERVE_REUSEADDR, 0, 0, NULL), 0);
	assert_int_equal(hvd_reserve(&r, 2, HVD_RESERVE_REUSEPORT, 0, 0, NULL), 0);
	assert_int_equal(r.n, 3);
	for (size_t i = 0; i < r.n; i++) {
		assert_true(r.ports[i] > 0);
		assert_true(fcntl(r.fds[i], F_GETFD) & FD_CLOEXEC);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(r.ports[i], r.ports[k]);
	}
	hvd_reserve_clear(&r);
	assert_int_equal(r.n, 0);
	hvd_reserve_clear(&r);
}

static void refused(in_port_t port, int sharing)
{
	assert_int_equal(bound(port, sharing), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(bound_at(INADDR_LOOPBACK, port, sharing), -1);
	assert_int_equal(errno, EADDRINUSE);
}

/* A server that listens at the port, again and again: each comes while the last one's connections are in TIME_WAIT. */
static void served(in_port_t port, int sharing)
{
	for (int round = 0; round < 3; round++) {
		int fd = bound(port, sharing), client, peer;

		assert_true(fd >= 0);
		assert_int_equal(listen(fd, 8), 0);
		client = try_connect(port);
		assert_true(client >= 0);
		peer = accept(fd, NULL, NULL);
		assert_true(peer >= 0);
		close(peer);
		close(client);
		close(fd);
	}
}

TEST(only_who_names_it_gets_it)
{
	struct hvd_reserve r = {0};

	assert_int_equal(hvd_reserve(&r, 1, HVD_RESERVE_REUSEADDR, 0, 0, NULL), 0);
	refused(r.ports[0], NOT);
	refused(r.ports[0], PORT);
	assert_int_equal(try_connect(r.ports[0]), -1);
	served(r.ports[0], ADDR);
	hvd_reserve_clear(&r);

	assert_int_equal(hvd_reserve(&r, 1, HVD_RESERVE_REUSEPORT, 0, 0, NULL), 0);
	refused(r.ports[0], NOT);
	refused(r.ports[0], ADDR);
	assert_int_equal(try_connect(r.ports[0]), -1);
	served(r.ports[0], PORT);
	served(r.ports[0], PORT | ADDR); /* as gRPC does */
	hvd_reserve_clear(&r);

	for (int sharing = ADDR; sharing <= (ADDR | PORT); sharing++) {
		assert_int_equal(hvd_reserve(&r, 1, HVD_RESERVE_EITHER, 0, 0, NULL), 0);
		refused(r.ports[0], NOT);
		assert_int_equal(try_connect(r.ports[0]), -1);
		served(r.ports[0], sharing);
		served(r.ports[0], ADDR | PORT);
		hvd_reserve_clear(&r);
	}
}

/* What a process of another user is told when it binds the port in this way. */
static int error_of_another_user(in_port_t port, int sharing)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(setuid(12345) != 0 ? 255 : bound(port, sharing) >= 0 ? 0 : errno);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(another_user_does_not_get_it)
{
	struct hvd_reserve r = {0};
	int fd;

	if (geteuid() != 0)
		skip();
	assert_int_equal(hvd_reserve(&r, 1, HVD_RESERVE_REUSEPORT, 0, 0, NULL), 0);
	/* While nobody listens, and while the server does. */
	for (int listens = 0; listens < 2; listens++) {
		for (int sharing = NOT; sharing <= (ADDR | PORT); sharing++)
			assert_int_equal(error_of_another_user(r.ports[0], sharing), EADDRINUSE);
		if (listens)
			break;
		fd = bound(r.ports[0], PORT | ADDR);
		assert_true(fd >= 0);
		assert_int_equal(listen(fd, 8), 0);
	}
	close(fd);
	hvd_reserve_clear(&r);
	assert_int_equal(error_of_another_user(1, NOT), EACCES); /* it is another user */
}

/* Two launches that search the same range neither reserve one port twice, nor listen at a reserved one. */
TEST(a_range_of_ports)
{
	struct hvd_reserve one = {0}, two = {0};
	struct hvd_err err = {0};
	in_port_t lo = 0, port;
	int fd;

	/* A range of three free ports. */
	for (in_port_t try = 20011; lo == 0; try += 7) {
		assert_true(try < 60000);
		if (hvd_reserve(&one, 3, HVD_RESERVE_REUSEPORT, try, (in_port_t)(try + 2), NULL) == 0)
			lo = try;
	}
	hvd_reserve_clear(&one);
	assert_int_equal(hvd_reserve(&one, 1, HVD_RESERVE_REUSEPORT, lo, (in_port_t)(lo + 2), NULL), 0);
	assert_int_equal(hvd_reserve(&two, 1, HVD_RESERVE_REUSEADDR, lo, (in_port_t)(lo + 2), NULL), 0);
	assert_in_range(one.ports[0], lo, lo + 2);
	assert_in_range(two.ports[0], lo, lo + 2);
	assert_int_not_equal(one.ports[0], two.ports[0]);
	fd = hvd_listen_any(true, lo, (in_port_t)(lo + 2), &port, NULL);
	assert_true(fd >= 0);
	assert_int_equal(port, 3 * lo + 3 - one.ports[0] - two.ports[0]);
	assert_fails_with(hvd_reserve(&two, 1, HVD_RESERVE_REUSEPORT, lo, (in_port_t)(lo + 2), &err), err, HVD_E_NET,
			  "");
	close(fd);
	/* What there was is kept when there is not enough for more. */
	assert_int_equal(hvd_reserve(&two, 2, HVD_RESERVE_REUSEPORT, lo, (in_port_t)(lo + 2), NULL), -1);
	assert_int_equal(two.n, 1);
	refused(two.ports[0], NOT);
	fd = bound((in_port_t)(3 * lo + 3 - one.ports[0] - two.ports[0]), NOT);
	assert_true(fd >= 0);
	close(fd);
	hvd_reserve_clear(&one);
	hvd_reserve_clear(&two);
}

/* Connections of one who listened in a range do not keep the port from others after its end. */
TEST(a_port_that_was_listened_at)
{
	in_port_t port, again;
	int fd, client, peer;

	fd = hvd_listen_any(true, 0, 0, &port, NULL);
	assert_true(fd >= 0);
	close(fd);
	fd = hvd_listen_any(true, port, port, &again, NULL);
	assert_true(fd >= 0);
	client = try_connect(port);
	assert_true(client >= 0);
	while ((peer = accept(fd, NULL, NULL)) < 0)
		assert_int_equal(errno, EAGAIN);
	close(fd);
	close(peer); /* this end is in TIME_WAIT */
	close(client);
	/* Connections of other programs, from other addresses of this host, may have had the port. */
	fd = bound_at(INADDR_LOOPBACK, port, ADDR);
	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 8), 0);
	close(fd);
	fd = hvd_listen_any(true, port, port, &again, NULL);
	assert_true(fd >= 0);
	close(fd);
}

RUN_TESTS()
