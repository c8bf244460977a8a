/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/err.h"
#include "lib/base/log.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>

TEST(set_clears_what_was_there)
{
	struct hvd_err err;

	memset(&err, 'x', sizeof(err));
	assert_fails_with(hvd_err_set(&err, HVD_E_NET, "%s %d", "no route", 7), err, HVD_E_NET, "");
	assert_string_equal(err.msg, "no route 7");
	assert_string_equal(err.host, "");
	assert_string_equal(err.hint, "");
	assert_int_equal(hvd_err_host(&err, "node7"), -1);
	assert_int_equal(hvd_err_hint(&err, "plug it in"), -1);
	assert_string_equal(err.host, "node7");
	assert_string_equal(err.hint, "plug it in");
	hvd_err_set(&err, HVD_E_LIMIT, "again");
	assert_string_equal(err.host, "");
	assert_string_equal(err.hint, "");
	hvd_err_host(&err, NULL);
	assert_string_equal(err.host, "");
}

TEST(sys_names_errno_and_keeps_it)
{
	struct hvd_err err;

	errno = ENOSPC;
	assert_int_equal(hvd_err_sys(&err, "cannot write %s", "file"), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(err.code, HVD_E_SYS);
	assert_string_equal(err.msg, "cannot write file: No space left on device");
}

TEST(prefix_keeps_the_rest)
{
	struct hvd_err err;

	hvd_err_set(&err, HVD_E_AUTH, "no key");
	hvd_err_host(&err, "h");
	hvd_err_hint(&err, "make one");
	assert_int_equal(hvd_err_prefix(&err, "rank %d", 3), -1);
	assert_string_equal(err.msg, "rank 3: no key");
	assert_string_equal(err.host, "h");
	assert_string_equal(err.hint, "make one");
	assert_int_equal(err.code, HVD_E_AUTH);
}

TEST(long_texts_are_cut)
{
	char big[4096];
	struct hvd_err err;

	memset(big, 'm', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	hvd_err_set(&err, HVD_E_SYS, "%s", big);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	hvd_err_prefix(&err, "%s", big);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	errno = EIO;
	hvd_err_sys(&err, "%s", big);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	hvd_err_hint(&err, "%s", big);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
	hvd_err_host(&err, big);
	assert_int_equal(strlen(err.host), sizeof(err.host) - 1);
}

TEST(null_is_fine)
{
	assert_int_equal(hvd_err_set(NULL, HVD_E_SYS, "x"), -1);
	assert_int_equal(hvd_err_sys(NULL, "x"), -1);
	assert_int_equal(hvd_err_host(NULL, "x"), -1);
	assert_int_equal(hvd_err_hint(NULL, "x"), -1);
	assert_int_equal(hvd_err_prefix(NULL, "x"), -1);
}

TEST(exit_status)
{
	struct hvd_err err;

	hvd_err_set(&err, HVD_E_USAGE, "x");
	assert_int_equal(hvd_err_status(&err), 2);
	for (int code = HVD_E_SYS; code <= HVD_E_FAILED; code++) {
		hvd_err_set(&err, (enum hvd_errc)code, "x");
		assert_int_equal(hvd_err_status(&err), 1);
	}
	assert_int_equal(hvd_err_status(NULL), 1);
}

/* ---- log ---- */

struct sink {
	int fds[2];
	struct hvd_log log;
	char text[8192];
};

static void sink_open(struct sink *sink, enum hvd_log_level level)
{
	assert_int_equal(pipe2(sink->fds, O_NONBLOCK), 0);
	sink->log = hvd_log_make("prog", level);
	assert_int_equal(sink->log.fd, STDERR_FILENO);
	sink->log.fd = sink->fds[1];
}

static const char *sink_take(struct sink *sink)
{
	ssize_t n = read(sink->fds[0], sink->text, sizeof(sink->text) - 1);

	sink->text[n > 0 ? n : 0] = '\0';
	return sink->text;
}

static void sink_close(struct sink *sink)
{
	close(sink->fds[0]);
	close(sink->fds[1]);
}

TEST(levels_and_marks)
{
	struct sink sink;
	unsigned t[4];
	char end;

	sink_open(&sink, HVD_LOG_INFO);
	hvd_error(&sink.log, "a %d", 1);
	assert_string_equal(sink_take(&sink), "prog: error: a 1\n");
	hvd_warn(&sink.log, "b");
	assert_string_equal(sink_take(&sink), "prog: warning: b\n");
	hvd_info(&sink.log, "c");
	assert_string_equal(sink_take(&sink), "prog: c\n");
	hvd_verbose(&sink.log, "d");
	hvd_debug(&sink.log, "e");
	assert_string_equal(sink_take(&sink), "");
	sink.log.level = HVD_LOG_DEBUG;
	hvd_verbose(&sink.log, "d");
	hvd_debug(&sink.log, "e");
	/* Every step is shown: with the time. */
	assert_int_equal(sscanf(sink_take(&sink), "prog %2u:%2u:%2u.%3u: d\nprog %*2u:%*2u:%*2u.%*3u: debug: e%c",
				&t[0], &t[1], &t[2], &t[3], &end),
			 5);
	assert_int_equal(end, '\n');
	sink_close(&sink);
	hvd_error(NULL, "nowhere");
}

TEST(errno_survives)
{
	struct sink sink;

	sink_open(&sink, HVD_LOG_INFO);
	sink.log.fd = -1;
	errno = EXDEV;
	hvd_error(&sink.log, "into nothing");
	assert_int_equal(errno, EXDEV);
	sink_close(&sink);
}

TEST(long_messages_end_in_a_newline)
{
	static char big[10000];
	struct sink sink;

	memset(big, 'x', sizeof(big) - 1);
	sink_open(&sink, HVD_LOG_INFO);
	for (size_t len = 4070; len < 4100; len++) {
		const char *text;

		big[len] = '\0';
		hvd_info(&sink.log, "%s", big);
		text = sink_take(&sink);
		assert_true(strlen(text) <= 4096);
		assert_true(strlen(text) > 4000);
		assert_int_equal(text[strlen(text) - 1], '\n');
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		big[len] = 'x';
	}
	hvd_info(&sink.log, "%s", big);
	sink_take(&sink);
	assert_int_equal(sink.text[strlen(sink.text) - 1], '\n');
	sink_close(&sink);
}

TEST(errors_with_host_and_hint)
{
	struct sink sink;
	struct hvd_err err;

	sink_open(&sink, HVD_LOG_INFO);
	hvd_err_set(&err, HVD_E_NET, "no network");
	hvd_log_err(&sink.log, &err);
	assert_string_equal(sink_take(&sink), "prog: error: no network\n");
	hvd_err_host(&err, "n1");
	hvd_err_hint(&err, "mend it");
	hvd_log_err(&sink.log, &err);
	assert_string_equal(sink_take(&sink), "prog: error: n1: no network\nprog: mend it\n");
	sink_close(&sink);
}

RUN_TESTS()
