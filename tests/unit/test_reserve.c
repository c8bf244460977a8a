/* SPDX-License-Identifier: Apache-2.0 */
/* Reserved ports: nobody gets them by chance, and a server that names one can listen there again and again. */
#include "lib/net/listen.h"
#include "lib/net/reserve.h"

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket that is bound to the port of an address; -1 with errno set. */
static int bound_at(in_addr_t addr, in_port_t port, int reuse)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(addr)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), saved;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static int bound(in_port_t port, int reuse)
{
	return bound_at(INADDR_ANY, port, reuse);
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

static void the_ports_differ(void **state)
{
	struct hvd_reserve r;

	(void)state;
	assert_int_equal(hvd_reserve(&r, 3, 0, 0, NULL), 0);
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

static void only_who_names_it_gets_it(void **state)
{
	struct hvd_reserve r;
	int fd;

	(void)state;
	assert_int_equal(hvd_reserve(&r, 1, 0, 0, NULL), 0);
	assert_int_equal(bound(r.ports[0], 0), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(try_connect(r.ports[0]), -1);
	/* The second server comes while the first one's connections are in TIME_WAIT. */
	for (int round = 0; round < 3; round++) {
		int client, peer;

		fd = bound(r.ports[0], 1);
		assert_true(fd >= 0);
		assert_int_equal(listen(fd, 8), 0);
		client = try_connect(r.ports[0]);
		assert_true(client >= 0);
		peer = accept(fd, NULL, NULL);
		assert_true(peer >= 0);
		close(peer);
		close(client);
		close(fd);
	}
	hvd_reserve_clear(&r);
}

/* Two launches that search the same range neither reserve one port twice, nor listen at a reserved one. */
static void a_range_of_ports(void **state)
{
	struct hvd_reserve one, two, three;
	struct hvd_err err = {0};
	in_port_t lo = 0, port;
	int fd;

	(void)state;
	/* A range of three free ports. */
	for (in_port_t try = 20011; lo == 0; try += 7) {
		assert_true(try < 60000);
		if (hvd_reserve(&one, 3, try, (in_port_t)(try + 2), NULL) == 0)
			lo = try;
	}
	hvd_reserve_clear(&one);
	assert_int_equal(hvd_reserve(&one, 1, lo, (in_port_t)(lo + 2), NULL), 0);
	assert_int_equal(hvd_reserve(&two, 1, lo, (in_port_t)(lo + 2), NULL), 0);
	assert_in_range(one.ports[0], lo, lo + 2);
	assert_in_range(two.ports[0], lo, lo + 2);
	assert_int_not_equal(one.ports[0], two.ports[0]);
	fd = hvd_listen_any(true, lo, (in_port_t)(lo + 2), &port, NULL);
	assert_true(fd >= 0);
	assert_int_equal(port, 3 * lo + 3 - one.ports[0] - two.ports[0]);
	assert_int_equal(hvd_reserve(&three, 1, lo, (in_port_t)(lo + 2), &err), -1);
	assert_int_equal(err.code, HVD_E_NET);
	assert_int_equal(three.n, 0);
	close(fd);
	hvd_reserve_clear(&one);
	hvd_reserve_clear(&two);
}

/* Connections of one who listened in a range do not keep the port from others after its end. */
static void a_port_that_was_listened_at(void **state)
{
	in_port_t port, again;
	int fd, client, peer;

	(void)state;
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
	fd = bound_at(INADDR_LOOPBACK, port, 1);
	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 8), 0);
	close(fd);
	fd = hvd_listen_any(true, port, port, &again, NULL);
	assert_true(fd >= 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ports_differ),
		cmocka_unit_test(only_who_names_it_gets_it),
		cmocka_unit_test(a_range_of_ports),
		cmocka_unit_test(a_port_that_was_listened_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
