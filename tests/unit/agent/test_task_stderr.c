/* SPDX-License-Identifier: Apache-2.0 */
/* What passes a task's standard error on never waits, and never asks to be called again for nothing. */
#include "agent/task_stderr.h"
#include "tests/unit/unit.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>

struct fixture {
	struct hvd_stderr_tee_view view;
	struct hvd_stderr_tee st;
	int writer, reader;
	char seen[64];
	size_t n;
};

static void look(const char *bytes, size_t len, void *arg)
{
	struct fixture *f = arg;

	assert_true(f->n + len <= sizeof(f->seen));
	memcpy(f->seen + f->n, bytes, len);
	f->n += len;
}

static void setup(struct fixture *f)
{
	int in[2], out[2];

	*f = (struct fixture){0};
	assert_int_equal(hvd_stderr_tee_view_open(&f->view), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	f->st = (struct hvd_stderr_tee){.in = in[0], .out = out[1]};
	f->writer = in[1];
	f->reader = out[0];
}

static void teardown(struct fixture *f)
{
	hvd_stderr_tee_close(&f->st);
	hvd_stderr_tee_view_close(&f->view);
	close(f->writer);
	if (f->reader >= 0)
		close(f->reader);
}

TEST(test_passes)
{
	struct fixture f;
	char got[8];

	setup(&f);
	assert_int_equal(write(f.writer, "abc", 3), 3);
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
	assert_int_equal(read(f.reader, got, sizeof(got)), 3);
	assert_memory_equal(got, "abc", 3);
	assert_int_equal(f.n, 3);
	close(f.writer);
	f.writer = -1;
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_OVER);
	teardown(&f);
}

#define BIND_LINE                                                                                                      \
	"[E1127 07:34:54.915245053 TCPStore.cpp:280] [c10d] The server socket on 2 has failed to bind. "               \
	"TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n"

/* The line that is no error is taken out, with nothing around it. */
TEST(test_the_bind_line_is_left_out)
{
	static const char text[] = "one\n" BIND_LINE "two\n";
	struct fixture f;
	char got[512];

	setup(&f);
	for (int i = 0; i < 3; i++) {
		f.n = 0;
		assert_int_equal(write(f.writer, text, strlen(text)), strlen(text));
		assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
		assert_int_equal(read(f.reader, got, sizeof(got)), 8);
		assert_memory_equal(got, "one\ntwo\n", 8);
		assert_int_equal(f.n, 8);
		assert_memory_equal(f.seen, "one\ntwo\n", 8);
	}
	assert_int_equal(write(f.writer, BIND_LINE, strlen(BIND_LINE)), strlen(BIND_LINE));
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
	assert_int_equal(read(f.reader, got, sizeof(got)), -1);
	close(f.reader);
	f.reader = -1;
	assert_int_equal(write(f.writer, text, strlen(text)), strlen(text));
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
	teardown(&f);
}

/* Fill the pipe behind the st, have a byte wait in front of it, and let the task read that byte itself. */
static void fill_and_steal(struct fixture *f)
{
	char bytes[4096] = {0}, byte;

	while (write(f->st.out, bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(write(f->writer, "x", 1), 1);
	assert_int_equal(hvd_stderr_tee_pass(&f->st, &f->view, 1024, look, f), HVD_TEE_FULL);
	assert_int_equal(read(f->st.in, &byte, 1), 1);
}

/* A task that reads its own standard error leaves nothing to pass on: the st waits for more to be written. */
TEST(test_read_by_the_task)
{
	struct fixture f;
	char got[65536];

	setup(&f);
	fill_and_steal(&f);
	while (read(f.reader, got, sizeof(got)) > 0)
		;
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
	assert_int_equal(write(f.writer, "y", 1), 1);
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
	assert_int_equal(read(f.reader, got, sizeof(got)), 1);
	assert_memory_equal(f.seen, "xy", 2);
	teardown(&f);
}

/* The same where the reader of what is passed on has gone. */
TEST(test_read_by_the_task_without_a_reader)
{
	struct fixture f;

	setup(&f);
	fill_and_steal(&f);
	close(f.reader);
	f.reader = -1;
	hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f);
	assert_int_equal(write(f.writer, "y", 1), 1);
	assert_int_equal(hvd_stderr_tee_pass(&f.st, &f.view, 1024, look, &f), HVD_TEE_EMPTY);
	teardown(&f);
}

RUN_TESTS(.no_sigpipe = true)
