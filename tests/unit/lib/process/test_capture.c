/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/capture.h"
#include "tests/unit/unit.h"

#include <sys/wait.h>

/* The output of `sh -c script`. */
static char *sh(const char *script, size_t max, double seconds, size_t *len, int *status, struct hvd_err *err)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	const struct hvd_spawn sp = {.path = "sh", .argv = (char *const *)argv, .envp = (char *const *)env};

	return hvd_capture(&sp, max, hvd_deadline_in(seconds), len, status, err);
}

TEST(what_is_printed_comes_back)
{
	struct hvd_err err = {0};
	int status = -1, fds = open_fds();
	size_t len;
	char *text;

	text = sh("cat; echo out; echo err >&2; exit 3", 100, 30, &len, &status, &err);
	assert_non_null(text);
	assert_string_equal(text, "out\n");
	assert_int_equal(len, 4);
	assert_int_equal(WEXITSTATUS(status), 3);
	free(text);
	text = sh(":", 100, 30, &len, &status, &err);
	assert_string_equal(text, "");
	assert_int_equal(status, 0);
	free(text);
	text = sh("kill -KILL $$", 100, 30, &len, &status, &err);
	assert_non_null(text);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	free(text);
	assert_int_equal(open_fds(), fds);
}

TEST(sizes_up_to_the_limit_are_read)
{
	static const size_t sizes[] = {1, 4094, 4095, 4096, 4097, 8191, 8192, 65536, 100000};
	struct hvd_err err = {0};
	char script[64];
	int status;
	size_t len;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char *text;

		snprintf(script, sizeof(script), "head -c %zu /dev/zero | tr '\\0' x", sizes[i]);
		text = sh(script, sizes[i], 30, &len, &status, &err);
		assert_non_null(text);
		assert_int_equal(len, sizes[i]);
		assert_int_equal(strlen(text), len);
		free(text);
		assert_null(sh(script, sizes[i] - 1, 30, &len, &status, &err));
		assert_int_equal(err.code, HVD_E_LIMIT);
	}
}

TEST(it_ends_at_the_deadline_with_all_it_started)
{
	struct hvd_err err = {0};
	int status, fds = open_fds();
	size_t len;

	assert_null(sh("sleep 1000 & sleep 1000", 100, 0.3, &len, &status, &err));
	assert_int_equal(err.code, HVD_E_TIMEOUT);
	/* the command has closed its output, and still runs */
	assert_null(sh("exec >&-; sleep 1000", 100, 0.3, &len, &status, &err));
	assert_int_equal(err.code, HVD_E_TIMEOUT);
	/* the command has ended, and a process that it has left keeps the output open */
	assert_null(sh("sleep 1000 &", 100, 0.3, &len, &status, &err));
	assert_int_equal(err.code, HVD_E_TIMEOUT);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(open_fds(), fds);
}

TEST(what_is_not_there_is_an_error)
{
	const char *const argv[] = {"no-such-program", NULL};
	const struct hvd_spawn sp = {.path = "no-such-program", .argv = (char *const *)argv};
	struct hvd_err err = {0};
	int status;
	size_t len;

	assert_null(hvd_capture(&sp, 100, hvd_deadline_in(30), &len, &status, &err));
	assert_int_equal(err.code, HVD_E_SYS);
	assert_in(err.msg, "cannot run no-such-program");
}

RUN_TESTS()
