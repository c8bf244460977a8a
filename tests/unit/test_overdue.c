/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/run/overdue.h"

#include "lib/base/deadline.h"

#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

struct heard {
	struct event_base *base;
	int times;
	bool certain;
	struct hvd_err why;
};

static void on_overdue(const struct hvd_err *why, bool certain, void *arg)
{
	struct heard *heard = arg;

	heard->times++;
	heard->why = *why;
	heard->certain = certain;
	event_base_loopbreak(heard->base);
}

/* A process that writes a byte a tenth of a second `busy` times, and then nothing. */
static pid_t start_writer(int busy)
{
	pid_t pid = fork();
	int fd;

	if (pid != 0)
		return pid;
	fd = open("/dev/null", O_WRONLY);
	for (int i = 0; i < busy && write(fd, "x", 1) == 1; i++)
		usleep(100000);
	pause();
	_exit(0);
}

static double seconds_until_overdue(struct heard *heard, pid_t pid, const struct hvd_strv *hosts)
{
	hvd_time began = hvd_now();
	struct hvd_overdue *od;
	double seconds;

	heard->base = event_base_new();
	heard->times = 0;
	od = hvd_overdue_watch(heard->base, "srun", pid, 1, hosts, on_overdue, heard);
	event_base_dispatch(heard->base);
	seconds = (double)(hvd_now() - began) / 1e9;
	assert_int_equal(heard->times, 1);
	hvd_overdue_destroy(od);
	event_base_free(heard->base);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return seconds;
}

static void a_process_that_does_nothing(void **state)
{
	struct hvd_strv hosts = {0};
	struct heard heard;

	(void)state;
	assert_true(seconds_until_overdue(&heard, start_writer(0), &hosts) >= 0.9);
	assert_in(heard.why.msg, "all ranks ended 1 s ago, but srun is still running");
	assert_false(heard.certain);
	hvd_strv_add(&hosts, "node1");
	hvd_strv_add(&hosts, "node7");
	seconds_until_overdue(&heard, start_writer(0), &hosts);
	assert_true(heard.certain);
	assert_in(heard.why.msg, "srun cannot learn that those on node1, node7 did");
	hvd_strv_free(&hosts);
}

static void one_that_still_writes_gets_its_time(void **state)
{
	struct hvd_strv hosts = {0};
	struct heard heard;

	(void)state;
	assert_true(seconds_until_overdue(&heard, start_writer(25), &hosts) >= 2.9);
}

/* Standard output is a pipe that nobody reads for two seconds. */
static void one_whose_output_is_not_read_gets_its_time(void **state)
{
	static char junk[65536];
	struct hvd_strv hosts = {0};
	struct heard heard;
	int fds[2], out = dup(STDOUT_FILENO);
	double seconds;
	pid_t reader;

	(void)state;
	fflush(stdout);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	while (write(fds[1], junk, sizeof(junk)) > 0)
		;
	reader = fork();
	if (reader == 0) {
		usleep(2500000);
		while (read(fds[0], junk, sizeof(junk)) > 0)
			;
		_exit(0);
	}
	assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
	seconds = seconds_until_overdue(&heard, start_writer(0), &hosts);
	assert_true(dup2(out, STDOUT_FILENO) >= 0);
	kill(reader, SIGKILL);
	waitpid(reader, NULL, 0);
	close(out);
	close(fds[0]);
	close(fds[1]);
	assert_true(seconds >= 2.4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_does_nothing),
		cmocka_unit_test(one_that_still_writes_gets_its_time),
		cmocka_unit_test(one_whose_output_is_not_read_gets_its_time),
	};

	return cmocka_run_group_tests_name("overdue", tests, NULL, NULL);
}
