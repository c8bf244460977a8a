/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a host's tasks in memory: what the agent writes is what each task finds. */
#include "lib/protocol/step_plans.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/mman.h>

/* What the agent 77 writes for two tasks and, between them, one without a rank. */
static size_t write_three(char *text, size_t room)
{
	struct hvd_strv tasks[3] = {0};
	int fd = memfd_create("plans", MFD_CLOEXEC), kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ssize_t n;

	hvd_strv_add(&tasks[0], "A=1");
	hvd_strv_add(&tasks[0], "B=");
	hvd_strv_add(&tasks[2], "A=3");
	assert_int_equal(hvd_step_plans_write(fd, 77, tasks, 3), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	n = pread(kept, text, room, 0);
	assert_true(n > 0 && (size_t)n < room);
	close(kept);
	for (int i = 0; i < 3; i++)
		hvd_strv_free(&tasks[i]);
	return (size_t)n;
}

TEST(each_task_finds_its_variables)
{
	char text[64], *plan;
	size_t size = write_three(text, sizeof(text));
	pid_t agent = 0;

	plan = hvd_step_plans_nth(text, size, 0, &agent);
	assert_int_equal(agent, 77);
	assert_memory_equal(plan, "A=1\0B=\0", 8);
	assert_string_equal(hvd_step_plans_nth(text, size, 1, &agent), "");
	assert_memory_equal(hvd_step_plans_nth(text, size, 2, &agent), "A=3\0", 5);
	assert_null(hvd_step_plans_nth(text, size, 3, &agent));
}

TEST(cut_off_plans_are_found_out)
{
	char text[64];
	size_t size = write_three(text, sizeof(text));
	pid_t agent;

	for (size_t n = 0; n < size; n++) {
		/* With its own end for sanitizers. */
		char *cut = malloc(n + 1);

		memcpy(cut, text, n);
		assert_null(hvd_step_plans_nth(cut, n, 2, &agent));
		free(cut);
	}
}

TEST(a_write_that_fails_is_an_error)
{
	struct hvd_strv task = {0};
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	hvd_strv_add(&task, "A=1");
	assert_int_equal(hvd_step_plans_write(full, 77, &task, 1), -1);
	assert_int_equal(hvd_step_plans_write(-1, 77, &task, 1), -1);
	hvd_strv_free(&task);
}

RUN_TESTS()
