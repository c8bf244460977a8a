/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_error.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

#define BEGIN "Traceback (most recent call last):"
#define GROUP "  + Exception Group "
/* What is looked at of a line, and kept of one in a traceback. */
#define LINE_MOST   1024
#define PREFIX_MOST 40
#define TEXT_MOST   HVD_RANK_END_TRACEBACK
/* A traceback that is too long loses lines behind these first bytes of it. */
#define TEXT_FIRST (TEXT_MOST / 4)
#define FILE_MOST  (1 << 20)
/* Lines behind the first line of an exception are part of its message if they come so soon, and so many. */
#define MESSAGE_TIME  (SECOND / 10)
#define MESSAGE_LINES 64
/* Other output that has come between the lines of a traceback. */
#define ODD_LINES 64
/* A failed program's last moments, in which it may write of other errors. */
#define LAST_MOMENTS (10 * SECOND)
/* A traceback was survived if the rank wrote more after its last moments, and ended so much later. */
#define SURVIVED (60 * SECOND)

static const char cut_mark[] = "[...]\n";

enum state {
	QUIET,   /* in no error */
	FRAMES,  /* behind BEGIN */
	MESSAGE, /* behind the line that names the exception */
	BLANK,   /* … and an empty line */
	CHAINED, /* behind the line that says that the next traceback belongs to this one */
	CRASH,   /* behind the first line of an error that is none of Python's exceptions */
};

struct hvd_rank_error {
	unsigned lines;
	/* The line whose end has not come yet: its first bytes, and its last. */
	char part[LINE_MOST], last[sizeof(BEGIN) - 1];
	size_t part_n, last_n;
	enum state state;
	bool ignored; /* the next traceback is one that Python ignores */
	int64_t now, message_at;
	int message_lines, odd_lines;
	char prefix[PREFIX_MOST + 1]; /* in front of each line of the traceback */
	int64_t began_at;             /* the error that was found last; 0 = none */
	char error[LINE_MOST + 1];    /* its line; empty until that has come */
	char *text;                   /* all of its lines; TEXT_MOST bytes and a zero byte */
	size_t text_n;
	bool cut;
	/* The last bytes of stderr, a ring, and how many there have ever been. */
	char *ring;
	uint64_t ring_n;
	char *file;
	size_t file_n;
	int64_t file_at;
};

bool hvd_rank_error_file_set(const char *value)
{
	static const char ours[] = "/proc/";
	size_t digits;

	if (!value || !*value)
		return false;
	if (strncmp(value, ours, sizeof(ours) - 1) != 0)
		return true;
	value += sizeof(ours) - 1;
	digits = strspn(value, "0123456789");
	return digits == 0 || strncmp(value + digits, "/fd/", 4) != 0;
}

struct hvd_rank_error *hvd_rank_error_create(unsigned lines)
{
	struct hvd_rank_error *e = hvd_xcalloc(1, sizeof(*e));

	e->lines = lines;
	e->ring = hvd_xcalloc(1, HVD_RANK_END_TAIL);
	return e;
}

void hvd_rank_error_destroy(struct hvd_rank_error *e)
{
	if (!e)
		return;
	free(e->ring);
	free(e->text);
	free(e->file);
	free(e);
}

static bool begins(const char *p, size_t n, const char *with)
{
	size_t len = strlen(with);

	return n >= len && memcmp(p, with, len) == 0;
}

/* Make room for so many bytes of text, where lines in the middle are dropped if there is none. */
static void make_room(struct hvd_rank_error *e, size_t n)
{
	size_t mark = sizeof(cut_mark) - 1, from, to;
	const char *nl;

	if (!e->text)
		e->text = hvd_xcalloc(1, TEXT_MOST + 1);
	if (e->text_n + n <= TEXT_MOST)
		return;
	nl = memchr(e->text + TEXT_FIRST, '\n', e->text_n - TEXT_FIRST);
	from = nl ? (size_t)(nl - e->text) + 1 : e->text_n;
	/* Drop a quarter at least, so that this is seldom done. */
	to = from + (e->cut ? mark : 0) + TEXT_MOST / 4;
	nl = to < e->text_n ? memchr(e->text + to, '\n', e->text_n - to) : NULL;
	to = nl ? (size_t)(nl - e->text) + 1 : e->text_n;
	if (to < from + mark)
		return;
	memcpy(e->text + from, cut_mark, mark);
	memmove(e->text + from + mark, e->text + to, e->text_n - to);
	e->text_n -= to - from - mark;
	e->cut = true;
}

static void add_text(struct hvd_rank_error *e, const char *p, size_t n)
{
	make_room(e, n + 1);
	if (e->text_n + n + 1 > TEXT_MOST)
		return;
	memcpy(e->text + e->text_n, p, n);
	e->text_n += n;
	e->text[e->text_n++] = '\n';
}

static void set_error(struct hvd_rank_error *e, const char *p, size_t n)
{
	n = n < LINE_MOST ? n : LINE_MOST;
	memcpy(e->error, p, n);
	e->error[n] = '\0';
}

static void new_error(struct hvd_rank_error *e)
{
	e->began_at = e->now;
	e->error[0] = '\0';
	e->text_n = 0;
	e->cut = false;
}

/* The line has BEGIN at its end, and this before it. Returns false if the line is part of something else. */
static bool begin_traceback(struct hvd_rank_error *e, const char *before, size_t n)
{
	bool chained = e->state == CHAINED;

	if (n >= 9 && memcmp(before + n - 9, "Original ", 9) == 0)
		return false; /* the message of an exception that torch has brought from another process */
	if (e->ignored && !chained) {
		e->ignored = false;
		e->state = QUIET;
		return true;
	}
	/* Anything else before it is a line that did not end, as progress bars are. */
	e->prefix[0] = '\0';
	if (n == sizeof(GROUP) - 1 && memcmp(before, GROUP, n) == 0)
		snprintf(e->prefix, sizeof(e->prefix), "  | ");
	else if (n > 3 && n <= PREFIX_MOST && before[0] == '[' && memcmp(before + n - 3, "]: ", 3) == 0)
		snprintf(e->prefix, sizeof(e->prefix), "%.*s", (int)n, before);
	if (!chained)
		new_error(e);
	add_text(e, BEGIN, sizeof(BEGIN) - 1);
	e->state = FRAMES;
	e->odd_lines = 0;
	return true;
}

/* "ValueError: …", "torch.cuda.OutOfMemoryError: …", "KeyboardInterrupt". */
static bool names_exception(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && (isalnum((unsigned char)p[i]) || strchr("_.<>", p[i]) || (p[i] & 0x80)) && p[i])
		i++;
	return i > 0 && !isdigit((unsigned char)p[0]) && (i == n || p[i] == ':');
}

static bool is_chain(const char *p, size_t n)
{
	return begins(p, n, "During handling of the above exception") ||
	       begins(p, n, "The above exception was the direct cause");
}

static bool is_crash(const char *p, size_t n)
{
	switch (n ? p[0] : '\0') {
	case 'F':
		return begins(p, n, "Fatal Python error: ");
	case 't':
		return begins(p, n, "terminate called ") ||
		       (begins(p, n, "thread '") && memmem(p, n, " panicked at ", 13));
	case 'l':
		return begins(p, n, "libc++abi: terminating ");
	default:
		return false;
	}
}

/* The line says that the next traceback is one that the program does not end by. */
static bool is_ignored(const char *p, size_t n)
{
	return begins(p, n, "Exception ignored in") || begins(p, n, "Error in atexit._run_exitfuncs");
}

static void in_quiet(struct hvd_rank_error *e, const char *p, size_t n)
{
	e->ignored = is_ignored(p, n);
	/* Programs that fail by an exception may crash while they end. */
	if (!is_crash(p, n) || (e->error[0] && e->now - e->began_at < LAST_MOMENTS))
		return;
	new_error(e);
	set_error(e, p, n);
	add_text(e, p, n);
	e->state = CRASH;
	e->message_at = e->now;
	e->message_lines = 0;
}

static void in_frames(struct hvd_rank_error *e, const char *p, size_t n)
{
	if (n && p[0] == ' ') {
		add_text(e, p, n);
	} else if (names_exception(p, n)) {
		add_text(e, p, n);
		set_error(e, p, n);
		e->state = MESSAGE;
		e->message_at = e->now;
		e->message_lines = 0;
	} else if (++e->odd_lines > ODD_LINES) {
		e->state = QUIET;
	}
}

/* Returns false if the line is not part of the message any more. */
static bool in_message(struct hvd_rank_error *e, const char *p, size_t n)
{
	if (e->now - e->message_at > MESSAGE_TIME || ++e->message_lines > MESSAGE_LINES || is_ignored(p, n))
		return false;
	if (n == 0) {
		e->state = BLANK;
		return true;
	}
	add_text(e, p, n);
	return true;
}

/* "  what():  TEXT" behind "terminate called after throwing an instance of 'TYPE'"; the message behind "thread 'main'
 * panicked at FILE:LINE:COLUMN:". */
static void in_crash(struct hvd_rank_error *e, const char *p, size_t n)
{
	static const char what[] = "  what():  ";
	char type[256], line[LINE_MOST + 1];
	size_t len = strlen(e->error);

	if (e->now - e->message_at > MESSAGE_TIME || ++e->message_lines > MESSAGE_LINES) {
		e->state = QUIET;
		return;
	}
	add_text(e, p, n);
	if (e->message_lines != 1)
		return;
	if (begins(p, n, what) &&
	    sscanf(e->error, "terminate called after throwing an instance of '%255[^\n]", type) == 1) {
		type[strlen(type) - (type[strlen(type) - 1] == '\'')] = '\0';
		snprintf(line, sizeof(line), "%s: %.*s", type, (int)(n - sizeof(what) + 1), p + sizeof(what) - 1);
		set_error(e, line, strlen(line));
	} else if (n && e->error[len - 1] == ':' && e->error[0] == 't') {
		snprintf(line, sizeof(line), "%s %.*s", e->error, (int)n, p);
		set_error(e, line, strlen(line));
	}
}

/* A line of stderr without its end, of which p and n are the first LINE_MOST bytes. */
static void line(struct hvd_rank_error *e, const char *p, size_t n, bool begin)
{
	size_t prefix = strlen(e->prefix);

	if (n && p[n - 1] == '\r')
		n--;
	if (begin && begin_traceback(e, p, n >= sizeof(BEGIN) - 1 ? n - sizeof(BEGIN) + 1 : 0))
		return;
	if (prefix && e->state != QUIET && e->state != CRASH) {
		if (!begins(p, n, e->prefix)) {
			/* Of another thread; empty lines have the prefix without the blank at its end, or none. */
			if (n >= prefix || memcmp(p, e->prefix, n) != 0)
				return;
			n = 0;
		} else {
			p += prefix;
			n -= prefix;
		}
	}
	switch (e->state) {
	case FRAMES:
		in_frames(e, p, n);
		return;
	case MESSAGE:
		if (in_message(e, p, n))
			return;
		break;
	case BLANK:
		if (is_chain(p, n)) {
			add_text(e, "", 0);
			add_text(e, p, n);
			add_text(e, "", 0);
			e->state = CHAINED;
			return;
		}
		break;
	case CHAINED:
		if (n == 0)
			return;
		break;
	case CRASH:
		in_crash(e, p, n);
		if (e->state == CRASH)
			return;
		break;
	case QUIET:
		break;
	}
	e->state = QUIET;
	in_quiet(e, p, n);
}

static void keep(struct hvd_rank_error *e, const char *bytes, size_t n)
{
	size_t at, first;

	e->ring_n += n;
	if (n > HVD_RANK_END_TAIL) {
		bytes += n - HVD_RANK_END_TAIL;
		n = HVD_RANK_END_TAIL;
	}
	at = (size_t)((e->ring_n - n) % HVD_RANK_END_TAIL);
	first = n < HVD_RANK_END_TAIL - at ? n : HVD_RANK_END_TAIL - at;
	memcpy(e->ring + at, bytes, first);
	memcpy(e->ring, bytes + first, n - first);
}

/* Add a piece of a line whose end had not come with its beginning. */
static void add_part(struct hvd_rank_error *e, const char *p, size_t n)
{
	size_t room = LINE_MOST - e->part_n, most = sizeof(e->last), kept;

	memcpy(e->part + e->part_n, p, n < room ? n : room);
	e->part_n += n < room ? n : room;
	if (n >= most) {
		memcpy(e->last, p + n - most, most);
		e->last_n = most;
		return;
	}
	kept = e->last_n + n > most ? most - n : e->last_n;
	memmove(e->last, e->last + e->last_n - kept, kept);
	memcpy(e->last + kept, p, n);
	e->last_n = kept + n;
}

static bool has_begin(const char *p, size_t n)
{
	return n >= sizeof(BEGIN) - 1 && p[n - 1] == ':' &&
	       memcmp(p + n - sizeof(BEGIN) + 1, BEGIN, sizeof(BEGIN) - 1) == 0;
}

static void end_part(struct hvd_rank_error *e)
{
	line(e, e->part, e->part_n, has_begin(e->last, e->last_n));
	e->part_n = e->last_n = 0;
}

void hvd_rank_error_stderr(struct hvd_rank_error *e, const char *bytes, size_t n, int64_t now)
{
	e->now = now;
	keep(e, bytes, n);
	while (n > 0) {
		const char *nl = memchr(bytes, '\n', n);
		size_t len = nl ? (size_t)(nl - bytes) : n;

		if (e->part_n || !nl) {
			add_part(e, bytes, len);
			if (nl)
				end_part(e);
		} else {
			line(e, bytes, len < LINE_MOST ? len : LINE_MOST, has_begin(bytes, len));
		}
		bytes += len + (nl != NULL);
		n -= len + (nl != NULL);
	}
}

void hvd_rank_error_file(struct hvd_rank_error *e, const char *bytes, size_t n, int64_t now)
{
	if (!e->file_at)
		e->file_at = now;
	if (n > FILE_MOST - e->file_n)
		n = FILE_MOST - e->file_n;
	if (!n)
		return;
	e->file = hvd_xrealloc(e->file, e->file_n + n, 1);
	memcpy(e->file + e->file_n, bytes, n);
	e->file_n += n;
}

/* Escaped, and not longer than `most` bytes. The caller frees it. */
static char *shown(const char *text, size_t most)
{
	char *out = hvd_xcalloc(1, most + 1);

	hvd_printable(text, out, most + 1);
	return out;
}

/* The first line of `text`, or the last one that is not empty. */
static char *one_line(const char *text, bool last)
{
	size_t n = strlen(text), from = 0;
	hvd_cleanup_free char *copy = NULL;

	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	for (size_t i = 0; last && i < n; i++)
		if (text[i] == '\n')
			from = i + 1;
	while (!last && from < n && isspace((unsigned char)text[from]))
		from++;
	copy = hvd_xstrndup(text + from, n - from);
	copy[strcspn(copy, "\n")] = '\0';
	return shown(copy, HVD_RANK_END_ERROR);
}

/* The error file's contents. Returns false if they do not name an error. */
static bool fill_from_file(const struct hvd_rank_error *e, struct hvd_rank_end *end)
{
	json_auto_t *file =
		e->file_n ? json_loadb(e->file, e->file_n, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL) : NULL;
	const json_t *message = json_object_get(file, "message");
	const char *text = json_string_value(json_is_object(message) ? json_object_get(message, "message") : message);
	const char *stack = json_string_value(json_object_get(json_object_get(message, "extraInfo"), "py_callstack"));

	if (!stack && text && strstr(text, BEGIN)) {
		stack = text;
		text = NULL;
	}
	if ((!text || !*text) && (!stack || !*stack))
		return false;
	end->error = text && *text ? one_line(text, false) : one_line(stack, true);
	if (stack && *stack)
		end->traceback = shown(stack, HVD_RANK_END_TRACEBACK);
	else if (strchr(text, '\n'))
		end->traceback = shown(text, HVD_RANK_END_TRACEBACK);
	end->failed_at = e->file_at;
	return true;
}

static bool survived(const struct hvd_rank_error *e, const struct hvd_rank_end *end)
{
	return e->now - e->began_at > LAST_MOMENTS && end->ended_at - e->began_at > SURVIVED;
}

/* Where the last lines begin in `tail`. */
static size_t lines_begin(const char *tail, size_t n, unsigned lines)
{
	size_t at = n && tail[n - 1] == '\n' ? n - 1 : n;

	while (at > 0 && (tail[at - 1] != '\n' || --lines > 0))
		at--;
	return at;
}

/* The last lines of stderr as a string. */
static char *last_lines(const struct hvd_rank_error *e)
{
	size_t n = e->ring_n < HVD_RANK_END_TAIL ? (size_t)e->ring_n : HVD_RANK_END_TAIL, from;
	hvd_cleanup_free char *tail = hvd_xcalloc(1, n + 1), *marked = NULL;
	const char *nl;

	for (size_t i = 0; i < n; i++) {
		tail[i] = e->ring[(e->ring_n - n + i) % HVD_RANK_END_TAIL];
		if (!tail[i])
			tail[i] = ' ';
	}
	from = lines_begin(tail, n, e->lines);
	if (from > 0 || e->ring_n <= HVD_RANK_END_TAIL)
		return hvd_xstrdup(tail + from);
	/* Fewer lines than asked for; the first is cut. */
	nl = strchr(tail, '\n');
	marked = hvd_xasprintf("%s%s", cut_mark, nl && nl[1] ? nl + 1 : tail + sizeof(cut_mark));
	return hvd_take_ptr(&marked);
}

/* What a shell or the C library says of a command that has crashed, without a line of the command itself. */
static char *crash_in(const char *tail)
{
	static const char *const crashes[] = {"Segmentation fault",      "Bus error",
					      "Illegal instruction",     "Floating point exception",
					      "Aborted (core dumped)",   "double free or corruption",
					      "stack smashing detected", "error while loading shared libraries"};

	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
		const char *at = strstr(tail, crashes[i]);

		while (at && at > tail && at[-1] != '\n')
			at--;
		if (at)
			return one_line(at, false);
	}
	return NULL;
}

void hvd_rank_error_fill(struct hvd_rank_error *e, struct hvd_rank_end *end)
{
	hvd_cleanup_free char *tail = NULL;

	if (end->status == 0)
		return;
	if (e->part_n)
		end_part(e);
	tail = last_lines(e);
	if (!fill_from_file(e, end) && e->error[0] && !survived(e, end)) {
		e->text[e->text_n] = '\0';
		for (size_t i = 0; i < e->text_n; i++)
			if (!e->text[i])
				e->text[i] = ' ';
		end->error = shown(e->error, HVD_RANK_END_ERROR);
		end->traceback = shown(e->text, HVD_RANK_END_TRACEBACK);
		end->failed_at = e->began_at;
	} else if (!end->error) {
		end->error = crash_in(tail);
	}
	if (e->lines && tail[0])
		end->tail = shown(tail, HVD_RANK_END_TAIL);
}
