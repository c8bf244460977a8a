/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_error.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/tail.h"
#include "lib/base/xalloc.h"
#include "traceback.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST (1 << 20)

struct hvd_rank_error {
	unsigned lines;
	struct hvd_traceback *traceback;
	struct hvd_tail tail; /* of stderr */
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
	e->traceback = hvd_traceback_create();
	hvd_tail_init(&e->tail, HVD_RANK_END_TAIL);
	return e;
}

void hvd_rank_error_destroy(struct hvd_rank_error *e)
{
	if (!e)
		return;
	hvd_traceback_destroy(e->traceback);
	hvd_tail_clear(&e->tail);
	free(e->file);
	free(e);
}

void hvd_rank_error_stderr(struct hvd_rank_error *e, const char *bytes, size_t n, hvd_time now)
{
	hvd_tail_add(&e->tail, bytes, n);
	hvd_traceback_feed(e->traceback, bytes, n, now);
}

void hvd_rank_error_file(struct hvd_rank_error *e, const char *bytes, size_t n, hvd_time now)
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

	text = text ? text : "";
	stack = stack ? stack : "";
	if (!*stack && strstr(text, HVD_TRACEBACK_BEGIN)) {
		stack = text;
		text = "";
	}
	if (!*text && !*stack)
		return false;
	end->error = *text ? one_line(text, false) : one_line(stack, true);
	if (*stack || strchr(text, '\n'))
		end->traceback = shown(*stack ? stack : text, HVD_RANK_END_TRACEBACK);
	end->failed_at = e->file_at;
	return true;
}

/* Skip PyTorch's prefix of each line of a traceback, "[rank0]: ": the report names the rank anyway. */
static void remove_prefix(char *tail, const char *prefix)
{
	size_t n = strlen(prefix);
	char *to = tail;

	if (prefix[0] != '[')
		return;
	for (const char *line = tail, *next; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		if (strncmp(line, prefix, n) == 0)
			line += n;
		memmove(to, line, (size_t)(next - line));
		to += next - line;
	}
	*to = '\0';
}

/* The message of a shell or of the C library about a command that has crashed, without a line of the command itself. */
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

char *hvd_rank_error_lines(const struct hvd_rank_error *e, unsigned lines)
{
	return hvd_tail_lines(&e->tail, lines);
}

void hvd_rank_error_fill(struct hvd_rank_error *e, struct hvd_rank_end *end)
{
	hvd_cleanup_free char *tail = NULL;
	struct hvd_traceback_text found;

	if (end->status == 0)
		return;
	tail = hvd_rank_error_lines(e, e->lines);
	if (!fill_from_file(e, end) && hvd_traceback_found(e->traceback, end->ended_at, &found)) {
		end->error = shown(found.error, HVD_RANK_END_ERROR);
		end->traceback = shown(found.text, HVD_RANK_END_TRACEBACK);
		end->failed_at = found.began_at;
		remove_prefix(tail, found.prefix);
	} else if (!end->error) {
		end->error = crash_in(tail);
	}
	if (e->lines && tail[0])
		end->tail = shown(tail, HVD_RANK_END_TAIL);
}
