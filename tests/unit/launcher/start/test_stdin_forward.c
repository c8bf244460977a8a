/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/start/stdin_forward.h"

#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

#include <fcntl.h>

static struct hvd_stdin_forward *forward_of(struct event_base *base, const char *text, int from, int *out)
{
	struct hvd_stdin_forward *forward =
		hvd_stdin_forward_create(base, (unsigned char *)hvd_xstrdup(text), strlen(text), from, out, NULL);

	assert_non_null(forward);
	return forward;
}

/* All that comes out of the pipe, while the loop runs. */
static size_t drain(struct event_base *base, int fd, char *buf, size_t room)
{
	size_t got = 0;
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int turns = 0; turns < 10000; turns++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = read(fd, buf + got, room - got);
		if (n == 0)
			return got;
		got += n > 0 ? (size_t)n : 0;
	}
	fail_msg("the pipe was not closed");
	return got;
}

TEST(ours_only)
{
	struct event_base *base = event_base_new();
	char buf[64];
	int out;
	struct hvd_stdin_forward *forward = forward_of(base, "ours", -1, &out);

	assert_int_equal(drain(base, out, buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "ours", 4);
	hvd_stdin_forward_destroy(forward);
	close(out);
	event_base_free(base);
}

/* More than a pipe holds, from a file, which cannot be polled. */
TEST(then_a_file)
{
	enum {
		SIZE = 300000
	};
	struct event_base *base = event_base_new();
	char *content = hvd_xcalloc(SIZE, 1), *buf = hvd_xcalloc(SIZE + 64, 1);
	FILE *file = tmpfile();
	struct hvd_stdin_forward *forward;
	int out;

	for (int i = 0; i < SIZE; i++)
		content[i] = (char)(i * 7 + i / 251);
	assert_int_equal(fwrite(content, 1, SIZE, file), SIZE);
	rewind(file);
	forward = forward_of(base, "ours", fileno(file), &out);
	assert_int_equal(drain(base, out, buf, SIZE + 64), SIZE + 4);
	assert_memory_equal(buf, "ours", 4);
	assert_memory_equal(buf + 4, content, SIZE);
	hvd_stdin_forward_destroy(forward);
	fclose(file);
	close(out);
	free(content);
	free(buf);
	event_base_free(base);
}

TEST(then_a_pipe)
{
	struct event_base *base = event_base_new();
	int out, fds[2];
	char buf[64];
	struct hvd_stdin_forward *forward;

	assert_int_equal(pipe(fds), 0);
	forward = forward_of(base, "ours ", fds[0], &out);
	for (int i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(write(fds[1], "theirs", 6), 6);
	for (int i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(read(out, buf, sizeof(buf)), 11);
	assert_memory_equal(buf, "ours theirs", 11);
	close(fds[1]);
	assert_int_equal(drain(base, out, buf, sizeof(buf)), 0);
	hvd_stdin_forward_destroy(forward);
	close(fds[0]);
	close(out);
	event_base_free(base);
}

TEST(nothing_to_read)
{
	struct event_base *base = event_base_new();
	int out, null = open("/dev/null", O_RDONLY);
	char buf[64];
	struct hvd_stdin_forward *forward = forward_of(base, "ours", null, &out);

	assert_int_equal(drain(base, out, buf, sizeof(buf)), 4);
	hvd_stdin_forward_destroy(forward);
	close(null);
	close(out);
	event_base_free(base);
}

/* What nobody reads is not taken from the source: no more than the pipe and one block. */
TEST(a_reader_that_is_slow_or_gone)
{
	struct event_base *base = event_base_new();
	FILE *file = tmpfile();
	struct hvd_stdin_forward *forward;
	int out;

	assert_int_equal(ftruncate(fileno(file), 10 << 20), 0);
	forward = forward_of(base, "ours", fileno(file), &out);
	for (int i = 0; i < 1000; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_true(lseek(fileno(file), 0, SEEK_CUR) <= 4 * 65536);
	close(out);
	for (int i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 1); /* nothing is waited for any more */
	hvd_stdin_forward_destroy(forward);
	fclose(file);
	event_base_free(base);
}

RUN_TESTS(.no_sigpipe = true)
