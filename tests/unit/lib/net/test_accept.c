/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting in turns: clients that wait in the queue of a real socket, and an event loop that is run turn by turn.
 */
#include "lib/net/accept.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#define MANY (3 * HVD_ACCEPT_TURN)

static struct event_base *base;
static struct hvd_acceptor *acceptor;
static struct sockaddr_in addr;
static int clients[MANY], n_clients, fds_before;

/* What the owner has seen, and does. */
static struct {
	int accepted, full, ticks;
	int first_fd;
	int pause_at, destroy_at; /* within the callback of that connection */
	int turn_at;
	int ready; /* so many may be taken; -1: all */
	int spare; /* a descriptor to be closed when there is none, or -1 */
} seen;

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
	assert_ptr_equal(arg, &seen);
	assert_int_equal(peer->ss_family, AF_INET);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	seen.accepted++;
	if (seen.accepted == seen.turn_at)
		hvd_acceptor_turn(acceptor);
	if (seen.accepted == seen.pause_at)
		hvd_acceptor_pause(acceptor);
	if (seen.accepted == seen.destroy_at) {
		hvd_acceptor_destroy(acceptor);
		acceptor = NULL;
	}
}

static bool on_full(void *arg)
{
	seen.full++;
	if (seen.spare < 0)
		return false;
	close(seen.spare);
	seen.spare = -1;
	return true;
}

static bool is_ready(void *arg)
{
	return seen.ready < 0 || seen.accepted < seen.ready;
}

static int open_queue(void **state)
{
	static const struct hvd_acceptor_ops ops = {on_accepted, on_full, is_ready};
	socklen_t len = sizeof(addr);
	int fd;

	fds_before = open_fds();
	memset(&seen, 0, sizeof(seen));
	seen.ready = seen.spare = -1;
	n_clients = 0;
	base = event_base_new();
	addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&addr, len) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
		return -1;
	acceptor = hvd_acceptor_create(base, fd, &ops, &seen, NULL);
	return acceptor ? 0 : -1;
}

static int close_queue(void **state)
{
	hvd_acceptor_destroy(acceptor);
	acceptor = NULL;
	event_base_free(base);
	while (n_clients > 0)
		close(clients[--n_clients]);
	return open_fds() == fds_before ? 0 : -1;
}

/* `n` more clients, connected. */
static void connect_clients(int n)
{
	for (int i = 0; i < n; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
		clients[n_clients++] = fd;
	}
}

static void turn(void)
{
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval now = {0};

	seen.ticks++;
	evtimer_add(*(struct event **)arg, &now);
}

TEST(others_have_their_turn)
{
	static const struct timeval now = {0};
	struct event *tick = NULL;

	tick = evtimer_new(base, on_tick, &tick);
	evtimer_add(tick, &now);
	connect_clients(MANY);
	for (int i = 1; i <= MANY / HVD_ACCEPT_TURN; i++) {
		turn();
		assert_int_equal(seen.accepted, i * HVD_ACCEPT_TURN);
		assert_int_equal(seen.ticks, i);
	}
	event_free(tick);
}

TEST(who_has_gone_is_no_error)
{
	struct linger reset = {.l_onoff = 1};

	connect_clients(3);
	setsockopt(clients[0], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(clients[0]);
	clients[0] = clients[--n_clients];
	turn();
	assert_in_range(seen.accepted, 2, 3);
	connect_clients(1);
	turn();
	assert_in_range(seen.accepted, 3, 4);
}

TEST(a_pause_within_the_callback)
{
	connect_clients(10);
	seen.pause_at = 4;
	turn();
	turn();
	assert_int_equal(seen.accepted, 4);
	hvd_acceptor_turn(acceptor); /* nothing while it pauses */
	assert_int_equal(seen.accepted, 4);
	hvd_acceptor_pause(acceptor); /* twice is fine, as is to resume */
	hvd_acceptor_resume(acceptor);
	hvd_acceptor_resume(acceptor);
	turn();
	assert_int_equal(seen.accepted, 10);
}

TEST(destroyed_within_the_callback)
{
	char byte;

	connect_clients(10);
	seen.destroy_at = 4;
	turn();
	turn();
	assert_int_equal(seen.accepted, 4);
	/* The others were turned away. */
	assert_int_equal(recv(clients[9], &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
}

TEST(destroyed_within_a_turn_within_a_turn)
{
	connect_clients(10);
	seen.turn_at = 2;
	seen.destroy_at = 4;
	turn();
	assert_int_equal(seen.accepted, 4);
}

TEST(those_that_may_not_be_taken_stay)
{
	connect_clients(10);
	seen.ready = 3;
	turn();
	turn();
	assert_int_equal(seen.accepted, 3);
	seen.ready = -1;
	turn();
	assert_int_equal(seen.accepted, 10);
}

/* Leave this process `spare` descriptors. Returns what the limit was. */
static struct rlimit use_up_descriptors(int spare)
{
	struct rlimit was, none;
	int highest = dup(0);

	close(highest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = (rlim_t)highest + (rlim_t)spare;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return was;
}

TEST(a_descriptor_is_made_free)
{
	struct rlimit was;

	connect_clients(2);
	seen.spare = dup(0);
	was = use_up_descriptors(0);
	turn();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(seen.full, 1);
	assert_int_equal(seen.accepted, 2);
}

TEST(without_descriptors_it_pauses)
{
	struct rlimit was;

	connect_clients(5);
	was = use_up_descriptors(0);
	for (int i = 0; i < 50; i++)
		turn();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(seen.accepted, 0);
	/* Not once for each turn: 50 take much less than a pause, and on a slow machine, some. */
	assert_in_range(seen.full, 1, 10);
	while (seen.accepted < 5)
		event_base_loop(base, EVLOOP_ONCE);
}

TEST(a_pause_of_the_owner_is_not_ended)
{
	struct rlimit was;

	connect_clients(5);
	was = use_up_descriptors(0);
	turn();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(seen.full, 1);
	hvd_acceptor_pause(acceptor);
	usleep(2 * HVD_ACCEPT_PAUSE_MS * 1000);
	turn();
	assert_int_equal(seen.accepted, 0);
	hvd_acceptor_resume(acceptor);
	turn();
	assert_int_equal(seen.accepted, 5);
}

RUN_TESTS(.setup = open_queue, .teardown = close_queue)
