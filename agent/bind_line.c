/* SPDX-License-Identifier: Apache-2.0 */
#include "bind_line.h"

#include <ctype.h>
#include <string.h>

static const char head[] = "[E", source[] = " TCPStore.cpp:", what[] = "] [c10d] The server socket on ",
		  end[] = " has failed to bind. TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n";

/* Does the text end with `with` in front of `at`? Returns where that begins, or NULL. */
static const char *before(const char *text, const char *at, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(at - text) >= n && memcmp(at - n, with, n) == 0 ? at - n : NULL;
}

static const char *skip_digits_back(const char *text, const char *at)
{
	while (at > text && isdigit((unsigned char)at[-1]))
		at--;
	return at;
}

/* The line that ends with `tail` at `tail_at`. */
static const char *line_start(const char *text, const char *tail_at)
{
	const char *at = before(text, skip_digits_back(text, tail_at), what);

	at = at ? before(text, skip_digits_back(text, at), source) : NULL;
	while (at && at > text && at[-1] != '\n' && tail_at - at < HVD_BIND_LINE_MAX - (long)sizeof(end))
		at--;
	if (!at || (at > text && at[-1] != '\n') || strncmp(at, head, sizeof(head) - 1) != 0)
		return NULL;
	return at;
}

bool hvd_bind_line_find(const char *bytes, size_t len, size_t *at, size_t *n)
{
	const char *tail = bytes;

	while ((tail = memmem(tail, len - (size_t)(tail - bytes), end, sizeof(end) - 1))) {
		const char *start = line_start(bytes, tail);

		tail += sizeof(end) - 1;
		if (!start)
			continue;
		*at = (size_t)(start - bytes);
		*n = (size_t)(tail - start);
		return true;
	}
	return false;
}
