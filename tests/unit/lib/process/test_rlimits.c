/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/rlimits.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/resource.h>

static char root[] = "/tmp/hvd-rlimits.XXXXXX";

/* Make a file below the test's root directory, with its folders. */
static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int set_up(void **state)
{
	memcpy(root + strlen(root) - 6, "XXXXXX", 6);
	assert_non_null(mkdtemp(root));
	put("proc/sys/kernel/threads-max", "1000\n");
	put("proc/sys/kernel/pid_max", "2000\n");
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void refused(long n, const char *what)
{
	struct hvd_err err = {0};

	assert_fails_with(hvd_limits_ranks(root, n, &err), err, HVD_E_LIMIT, "");
	if (!strstr(err.msg, what))
		fail_msg("no '%s' in: %s", what, err.msg);
	assert_non_null(strstr(err.hint, "start fewer ranks"));
}

TEST_WITH(test_of_the_kernel, set_up, tear_down)
{
	assert_int_equal(hvd_limits_ranks(root, 100, NULL), 0);
	refused(1001, "1001 ranks on one host need as many processes, but only 1000 more are allowed: "
		      "kernel.threads-max is 1000");
	put("proc/sys/kernel/pid_max", "900\n");
	refused(1000, "kernel.pid_max is 900");
}

TEST_WITH(test_of_a_control_group, set_up, tear_down)
{
	put("proc/self/cgroup", "0::/user.slice/session\n");
	put("sys/fs/cgroup/user.slice/session/pids.max", "max\n");
	put("sys/fs/cgroup/user.slice/session/pids.current", "7\n");
	assert_int_equal(hvd_limits_ranks(root, 100, NULL), 0);
	put("sys/fs/cgroup/user.slice/pids.max", "60\n");
	put("sys/fs/cgroup/user.slice/pids.current", "20\n");
	assert_int_equal(hvd_limits_ranks(root, 40, NULL), 0);
	refused(41, "only 40 more are allowed: /sys/fs/cgroup/user.slice/pids.max is 60");
	put("sys/fs/cgroup/user.slice/pids.current", "60\n");
	refused(1, "only 0 more are allowed");
}

TEST_WITH(test_of_a_control_group_of_version_1, set_up, tear_down)
{
	put("proc/self/cgroup", "4:memory:/a\n3:pids:/a/b\n1:name=systemd:/a\n0::/\n");
	put("sys/fs/cgroup/memory/a/pids.max", "1\n");
	put("sys/fs/cgroup/pids/a/b/pids.max", "30\n");
	assert_int_equal(hvd_limits_ranks(root, 30, NULL), 0);
	refused(31, "/sys/fs/cgroup/pids/a/b/pids.max is 30");
	put("sys/fs/cgroup/pids/a/pids.max", "0\n");
	refused(1, "/sys/fs/cgroup/pids/a/pids.max is 0");
}

TEST(test_of_open_files)
{
	struct rlimit was, few;
	struct hvd_err err = {0};

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	few.rlim_cur = 50;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(hvd_limits_files(50, "3 ranks", NULL), 0);
	assert_int_equal(hvd_limits_files(51, "3 ranks", &err), -1);
	assert_string_equal(err.msg, "3 ranks need 51 open files, but ulimit -n is 50");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

TEST(test_what_an_errno_means)
{
	static const int met[] = {EAGAIN, EMFILE, ENFILE, ENOMEM};
	struct hvd_err err;

	for (int i = 0; i < 4; i++) {
		hvd_err_set(&err, HVD_E_SYS, "cannot run it");
		hvd_limits_explain(met[i], &err);
		assert_int_equal(err.code, HVD_E_LIMIT);
		assert_string_equal(err.msg, "cannot run it");
		assert_true(err.hint[0]);
	}
	hvd_err_set(&err, HVD_E_SYS, "cannot run it");
	hvd_limits_explain(ENOENT, &err);
	assert_int_equal(err.code, HVD_E_SYS);
	assert_false(err.hint[0]);
	hvd_limits_explain(EAGAIN, NULL);
}

RUN_TESTS()
