/* SPDX-License-Identifier: Apache-2.0 */
/* A task of jsrun finds its place, and files that go with a launch. */
#include "agent/taskinfo.h"
#include "launcher/start/scratch.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

static const char *const names[] = {
	"JSM_NAMESPACE_RANK",
	"JSM_NAMESPACE_SIZE",
	"JSM_NAMESPACE_LOCAL_RANK",
	"JSM_NAMESPACE_LOCAL_SIZE",
	"PMIX_RANK",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_RANK",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
};

static int nothing_set(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	return 0;
}

TEST_WITH(place_is_taken_from_the_layout, nothing_set, NULL)
{
	struct hvd_taskinfo info;

	setenv("JSM_NAMESPACE_RANK", "3", 1);
	setenv("JSM_NAMESPACE_SIZE", "4", 1);
	setenv("JSM_NAMESPACE_LOCAL_RANK", "0", 1);
	setenv("PMIX_RANK", "3", 1);
	assert_int_equal(hvd_taskinfo_jsrun("a:1,b:2,c:1", &info, NULL), 0);
	assert_string_equal(info.name, "c");
	assert_int_equal(info.rank, 3);
	assert_int_equal(info.size, 4);
	assert_int_equal(info.node, 2);
	assert_int_equal(info.local_rank, 0);
	assert_int_equal(info.local_size, 1);
	hvd_taskinfo_free(&info);
	/* Any of them will do. */
	nothing_set(NULL);
	setenv("OMPI_COMM_WORLD_RANK", "2", 1);
	assert_int_equal(hvd_taskinfo_jsrun("a:1,b:2,c:1", &info, NULL), 0);
	assert_string_equal(info.name, "b");
	assert_int_equal(info.local_rank, 1);
	hvd_taskinfo_free(&info);
}

TEST_WITH(contradictions_are_said, nothing_set, NULL)
{
	static const struct {
		const char *name, *value, *said;
	} bad[] = {
		{"PMIX_RANK", "2", "JSM_NAMESPACE_RANK gives rank 1, but PMIX_RANK gives rank 2"},
		{"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_RANK gives rank 0"},
		{"OMPI_COMM_WORLD_RANK", "x", "OMPI_COMM_WORLD_RANK=x is not a number"},
		{"JSM_NAMESPACE_SIZE", "5", "JSM_NAMESPACE_SIZE is 5, not 4"},
		{"JSM_NAMESPACE_LOCAL_RANK", "1", "JSM_NAMESPACE_LOCAL_RANK is 1, not 0"},
		{"OMPI_COMM_WORLD_LOCAL_SIZE", "1", "OMPI_COMM_WORLD_LOCAL_SIZE is 1, not 2"},
		{"JSM_NAMESPACE_RANK", "4", "rank 4"},
	};
	struct hvd_taskinfo info;
	struct hvd_err err;

	assert_fails(hvd_taskinfo_jsrun("a:1,b:2,c:1", &info, &err), err,
		     "no variable of jsrun gives the rank of this process");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		nothing_set(NULL);
		setenv("JSM_NAMESPACE_RANK", "1", 1);
		setenv(bad[i].name, bad[i].value, 1);
		assert_fails(hvd_taskinfo_jsrun("a:1,b:2,c:1", &info, &err), err, bad[i].said);
		assert_null(info.ranks);
	}
}

/* Until the file has gone, or after many seconds. */
static void wait_gone(const char *path)
{
	struct timespec moment = {.tv_nsec = 20000000};

	for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++)
		nanosleep(&moment, NULL);
	assert_int_equal(access(path, F_OK), -1);
}

TEST(files_are_private_and_go_with_the_launch)
{
	char *const envp[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
	struct hvd_scratch *scratch = hvd_scratch_create(envp, NULL);
	const char *path = hvd_scratch_file(scratch, "f", "text\n", NULL);
	char *copy = strdup(path), buf[16] = "";
	struct stat st;
	int fd;

	assert_int_equal(stat(copy, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	fd = open(copy, O_RDONLY);
	assert_int_equal(read(fd, buf, sizeof(buf)), 5);
	assert_string_equal(buf, "text\n");
	close(fd);
	hvd_scratch_destroy(scratch);
	assert_int_equal(access(copy, F_OK), -1);
	free(copy);
}

TEST(a_killed_launch_leaves_no_file)
{
	char *const envp[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
	char path[256] = "";
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		struct hvd_scratch *scratch = hvd_scratch_create(envp, NULL);
		const char *name = hvd_scratch_file(scratch, "f", "text\n", NULL);

		if (write(fds[1], name, strlen(name)) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	assert_true(read(fds[0], path, sizeof(path) - 1) > 0);
	waitpid(pid, NULL, 0);
	wait_gone(path);
	*strrchr(path, '/') = '\0';
	wait_gone(path);
	close(fds[0]);
	close(fds[1]);
}

TEST(a_folder_that_cannot_be_made_is_said)
{
	char *const envp[] = {(char[]){"TMPDIR=/nonexistent"}, NULL};
	struct hvd_err err;

	assert_null(hvd_scratch_create(envp, &err));
	assert_in(err.msg, "/nonexistent/hvdrun-");
	assert_in(err.hint, "TMPDIR");
}

RUN_TESTS()
