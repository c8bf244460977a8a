/* SPDX-License-Identifier: Apache-2.0 */
/* What several processes print, put back into whole lines. */
#include "launcher/start/output_mux.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>

struct stage {
	struct event_base *base;
	struct hvd_output_mux *relay;
	int from; /* where what was relayed is read */
	int to;
	char seen[512];
	size_t n;
};

static void begin(struct stage *stage, enum hvd_output_mux_form form)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	memset(stage, 0, sizeof(*stage));
	stage->base = event_base_new();
	stage->from = fds[0];
	stage->to = fds[1];
	stage->relay = hvd_output_mux_create(stage->base, stage->to, form, NULL);
	assert_non_null(stage->relay);
}

static void say(int fd, const char *text, size_t n)
{
	assert_int_equal(write(fd, text, n), n);
}

#define SAY(fd, text) say(fd, text, sizeof(text) - 1)

/* All that has come out by now. */
static const char *seen(struct stage *stage)
{
	ssize_t n;

	for (int turn = 0; turn < 20; turn++)
		event_base_loop(stage->base, EVLOOP_NONBLOCK);
	n = read(stage->from, stage->seen, sizeof(stage->seen) - 1);
	stage->n = n > 0 ? (size_t)n : 0;
	stage->seen[stage->n] = '\0';
	return stage->seen;
}

static void end(struct stage *stage)
{
	hvd_output_mux_finish(stage->relay);
	seen(stage);
	close(stage->from);
	close(stage->to);
	event_base_free(stage->base);
}

TEST(lines_of_two)
{
	struct stage stage;
	int a, b;

	begin(&stage, HVD_OUTPUT_MUX_LINES);
	a = hvd_output_mux_open(stage.relay, NULL);
	b = hvd_output_mux_open(stage.relay, NULL);
	SAY(a, "one, ");
	SAY(b, "three, ");
	assert_string_equal(seen(&stage), "");
	SAY(b, "four\nfive, ");
	assert_string_equal(seen(&stage), "three, four\n");
	SAY(a, "two\n");
	assert_string_equal(seen(&stage), "one, two\n");
	/* The end of a source that has ended within a line, and of one that is still open. */
	SAY(b, "six");
	close(b);
	assert_string_equal(seen(&stage), "five, six");
	SAY(a, "seven\neight");
	end(&stage);
	assert_string_equal(stage.seen, "seven\neight");
	close(a);
}

/* Progress bars are seen as they move. */
TEST(carriage_returns)
{
	struct stage stage;
	int fd;

	begin(&stage, HVD_OUTPUT_MUX_HOROVOD);
	fd = hvd_output_mux_open(stage.relay, NULL);
	SAY(fd, "a\nten\rtwenty\rth");
	assert_string_equal(seen(&stage), "a\nten\rtwenty\r");
	SAY(fd, "irty\n");
	assert_string_equal(seen(&stage), "thirty\n");
	end(&stage);
	close(fd);
	begin(&stage, HVD_OUTPUT_MUX_TASKS);
	fd = hvd_output_mux_open(stage.relay, NULL);
	SAY(fd, "0: \x10"
		"bten\x10r\x10"
		"e\n");
	assert_string_equal(seen(&stage), "ten\r");
	end(&stage);
	close(fd);
}

/* What srun --label makes of two tasks that print at a time: anything may be broken anywhere. */
TEST(tasks_of_srun)
{
	struct stage stage;
	int fd;

	begin(&stage, HVD_OUTPUT_MUX_TASKS);
	fd = hvd_output_mux_open(stage.relay, NULL);
	SAY(fd, " 0: \x10"
		"ba b\x10nc \n"
		"11: \x10\n"
		"11: bx\x10\n"
		" 0: d\x10n\x10"
		"e\n"
		"11: n\x10"
		"e\n");
	assert_string_equal(seen(&stage), "a b\nc d\nx\n");
	/* Bytes that look like ours, and no byte is lost. */
	SAY(fd, "0: \x10"
		"b\x10\x10\0\x10"
		"dq\x10n\x10"
		"e\n");
	seen(&stage);
	assert_int_equal(stage.n, 5);
	assert_memory_equal(stage.seen, "\x10\0\x10q\n", 5);
	end(&stage);
	close(fd);
}

/* srun's own messages, those of the step daemon, and those of a shim that could not start its rank. */
TEST(what_others_say)
{
	struct stage stage;
	int fd;

	begin(&stage, HVD_OUTPUT_MUX_TASKS);
	fd = hvd_output_mux_open(stage.relay, NULL);
	SAY(fd, "srun: error: hvdn1: task 0: Exited with exit code 1\n0: slurmstepd: error: *** STEP\n99999999999: "
		"x\n: y\n \n");
	assert_string_equal(seen(&stage), "srun: error: hvdn1: task 0: Exited with exit code 1\nslurmstepd: error: *** "
					  "STEP\n99999999999: x\n: y\n \n");
	SAY(fd, "3: \x10"
		"bnot the end");
	end(&stage);
	assert_string_equal(stage.seen, "3: \x10"
					"bnot the end");
	close(fd);
}

/* Nobody reads: those who write wait, nothing is lost, and no descriptor stays open. */
TEST(slow_reader)
{
	enum {
		LINE = 1000,
		LINES = 5000
	};
	struct stage stage;
	char line[LINE], buf[LINE];
	int fd, fds = open_fds(), written = 0;
	size_t at = 0, total = 0;
	ssize_t n;

	begin(&stage, HVD_OUTPUT_MUX_LINES);
	fd = hvd_output_mux_open(stage.relay, NULL);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	memset(line, 'x', LINE);
	line[LINE - 1] = '\n';
	for (int turn = 0; turn < 10000 && written < LINES; turn++) {
		while (written < LINES && write(fd, line, LINE) == LINE)
			written++;
		event_base_loop(stage.base, EVLOOP_NONBLOCK);
	}
	assert_int_in_range(written, 1000, LINES - 1); /* about what is held at most, not all */
	close(fd);
	for (int turn = 0; turn < 100000 && total < (size_t)written * LINE; turn++) {
		event_base_loop(stage.base, EVLOOP_NONBLOCK);
		while ((n = read(stage.from, buf, LINE - at)) > 0) {
			at = (at + (size_t)n) % LINE;
			total += (size_t)n;
			if (at == 0)
				assert_int_equal(buf[n - 1], '\n');
		}
	}
	assert_int_equal(total, (size_t)written * LINE);
	end(&stage);
	assert_int_equal(open_fds(), fds);
}

TEST(reader_that_goes)
{
	struct stage stage;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	begin(&stage, HVD_OUTPUT_MUX_LINES);
	fd = hvd_output_mux_open(stage.relay, NULL);
	close(stage.from);
	for (int i = 0; i < 100; i++) {
		SAY(fd, "a line\n");
		event_base_loop(stage.base, EVLOOP_NONBLOCK);
	}
	close(fd);
	assert_int_equal(hvd_output_mux_finish(stage.relay), 0);
	close(stage.to);
	event_base_free(stage.base);
}

TEST(full_disk)
{
	struct event_base *base = event_base_new();
	int to = open("/dev/full", O_WRONLY | O_CLOEXEC), fd;
	struct hvd_output_mux *relay = hvd_output_mux_create(base, to, HVD_OUTPUT_MUX_LINES, NULL);

	assert_non_null(relay);
	fd = hvd_output_mux_open(relay, NULL);
	SAY(fd, "a line\n");
	close(fd);
	assert_int_equal(hvd_output_mux_finish(relay), ENOSPC);
	close(to);
	event_base_free(base);
}

RUN_TESTS()
