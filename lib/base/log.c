/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include "printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct hvd_log hvd_log_make(const char *prog, enum hvd_log_level level)
{
	struct hvd_log log = {.prog = prog, .level = level, .fd = STDERR_FILENO};

	return log;
}

/* A failure to write is ignored: there is nowhere to report it. */
static void write_line(int fd, const char *line, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, line, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		line += n;
		len -= (size_t)n;
	}
}

/* The local time as " 14:05:09.123"; empty below the debug level. */
static void tell_time(const struct hvd_log *log, char text[24])
{
	struct timespec now;
	struct tm tm;

	text[0] = '\0';
	if (log->level < HVD_LOG_DEBUG || clock_gettime(CLOCK_REALTIME, &now) != 0 || !localtime_r(&now.tv_sec, &tm))
		return;
	snprintf(text, 24, " %02u:%02u:%02u.%03u", (unsigned)tm.tm_hour % 24, (unsigned)tm.tm_min % 60,
		 (unsigned)tm.tm_sec % 61, (unsigned)(now.tv_nsec / 1000000) % 1000);
}

/* Append as much of `text` as fits, with its further lines indented, and a newline. Returns the new length. */
static size_t append(char *line, size_t size, size_t len, const char *text)
{
	static const char indent[] = "  ";

	for (const char *s = text; *s && len + sizeof(indent) + 1 < size; s++) {
		line[len++] = *s;
		if (*s == '\n' && s[1] != ' ') {
			memcpy(line + len, indent, sizeof(indent) - 1);
			len += sizeof(indent) - 1;
		}
	}
	line[len++] = '\n';
	return len;
}

/* `shown` and `line` have room for `size` bytes each. */
static void write_message(const struct hvd_log *log, enum hvd_log_level level, const char *text, char *shown,
			  char *line, size_t size)
{
	static const char *const mark[] = {"error: ", "warning: ", "", "", "debug: "};
	char when[24];
	size_t len;
	int n = log->of ? snprintf(shown, size, "%.64s: ", log->of) : 0;

	hvd_printable(text, shown + n, size - (size_t)n);
	if (log->sink) {
		log->sink(level, shown, log->arg);
		return;
	}
	tell_time(log, when);
	n = snprintf(line, size, "%s%s: %s", log->prog, when, mark[level]);
	len = n < 0 ? 0 : (size_t)n;
	len = append(line, size, len, shown);
	write_line(log->fd, line, len);
}

void hvd_log(const struct hvd_log *log, enum hvd_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char text[4096], shown[4096], line[4096];
	va_list ap;

	if (!log || level > log->level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	write_message(log, level, text, shown, line, sizeof(line));
	errno = saved;
}

void hvd_log_text(const struct hvd_log *log, enum hvd_log_level level, const char *text)
{
	int saved = errno;
	/* Room for every byte escaped, and for the indentation. */
	size_t size = 4 * strlen(text) + 256;
	char *both;

	if (!log || level > log->level)
		return;
	both = malloc(2 * size);
	if (both)
		write_message(log, level, text, both, both + size, size);
	else
		hvd_log(log, level, "%s", text);
	free(both);
	errno = saved;
}

void hvd_log_err(const struct hvd_log *log, const struct hvd_err *err)
{
	if (err->host[0])
		hvd_error(log, "%s: %s", err->host, err->msg);
	else
		hvd_error(log, "%s", err->msg);
	if (err->hint[0])
		hvd_log(log, HVD_LOG_INFO, "%s", err->hint);
}
