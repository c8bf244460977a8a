/* SPDX-License-Identifier: Apache-2.0 */
/* Whether peers wait for a rank: what a look means; and two processes that exchange messages, one of which is slow. */
#include "agent/awaited.h"
#include "lib/base/deadline.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define EVERY   40000000 /* between two looks, in nanoseconds */
#define SECONDS 1000000000LL

TEST(test_a_look)
{
	static const struct {
		uint32_t sent, received;
		int awaited;
	} rows[] = {
		{300, 250, 1}, /* its peers have begun, and wait since */
		{250, 300, 0}, /* it has begun, and waits */
		{300, 296, 0}, /* all compute: the last that each has done in the last collective was to receive */
		{300, 280, 0},
		{300, 279, 1},
		{0, 0, 0},
		{59000, 3, 1},
		{61000, 59000, 1},
		{61000, 60500, -1}, /* nothing moves */
		{UINT32_MAX, UINT32_MAX, -1},
		{UINT32_MAX, 5, 1},
		{5, UINT32_MAX, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (hvd_awaited_judge(rows[i].sent, rows[i].received) != rows[i].awaited)
			fail_msg("sent %u ms ago, received %u ms ago", (unsigned)rows[i].sent,
				 (unsigned)rows[i].received);
}

TEST(test_the_share_is_that_of_the_last_minute)
{
	struct hvd_awaited_looks looks = {0};
	const hvd_time begin = 1000 * SECONDS;

	assert_int_equal(hvd_awaited_share(&looks, begin), -1);
	for (int i = 0; i < 4; i++)
		hvd_awaited_count(&looks, begin + i * SECONDS, true, i % 2);
	assert_int_equal(hvd_awaited_share(&looks, begin + 4 * SECONDS), -1); /* too few */
	hvd_awaited_count(&looks, begin + 4 * SECONDS, false, true);
	assert_int_equal(hvd_awaited_share(&looks, begin + 4 * SECONDS), 800);
	for (int i = 5; i < 30; i++)
		hvd_awaited_count(&looks, begin + i * SECONDS, false, true);
	assert_int_equal(hvd_awaited_share(&looks, begin + 30 * SECONDS), 1000 * 4 / 30);
	assert_int_equal(hvd_awaited_steps(&looks, begin + 30 * SECONDS), 2 + 26);
	for (int i = 30; i < 90; i++)
		hvd_awaited_count(&looks, begin + i * SECONDS, false, true);
	assert_int_equal(hvd_awaited_share(&looks, begin + 90 * SECONDS), 0);
	assert_int_equal(hvd_awaited_share(&looks, begin + 200 * SECONDS), -1);
	assert_int_equal(hvd_awaited_steps(&looks, begin + 200 * SECONDS), 0);
	hvd_awaited_count(&looks, begin + 900 * SECONDS, true, true);
	assert_int_equal(hvd_awaited_share(&looks, begin + 900 * SECONDS), -1);
}

/* ---- processes ---- */

static pid_t children[2];

static int end_children(void **state)
{
	for (int i = 0; i < 2; i++) {
		if (children[i] > 0) {
			kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
		}
		children[i] = 0;
	}
	return 0;
}

/* Two ends of a connection over loopback. */
static void connect_pair(int fds[2])
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(listener >= 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &len), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&in, sizeof(in)), 0);
	fds[1] = accept(listener, NULL, NULL);
	assert_true(fds[1] >= 0);
	close(listener);
}

/* Again and again: compute for so long, send, and wait for the other's message. */
static pid_t step(int fd, int other, int ms)
{
	pid_t pid = fork();
	char c = 0;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(other);
	do
		usleep((useconds_t)ms * 1000);
	while (write(fd, &c, 1) == 1 && read(fd, &c, 1) == 1);
	_exit(0);
}

struct world {
	struct event_base *base;
	struct hvd_awaited *awaited;
};

/* So many of the two processes are ranks; the launch looks at them. */
static void look(struct world *w, size_t n)
{
	struct hvd_rank_sum sums[2];
	struct hvd_process all[2];
	size_t owners[2];
	const struct hvd_processes processes = {.v = all, .n = n};
	const struct hvd_rank_look now = {.ranks = sums, .n = n, .processes = &processes, .owners = owners};

	for (size_t i = 0; i < n; i++) {
		sums[i] = (struct hvd_rank_sum){.id = {.rank = (uint32_t)(7 * i)}, .pid = children[i]};
		all[i] = (struct hvd_process){.pid = children[i], .state = 'S'};
		owners[i] = i;
	}
	hvd_awaited_ranks(w->awaited, &now);
}

static void run(struct world *w, double seconds)
{
	hvd_time end = hvd_deadline_in(seconds);

	while (hvd_left(end) > 0) {
		struct timeval tv = hvd_left_tv(end);

		event_base_loopexit(w->base, &tv);
		event_base_dispatch(w->base);
	}
}

static int64_t share(const struct world *w, pid_t rank)
{
	int64_t steps;

	return hvd_awaited_of(w->awaited, rank, &steps);
}

static void begin(struct world *w, int slow_ms, int fast_ms)
{
	int fds[2];

	connect_pair(fds);
	children[0] = step(fds[0], fds[1], slow_ms);
	children[1] = step(fds[1], fds[0], fast_ms);
	close(fds[0]);
	close(fds[1]);
	w->base = event_base_new();
	w->awaited = hvd_awaited_create(w->base, EVERY);
	assert_non_null(w->awaited);
}

static void end(struct world *w)
{
	hvd_awaited_destroy(w->awaited);
	event_base_free(w->base);
}

/* It has sent something every 0.4 s or more rarely, and is looked at ten times in that. */
static void test_steps(const struct world *w, double seconds)
{
	int64_t steps, none;

	hvd_awaited_of(w->awaited, children[0], &steps);
	assert_true(steps > 0 && (double)steps <= seconds / 0.4 + 1);
	hvd_awaited_of(w->awaited, getpid(), &none);
	assert_int_equal(none, 0);
}

TEST(test_the_slow_one_of_two_ranks_is_awaited)
{
	struct world w;

	begin(&w, 400, 60);
	for (int i = 0; i < 100; i++) {
		look(&w, 2);
		run(&w, 0.2);
		if (share(&w, children[0]) >= 600 && share(&w, children[1]) >= 0 && share(&w, children[1]) <= 300) {
			assert_int_equal(share(&w, getpid()), -1);
			test_steps(&w, (i + 1) * 0.2);
			end(&w);
			return;
		}
	}
	fail_msg("the slow rank was awaited at %lld, the other at %lld thousandths of the looks",
		 (long long)share(&w, children[0]), (long long)share(&w, children[1]));
}

/* As the launch's relay, or a program beside the ranks. */
TEST(test_a_connection_to_what_is_no_rank_does_not_count)
{
	struct world w;

	begin(&w, 100, 20);
	for (int i = 0; i < 5; i++) {
		look(&w, 1);
		run(&w, 0.2);
	}
	assert_int_equal(share(&w, children[0]), -1);
	end(&w);
}

TEST(test_a_rank_that_has_gone_is_not_known)
{
	struct world w;

	begin(&w, 50, 10);
	for (int i = 0; i < 100 && share(&w, children[1]) < 0; i++) {
		look(&w, 2);
		run(&w, 0.2);
	}
	assert_true(share(&w, children[1]) >= 0);
	look(&w, 1);
	assert_int_equal(share(&w, children[1]), -1);
	end(&w);
}

RUN_TESTS(.teardown = end_children)
