/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a pattern are progress: new and changed ones. */
#include "launcher/world/progress_file.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/resource.h>

/* The file is made, or was changed at this time. */
static void touch(const char *name, time_t at)
{
	const struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

static int enter_folder(void **state)
{
	char folder[] = "/tmp/hvd-progress.XXXXXX";

	*state = strdup(mkdtemp(folder));
	return chdir(*state);
}

static int remove_folder(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	free(*state);
	return chdir("/") == 0 ? system(command) : -1;
}

TEST_WITH(new_and_changed_files, enter_folder, remove_folder)
{
	struct hvd_progress_file file = {.pattern = "my checkpoints/*.pt"};

	assert_false(hvd_progress_file_changed(&file)); /* there is none */
	assert_int_equal(mkdir("my checkpoints", 0700), 0);
	touch("my checkpoints/one.txt", 2000);
	assert_false(hvd_progress_file_changed(&file)); /* nor yet */
	touch("my checkpoints/-one.pt", 1000);
	assert_true(hvd_progress_file_changed(&file));
	assert_false(hvd_progress_file_changed(&file));
	touch("my checkpoints/older.pt", 999);
	assert_false(hvd_progress_file_changed(&file));
	touch("my checkpoints/older.pt", 1001);
	assert_true(hvd_progress_file_changed(&file));
	assert_false(hvd_progress_file_changed(&file));
}

/* More than fit on a command line, at a process for each it would take too long. */
TEST_WITH(many_files, enter_folder, remove_folder)
{
	enum {
		MANY = 6000
	};
	struct hvd_progress_file file = {.pattern = "*.pt"};
	struct rlimit stack, small;
	char name[128];

	/* A fourth of the stack is for the line. */
	assert_int_equal(getrlimit(RLIMIT_STACK, &stack), 0);
	small = (struct rlimit){.rlim_cur = 2048 * 1024, .rlim_max = stack.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name),
			 "checkpoint-of-a-long-training-with-a-long-name-that-takes-room-on-the-line-%d.pt", i);
		touch(name, 1000 + i);
	}
	assert_true(hvd_progress_file_changed(&file));
	assert_true(file.newest == 1000 + MANY - 1);
	assert_false(hvd_progress_file_changed(&file));
	assert_int_equal(setrlimit(RLIMIT_STACK, &stack), 0);
}

TEST(no_pattern)
{
	struct hvd_progress_file file = {0};

	assert_false(hvd_progress_file_changed(&file));
}

RUN_TESTS()
