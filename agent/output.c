/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "bind_line.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/output_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_AT_ONCE 65536
#define LABEL_MAX    96
/* How long the beginning of a line may wait for its end. Pieces of a line that a program writes without a buffer come
 * within microseconds. */
#define SILENT_MS 100

/* A buffer that grows. Labelled lines are collected in one, so that there are few, large writes. */
struct bytes {
	char *p;
	size_t n, room;
};

struct hvd_output {
	struct event *readable;
	struct hvd_output *next, **link; /* in the list of the sink, if there is one */
	int fd, to_fd, file_fd;          /* file_fd is -1 when there is none */
	const struct hvd_output_style *style;
	char label[LABEL_MAX];
	struct hvd_timer *silent; /* pending, with `whole`: the beginning of a line waits for its end */
	struct bytes line;        /* the beginning of a line whose end has not come */
	struct bytes ready, frame;
	char *file;  /* its path, for messages */
	bool warned; /* the user knows that the file could not be written */
	bool within; /* the label of the current line was passed on already, with the first piece of the line */
	void (*ended)(void *arg);
	void *arg;
	hvd_output_bytes_fn *on_bytes;
	void *on_bytes_arg;
};

/* Are there labels or files, so that output is passed on line by line? */
static bool by_line(const struct hvd_output_style *style)
{
	return style->label != HVD_LABEL_NONE || style->timestamps || style->dir || style->whole;
}

bool hvd_output_wanted(const struct hvd_output_style *style)
{
	return by_line(style) || (style->sink && style->sink->all);
}

static void add(struct bytes *b, const char *p, size_t n)
{
	if (n == 0)
		return; /* without a label there may be no memory yet */
	if (b->n + n > b->room) {
		b->room = (b->n + n) * 2;
		b->p = hvd_xrealloc(b->p, b->room, 1);
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

/* Returns 0, or the errno of a write that failed. A broken pipe is no failure: the reader wants no more. */
static int write_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EAGAIN) {
			struct pollfd pfd = {.fd = fd, .events = POLLOUT};

			poll(&pfd, 1, -1);
			continue;
		}
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done == 0 ? EIO : errno == EPIPE ? 0 : errno;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

static void report_loss(struct hvd_output_losses *losses, bool *warned, const char *whose, const char *where, int error)
{
	struct hvd_err why = {0};

	losses->any = true;
	if (*warned)
		return;
	*warned = true;
	errno = error;
	hvd_err_sys(&why, "output of %s is lost: cannot write to %s", whose, where);
	if (error == ENOSPC || error == EDQUOT)
		hvd_err_hint(&why, "free some space there (df, quota), or choose another place; the ranks go on");
	hvd_err_host(&why, losses->host);
	hvd_log_err(losses->log, &why);
}

void hvd_output_lose(struct hvd_output_losses *losses, enum hvd_stream stream, int error)
{
	if (error && losses)
		report_loss(losses, &losses->warned[stream], "ranks",
			    stream == HVD_STDOUT ? "standard output" : "standard error", error);
}

/* Output is lost: that of a rank's file, or of this process's own stream. */
static void lose(struct hvd_output *out, bool file, int error)
{
	if (!file)
		hvd_output_lose(out->style->losses, out->to_fd == STDOUT_FILENO ? HVD_STDOUT : HVD_STDERR, error);
	else if (error && out->style->losses)
		report_loss(out->style->losses, &out->warned, "a rank", out->file, error);
}

/* Without a sink it may block. */
static void put(struct hvd_output *out, const char *p, size_t n)
{
	if (out->style->sink)
		out->style->sink->write(out->style->sink, out->to_fd == STDOUT_FILENO ? HVD_STDOUT : HVD_STDERR, p, n);
	else
		lose(out, false, write_all(out->to_fd, p, n));
}

static void write_framed(struct hvd_output *out)
{
	add(&out->frame, (const char[]){HVD_FRAME_ESC, HVD_FRAME_BEGIN}, 2);
	for (size_t i = 0; i < out->ready.n; i++) {
		char c = out->ready.p[i];

		if (c == '\n')
			add(&out->frame, (const char[]){HVD_FRAME_ESC, HVD_FRAME_LF}, 2);
		else if (c == '\r')
			add(&out->frame, (const char[]){HVD_FRAME_ESC, HVD_FRAME_CR}, 2);
		else if (c == HVD_FRAME_ESC)
			add(&out->frame, (const char[]){HVD_FRAME_ESC, HVD_FRAME_ESC}, 2);
		else
			add(&out->frame, &c, 1);
	}
	add(&out->frame, (const char[]){HVD_FRAME_ESC, HVD_FRAME_END, '\n'}, 3);
	put(out, out->frame.p, out->frame.n);
	out->frame.n = 0;
}

static void flush(struct hvd_output *out)
{
	if (!out->ready.n)
		return;
	if (out->style->framed)
		write_framed(out);
	else
		put(out, out->ready.p, out->ready.n);
	if (out->file_fd >= 0)
		lose(out, true, write_all(out->file_fd, out->ready.p, out->ready.n));
	out->ready.n = 0;
}

static void add_label(struct hvd_output *out)
{
	char date[32];
	struct tm tm;
	time_t now;

	if (out->style->timestamps) {
		now = time(NULL);
		if (localtime_r(&now, &tm) && asctime_r(&tm, date))
			add(&out->ready, date, strcspn(date, "\n"));
	}
	add(&out->ready, out->label, strlen(out->label));
}

/* Add a line, or a piece of one, after the part of the line that was kept. */
static void add_line(struct hvd_output *out, const char *p, size_t n, bool whole)
{
	if (!out->within)
		add_label(out);
	add(&out->ready, out->line.p ? out->line.p : "", out->line.n);
	add(&out->ready, p, n);
	out->line.n = 0;
	out->within = !whole;
}

/* The length of the first line with its end, 0 if the end is not there yet. In Horovod's style, and without labels, a
 * carriage return ends a line too, so that progress bars move on the screen. */
static size_t line_length(const struct hvd_output *out, const char *p, size_t n)
{
	const char *nl = memchr(p, '\n', n);
	const char *cr = NULL;

	if (out->style->label == HVD_LABEL_HOROVOD || out->style->whole)
		cr = memchr(p, '\r', nl ? (size_t)(nl - p) : n);
	if (cr)
		nl = cr;
	return nl ? (size_t)(nl - p) + 1 : 0;
}

static void take(struct hvd_output *out, const char *p, size_t n)
{
	while (n > 0) {
		size_t len = line_length(out, p, n);

		if (len) {
			add_line(out, p, len, true);
		} else if (out->line.n + n >= HVD_FRAME_LINE) {
			len = n;
			add_line(out, p, len, false);
		} else {
			add(&out->line, p, n);
			len = n;
		}
		p += len;
		n -= len;
	}
	flush(out);
	if (out->silent && out->line.n)
		hvd_timer_in_ms(out->silent, SILENT_MS);
}

/* A question, for example, that ends without a line end: the rank may wait for the answer. */
static void on_silent(void *arg)
{
	struct hvd_output *out = arg;

	add_line(out, "", 0, false);
	flush(out);
}

/* The last line of a rank gets a line end if it has none, so that the next rank's line does not continue it. Without
 * labels no byte is added. */
static void take_rest(struct hvd_output *out)
{
	bool end = !out->style->whole || out->style->dir;

	if (out->line.n || out->within)
		add_line(out, end ? "\n" : "", end, true);
	flush(out);
}

/* Bytes have come. */
static void pass_piece(struct hvd_output *out, const char *p, size_t n)
{
	if (out->on_bytes)
		out->on_bytes(out->to_fd == STDOUT_FILENO ? HVD_STDOUT : HVD_STDERR, p, n, out->on_bytes_arg);
	if (by_line(out->style))
		take(out, p, n);
	else
		put(out, p, n);
}

/* Pass output on without the line of bind_line.h. */
static void pass(struct hvd_output *out, const char *p, size_t n)
{
	size_t at, len;

	while (out->to_fd != STDOUT_FILENO && hvd_bind_line_find(p, n, &at, &len)) {
		if (at > 0)
			pass_piece(out, p, at);
		p += at + len;
		n -= at + len;
	}
	if (n > 0)
		pass_piece(out, p, n);
}

static void release(struct hvd_output *out)
{
	if (out->link)
		*out->link = out->next;
	if (out->link && out->next)
		out->next->link = out->link;
	if (by_line(out->style))
		take_rest(out);
	event_free(out->readable);
	hvd_timer_free(out->silent);
	close(out->fd);
	/* A network file system may report only now that data could not be written. */
	if (out->file_fd >= 0 && close(out->file_fd) != 0 && errno != EINTR)
		lose(out, true, errno);
	free(out->file);
	free(out->line.p);
	free(out->ready.p);
	free(out->frame.p);
	free(out);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_output *out = arg;
	char buf[READ_AT_ONCE];
	ssize_t n;

	(void)what;
	if (out->style->sink && out->style->sink->full) {
		event_del(out->readable);
		return;
	}
	n = read(fd, buf, sizeof(buf));
	if (n > 0) {
		pass(out, buf, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		void (*ended)(void *arg) = out->ended;
		void *ended_arg = out->arg;

		release(out);
		ended(ended_arg);
	}
}

void hvd_output_sink_resume(struct hvd_output_sink *sink)
{
	sink->full = false;
	for (struct hvd_output *out = sink->first; out; out = out->next)
		event_add(out->readable, NULL);
}

static void enlist(struct hvd_output *out, struct hvd_output_sink *sink)
{
	out->link = &sink->first;
	out->next = sink->first;
	if (out->next)
		out->next->link = &out->next;
	sink->first = out;
}

static void set_label(struct hvd_output *out, struct hvd_output_rank rank, enum hvd_stream stream)
{
	const char *of = *rank.of ? ":" : "", *name = stream == HVD_STDOUT ? "stdout" : "stderr";

	if (out->style->label == HVD_LABEL_HOROVOD)
		snprintf(out->label, LABEL_MAX, "[%s%s%d]<%s>:", rank.of, of, rank.number, name);
	else if (out->style->label == HVD_LABEL_SRUN && *rank.of)
		snprintf(out->label, LABEL_MAX, "[%s:%d] ", rank.of, rank.number);
	else if (out->style->label == HVD_LABEL_SRUN)
		snprintf(out->label, LABEL_MAX, "%d: ", rank.number);
}

/* The user chose the folder, and may have come to it by links. What is below it is made here: others who can write in the
 * folder may have put something there first. */
static int open_file(struct hvd_output *out, struct hvd_output_rank rank, enum hvd_stream stream, struct hvd_err *err)
{
	int width = snprintf(NULL, 0, "%d", out->style->size > 0 ? out->style->size - 1 : 0);
	const char *name = stream == HVD_STDOUT ? "stdout" : "stderr", *of = out->style->dir;
	hvd_cleanup_close int dir = -1, of_ranks = -1, of_rank = -1;
	char of_these[HVD_OUTPUT_OF], of_this[32];

	snprintf(of_these, sizeof(of_these), "%s", rank.of);
	for (char *slash = of_these; (slash = strchr(slash, '/'));)
		*slash = '.';
	snprintf(of_this, sizeof(of_this), "rank.%0*d", width, rank.number);
	out->file = hvd_xasprintf("%s/%s%s%s/%s", of, of_these, *of_these ? "/" : "", of_this, name);
	if (mkdir(of, 0777) == 0 || errno == EEXIST)
		dir = open(of, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return hvd_err_sys(err, "cannot make the folder %s for the ranks' output", of);
	if (*of_these && (of_ranks = hvd_open_made_dir(dir, of_these)) < 0)
		return hvd_err_sys(err, "cannot make the folder %s/%s for the ranks' output", of, of_these);
	of_rank = hvd_open_made_dir(*of_these ? of_ranks : dir, of_this);
	if (of_rank < 0)
		return hvd_err_sys(err, "cannot make the folder %.*s for the ranks' output",
				   (int)(strrchr(out->file, '/') - out->file), out->file);
	out->file_fd = hvd_open_written(of_rank, name, out->style->append ? O_APPEND : O_TRUNC, false, 0666, err);
	if (out->file_fd >= 0)
		return 0;
	hvd_err_prefix(err, "cannot write the rank's output to %s", out->file);
	return hvd_err_hint(err, "remove it, or name another folder: --output-filename=FOLDER");
}

struct hvd_output *hvd_output_create(struct event_base *base, int fd, struct hvd_output_rank rank,
				     enum hvd_stream stream, const struct hvd_output_style *style,
				     void (*ended)(void *arg), void *arg, struct hvd_err *err)
{
	struct hvd_output *out = hvd_xcalloc(1, sizeof(*out));

	evutil_make_socket_nonblocking(fd);
	out->fd = fd;
	out->to_fd = stream == HVD_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
	out->file_fd = -1;
	out->style = style;
	out->ended = ended;
	out->arg = arg;
	set_label(out, rank, stream);
	if (style->dir && open_file(out, rank, stream, err) != 0) {
		close(fd);
		free(out->file);
		free(out);
		return NULL;
	}
	out->readable = hvd_event_watch(base, fd, EV_READ | EV_PERSIST, on_readable, out);
	if (style->whole)
		out->silent = hvd_timer_new(base, on_silent, out);
	if (style->sink)
		enlist(out, style->sink);
	return out;
}

void hvd_output_on_bytes(struct hvd_output *out, hvd_output_bytes_fn *on_bytes, void *arg)
{
	out->on_bytes = on_bytes;
	out->on_bytes_arg = arg;
}

/* Output that a process writes after the rank's end is not awaited. Not inlined: the compiler would have each page of
 * the buffer touched, which costs a shim without output time. */
static __attribute__((noinline)) void read_rest(struct hvd_output *out)
{
	char buf[READ_AT_ONCE];
	int left = 0;

	if (ioctl(out->fd, FIONREAD, &left) != 0)
		left = 0;
	while (left > 0) {
		ssize_t n = read(out->fd, buf, left < READ_AT_ONCE ? (size_t)left : READ_AT_ONCE);

		if (n <= 0)
			break;
		left -= (int)n;
		pass(out, buf, (size_t)n);
	}
}

void hvd_output_destroy(struct hvd_output *out)
{
	if (!out)
		return;
	read_rest(out);
	release(out);
}

/* stderr comes first: res must have passed it on before it sees the end of stdout. */
void hvd_output_settle(hvd_time deadline)
{
	static const int streams[] = {STDERR_FILENO, STDOUT_FILENO};

	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		struct pollfd pfd = {.fd = streams[i]}; /* POLLHUP alone */

		if (shutdown(streams[i], SHUT_WR) != 0)
			continue; /* no socket, or there is nobody */
		while (poll(&pfd, 1, hvd_left_ms(deadline)) < 0 && errno == EINTR)
			;
	}
}
