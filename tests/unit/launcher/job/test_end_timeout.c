/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/job/end_timeout.h"

#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

struct heard {
	struct event_base *base;
	int times;
	bool certain;
	struct hvd_err why;
};

static int out; /* what the writer has written */

static void on_end_timeout(const struct hvd_err *why, bool certain, void *arg)
{
	struct heard *heard = arg;

	heard->times++;
	heard->why = *why;
	heard->certain = certain;
}

/* A process that writes a byte to `out` for each that it reads from *in, which is set. */
static pid_t start_writer(int *in)
{
	int ask[2], answer[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ask), 0);
	assert_int_equal(pipe(answer), 0);
	pid = fork();
	if (pid == 0) {
		close(ask[1]);
		while (read(ask[0], &c, 1) == 1 && write(answer[1], &c, 1) == 1)
			;
		_exit(0);
	}
	close(ask[0]);
	close(answer[1]);
	*in = ask[1];
	out = answer[0];
	return pid;
}

/* It has written when this returns. */
static void have_it_write(int in)
{
	char c = 'x';

	assert_int_equal(write(in, &c, 1), 1);
	assert_int_equal(read(out, &c, 1), 1);
}

static struct hvd_end_timeout *watch(struct heard *heard, pid_t pid, const struct hvd_strv *hosts)
{
	*heard = (struct heard){.base = event_base_new()};
	return hvd_end_timeout_watch(heard->base, "srun", pid, 3, hosts, on_end_timeout, heard);
}

static void end(struct heard *heard, struct hvd_end_timeout *et)
{
	hvd_end_timeout_destroy(et);
	event_base_free(heard->base);
}

static void a_process_that_does_nothing(void **state)
{
	struct hvd_strv hosts = {0};
	struct heard heard;
	struct hvd_end_timeout *et = watch(&heard, getpid(), &hosts);

	(void)state;
	test_clock_pass(heard.base, 2.9);
	assert_int_equal(heard.times, 0);
	test_clock_pass(heard.base, 0.2);
	assert_int_equal(heard.times, 1);
	assert_in(heard.why.msg, "all ranks ended 3 s ago, but srun is still running");
	assert_false(heard.certain);
	test_clock_pass(heard.base, 100);
	assert_int_equal(heard.times, 1);
	end(&heard, et);
}

static void a_process_that_cannot_learn_the_end(void **state)
{
	struct hvd_strv hosts = {0};
	struct heard heard;
	struct hvd_end_timeout *et;

	(void)state;
	hvd_strv_add(&hosts, "node1");
	hvd_strv_add(&hosts, "node7");
	et = watch(&heard, getpid(), &hosts);
	test_clock_pass(heard.base, 3.1);
	assert_int_equal(heard.times, 1);
	assert_true(heard.certain);
	assert_in(heard.why.msg, "srun cannot learn that those on node1, node7 did");
	end(&heard, et);
	hvd_strv_free(&hosts);
}

static void one_that_still_writes_gets_its_time(void **state)
{
	struct hvd_strv hosts = {0};
	struct heard heard;
	int in;
	pid_t pid = start_writer(&in);
	struct hvd_end_timeout *et = watch(&heard, pid, &hosts);

	(void)state;
	for (int i = 0; i < 10; i++) {
		have_it_write(in);
		test_clock_pass(heard.base, 2);
	}
	assert_int_equal(heard.times, 0);
	test_clock_pass(heard.base, 2);
	assert_int_equal(heard.times, 1);
	end(&heard, et);
	close(in);
	close(out);
	waitpid(pid, NULL, 0);
}

/* Standard output is a pipe that nobody reads at first. */
static void one_whose_output_is_not_read_gets_its_time(void **state)
{
	static char junk[65536];
	struct hvd_strv hosts = {0};
	struct heard heard;
	struct hvd_end_timeout *et;
	int fds[2], before = dup(STDOUT_FILENO), early, late;

	(void)state;
	fflush(stdout);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	while (write(fds[1], junk, sizeof(junk)) > 0)
		;
	et = watch(&heard, getpid(), &hosts);
	assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
	test_clock_pass(heard.base, 60);
	early = heard.times;
	while (read(fds[0], junk, sizeof(junk)) > 0)
		;
	test_clock_pass(heard.base, 3.1);
	late = heard.times;
	assert_true(dup2(before, STDOUT_FILENO) >= 0);
	assert_int_equal(early, 0);
	assert_int_equal(late, 1);
	end(&heard, et);
	close(before);
	close(fds[0]);
	close(fds[1]);
}

static void a_watch_that_is_destroyed_calls_nobody(void **state)
{
	struct heard heard = {.base = event_base_new()};
	struct hvd_strv hosts = {0};
	struct hvd_end_timeout *et =
		hvd_end_timeout_watch(heard.base, "srun", getpid(), 1, &hosts, on_end_timeout, &heard);

	(void)state;
	assert_int_equal(event_base_get_num_events(heard.base, EVENT_BASE_COUNT_ADDED), 1);
	hvd_end_timeout_destroy(et);
	assert_int_equal(event_base_get_num_events(heard.base, EVENT_BASE_COUNT_ADDED), 0);
	event_base_free(heard.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watch_that_is_destroyed_calls_nobody),
		cmocka_unit_test(a_process_that_does_nothing),
		cmocka_unit_test(a_process_that_cannot_learn_the_end),
		cmocka_unit_test(one_that_still_writes_gets_its_time),
		cmocka_unit_test(one_whose_output_is_not_read_gets_its_time),
	};

	return cmocka_run_group_tests_name("end_timeout", tests, NULL, NULL);
}
