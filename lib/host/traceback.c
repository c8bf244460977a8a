/* SPDX-License-Identifier: Apache-2.0 */
#include "traceback.h"

#include "lib/base/xalloc.h"
#include "rank_end.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

#define BEGIN HVD_TRACEBACK_BEGIN
#define GROUP "  + Exception Group "
/* The most bytes that are read of a line, and of a prefix. */
#define LINE_MOST   1024
#define PREFIX_MOST 40
#define TEXT_MOST   HVD_RANK_END_TRACEBACK
/* A traceback that is too long loses lines behind these first bytes of it. */
#define TEXT_FIRST (TEXT_MOST / 4)
/* Lines behind the first line of an exception are part of its message if they come so soon, and so many. */
#define MESSAGE_TIME  (SECOND / 10)
#define MESSAGE_LINES 64
/* Other output that has come between the lines of a traceback. */
#define ODD_LINES 64
/* In its last moments a failed program may write of other errors. */
#define LAST_MOMENTS (10 * SECOND)
/* A traceback was survived if the rank wrote more after its last moments, and ended so much later. */
#define SURVIVED (60 * SECOND)

static const char cut_mark[] = "[...]\n";

enum state {
	QUIET,   /* in no error */
	FRAMES,  /* behind BEGIN */
	MESSAGE, /* behind the line that names the exception */
	BLANK,   /* behind an empty line after that */
	CHAINED, /* behind the line that says that the next traceback belongs to this one */
	CRASH,   /* behind the first line of an error that is none of Python's exceptions */
};

struct hvd_traceback {
	/* The line whose end has not come yet: its first bytes, and its last. */
	char part[LINE_MOST], last[sizeof(BEGIN) - 1];
	size_t part_n, last_n;
	enum state state;
	bool ignored; /* the next traceback is one that Python ignores */
	hvd_time now, message_at;
	int message_lines, odd_lines;
	char prefix[PREFIX_MOST + 1]; /* in front of each line of the traceback */
	int64_t began_at;             /* the error that was found last; 0 = none */
	char error[LINE_MOST + 1];    /* its line; empty until that has come */
	char *text;                   /* all of its lines; TEXT_MOST bytes and a zero byte; NULL = none yet */
	size_t text_n;
	bool cut;
};

struct hvd_traceback *hvd_traceback_create(void)
{
	return hvd_xcalloc(1, sizeof(struct hvd_traceback));
}

void hvd_traceback_destroy(struct hvd_traceback *tb)
{
	if (tb)
		free(tb->text);
	free(tb);
}

static bool begins(const char *p, size_t n, const char *with)
{
	size_t len = strlen(with);

	return n >= len && memcmp(p, with, len) == 0;
}

/* Make room for so many bytes of text, where lines in the middle are dropped if there is none. */
static void make_room(struct hvd_traceback *tb, size_t n)
{
	size_t mark = sizeof(cut_mark) - 1, from, to;
	const char *nl;

	if (!tb->text)
		tb->text = hvd_xcalloc(1, TEXT_MOST + 1);
	if (tb->text_n + n <= TEXT_MOST)
		return;
	nl = memchr(tb->text + TEXT_FIRST, '\n', tb->text_n - TEXT_FIRST);
	from = nl ? (size_t)(nl - tb->text) + 1 : tb->text_n;
	/* Drop a quarter at least, so that this is seldom done. */
	to = from + (tb->cut ? mark : 0) + TEXT_MOST / 4;
	nl = to < tb->text_n ? memchr(tb->text + to, '\n', tb->text_n - to) : NULL;
	to = nl ? (size_t)(nl - tb->text) + 1 : tb->text_n;
	if (to < from + mark)
		return;
	memcpy(tb->text + from, cut_mark, mark);
	memmove(tb->text + from + mark, tb->text + to, tb->text_n - to);
	tb->text_n -= to - from - mark;
	tb->cut = true;
}

static void add_text(struct hvd_traceback *tb, const char *p, size_t n)
{
	make_room(tb, n + 1);
	if (tb->text_n + n + 1 > TEXT_MOST)
		return;
	memcpy(tb->text + tb->text_n, p, n);
	tb->text_n += n;
	tb->text[tb->text_n++] = '\n';
}

static void set_error(struct hvd_traceback *tb, const char *p, size_t n)
{
	n = n < LINE_MOST ? n : LINE_MOST;
	memcpy(tb->error, p, n);
	tb->error[n] = '\0';
}

static void new_error(struct hvd_traceback *tb)
{
	tb->began_at = tb->now;
	tb->error[0] = '\0';
	tb->text_n = 0;
	tb->cut = false;
}

/* The line has BEGIN at its end, and this before it. Returns false if the line is part of something else. */
static bool begin_traceback(struct hvd_traceback *tb, const char *before, size_t n)
{
	bool chained = tb->state == CHAINED;

	if (n >= 9 && memcmp(before + n - 9, "Original ", 9) == 0)
		return false; /* the message of an exception that torch has brought from another process */
	if (tb->ignored && !chained) {
		tb->ignored = false;
		tb->state = QUIET;
		return true;
	}
	/* Anything else before it is a line that did not end, as progress bars are. */
	tb->prefix[0] = '\0';
	if (n == sizeof(GROUP) - 1 && memcmp(before, GROUP, n) == 0)
		snprintf(tb->prefix, sizeof(tb->prefix), "  | ");
	else if (n > 3 && n <= PREFIX_MOST && before[0] == '[' && memcmp(before + n - 3, "]: ", 3) == 0)
		snprintf(tb->prefix, sizeof(tb->prefix), "%.*s", (int)n, before);
	if (!chained)
		new_error(tb);
	add_text(tb, BEGIN, sizeof(BEGIN) - 1);
	tb->state = FRAMES;
	tb->odd_lines = 0;
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

/* The line announces a traceback that does not end the program. */
static bool is_ignored(const char *p, size_t n)
{
	return begins(p, n, "Exception ignored in") || begins(p, n, "Error in atexit._run_exitfuncs");
}

static void in_quiet(struct hvd_traceback *tb, const char *p, size_t n)
{
	tb->ignored = is_ignored(p, n);
	/* Programs that fail by an exception may crash while they end. */
	if (!is_crash(p, n) || (tb->error[0] && tb->now - tb->began_at < LAST_MOMENTS))
		return;
	new_error(tb);
	set_error(tb, p, n);
	add_text(tb, p, n);
	tb->state = CRASH;
	tb->message_at = tb->now;
	tb->message_lines = 0;
}

static void in_frames(struct hvd_traceback *tb, const char *p, size_t n)
{
	if (n && p[0] == ' ') {
		add_text(tb, p, n);
	} else if (names_exception(p, n)) {
		add_text(tb, p, n);
		set_error(tb, p, n);
		tb->state = MESSAGE;
		tb->message_at = tb->now;
		tb->message_lines = 0;
	} else if (++tb->odd_lines > ODD_LINES) {
		tb->state = QUIET;
	}
}

/* Returns false if the line is not part of the message any more. */
static bool in_message(struct hvd_traceback *tb, const char *p, size_t n)
{
	if (tb->now - tb->message_at > MESSAGE_TIME || ++tb->message_lines > MESSAGE_LINES || is_ignored(p, n))
		return false;
	if (n == 0) {
		tb->state = BLANK;
		return true;
	}
	add_text(tb, p, n);
	return true;
}

/* "  what():  TEXT" behind "terminate called after throwing an instance of 'TYPE'"; the message behind "thread 'main'
 * panicked at FILE:LINE:COLUMN:". */
static void in_crash(struct hvd_traceback *tb, const char *p, size_t n)
{
	static const char what[] = "  what():  ";
	char type[256], line[LINE_MOST + 1];
	size_t len = strlen(tb->error);

	if (tb->now - tb->message_at > MESSAGE_TIME || ++tb->message_lines > MESSAGE_LINES) {
		tb->state = QUIET;
		return;
	}
	add_text(tb, p, n);
	if (tb->message_lines != 1)
		return;
	if (begins(p, n, what) &&
	    sscanf(tb->error, "terminate called after throwing an instance of '%255[^\n]", type) == 1) {
		type[strlen(type) - (type[strlen(type) - 1] == '\'')] = '\0';
		snprintf(line, sizeof(line), "%s: %.*s", type, (int)(n - sizeof(what) + 1), p + sizeof(what) - 1);
		set_error(tb, line, strlen(line));
	} else if (n && tb->error[len - 1] == ':' && tb->error[0] == 't') {
		snprintf(line, sizeof(line), "%s %.*s", tb->error, (int)n, p);
		set_error(tb, line, strlen(line));
	}
}

/* A line of stderr without its end, of which p and n are the first LINE_MOST bytes. */
static void line(struct hvd_traceback *tb, const char *p, size_t n, bool begin)
{
	size_t prefix = strlen(tb->prefix);

	if (n && p[n - 1] == '\r')
		n--;
	if (begin && begin_traceback(tb, p, n >= sizeof(BEGIN) - 1 ? n - sizeof(BEGIN) + 1 : 0))
		return;
	if (prefix && tb->state != QUIET && tb->state != CRASH) {
		if (!begins(p, n, tb->prefix)) {
			/* Of another thread; empty lines have the prefix without the blank at its end, or none. */
			if (n >= prefix || memcmp(p, tb->prefix, n) != 0)
				return;
			n = 0;
		} else {
			p += prefix;
			n -= prefix;
		}
	}
	switch (tb->state) {
	case FRAMES:
		in_frames(tb, p, n);
		return;
	case MESSAGE:
		if (in_message(tb, p, n))
			return;
		break;
	case BLANK:
		if (is_chain(p, n)) {
			add_text(tb, "", 0);
			add_text(tb, p, n);
			add_text(tb, "", 0);
			tb->state = CHAINED;
			return;
		}
		break;
	case CHAINED:
		if (n == 0)
			return;
		break;
	case CRASH:
		in_crash(tb, p, n);
		if (tb->state == CRASH)
			return;
		break;
	case QUIET:
		break;
	}
	tb->state = QUIET;
	in_quiet(tb, p, n);
}

/* Add a piece of a line whose end had not come with its beginning. */
static void add_part(struct hvd_traceback *tb, const char *p, size_t n)
{
	size_t room = LINE_MOST - tb->part_n, most = sizeof(tb->last), kept;

	memcpy(tb->part + tb->part_n, p, n < room ? n : room);
	tb->part_n += n < room ? n : room;
	if (n >= most) {
		memcpy(tb->last, p + n - most, most);
		tb->last_n = most;
		return;
	}
	kept = tb->last_n + n > most ? most - n : tb->last_n;
	memmove(tb->last, tb->last + tb->last_n - kept, kept);
	memcpy(tb->last + kept, p, n);
	tb->last_n = kept + n;
}

static bool has_begin(const char *p, size_t n)
{
	return n >= sizeof(BEGIN) - 1 && p[n - 1] == ':' &&
	       memcmp(p + n - sizeof(BEGIN) + 1, BEGIN, sizeof(BEGIN) - 1) == 0;
}

static void end_part(struct hvd_traceback *tb)
{
	line(tb, tb->part, tb->part_n, has_begin(tb->last, tb->last_n));
	tb->part_n = tb->last_n = 0;
}

void hvd_traceback_feed(struct hvd_traceback *tb, const char *bytes, size_t n, hvd_time now)
{
	tb->now = now;
	while (n > 0) {
		const char *nl = memchr(bytes, '\n', n);
		size_t len = nl ? (size_t)(nl - bytes) : n;

		if (tb->part_n || !nl) {
			add_part(tb, bytes, len);
			if (nl)
				end_part(tb);
		} else {
			line(tb, bytes, len < LINE_MOST ? len : LINE_MOST, has_begin(bytes, len));
		}
		bytes += len + (nl != NULL);
		n -= len + (nl != NULL);
	}
}

bool hvd_traceback_found(struct hvd_traceback *tb, hvd_time ended_at, struct hvd_traceback_text *found)
{
	if (tb->part_n)
		end_part(tb);
	if (!tb->error[0] || (tb->now - tb->began_at > LAST_MOMENTS && ended_at - tb->began_at > SURVIVED))
		return false;
	tb->text[tb->text_n] = '\0';
	for (size_t i = 0; i < tb->text_n; i++)
		if (!tb->text[i])
			tb->text[i] = ' ';
	*found = (struct hvd_traceback_text){
		.began_at = tb->began_at, .error = tb->error, .text = tb->text, .prefix = tb->prefix};
	return true;
}
