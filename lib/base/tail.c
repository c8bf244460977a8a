/* SPDX-License-Identifier: Apache-2.0 */
#include "tail.h"

#include "cleanup.h"
#include "xalloc.h"

#include <stdlib.h>
#include <string.h>

static const char cut_mark[] = "[...]\n";

void hvd_tail_init(struct hvd_tail *tail, size_t size)
{
	*tail = (struct hvd_tail){.ring = hvd_xcalloc(1, size), .size = size};
}

void hvd_tail_clear(struct hvd_tail *tail)
{
	free(tail->ring);
	*tail = (struct hvd_tail){0};
}

void hvd_tail_add(struct hvd_tail *tail, const char *bytes, size_t n)
{
	size_t at, first;

	tail->n += n;
	if (n > tail->size) {
		bytes += n - tail->size;
		n = tail->size;
	}
	at = (size_t)((tail->n - n) % tail->size);
	first = n < tail->size - at ? n : tail->size - at;
	memcpy(tail->ring + at, bytes, first);
	memcpy(tail->ring, bytes + first, n - first);
}

/* Where the last lines begin in `text`. */
static size_t lines_begin(const char *text, size_t n, unsigned lines)
{
	size_t at = n && text[n - 1] == '\n' ? n - 1 : n;

	while (at > 0 && (text[at - 1] != '\n' || --lines > 0))
		at--;
	return at;
}

char *hvd_tail_lines(const struct hvd_tail *tail, unsigned lines)
{
	size_t n = tail->n < tail->size ? (size_t)tail->n : tail->size, from;
	hvd_cleanup_free char *text = hvd_xcalloc(1, n + 1), *marked = NULL;
	const char *nl;

	for (size_t i = 0; i < n; i++) {
		text[i] = tail->ring[(tail->n - n + i) % tail->size];
		if (!text[i])
			text[i] = ' ';
	}
	from = lines_begin(text, n, lines);
	if (from > 0 || tail->n <= tail->size)
		return hvd_xstrdup(text + from);
	/* Fewer lines than asked for; the first is cut. */
	nl = strchr(text, '\n');
	marked = hvd_xasprintf("%s%s", cut_mark, nl && nl[1] ? nl + 1 : text + sizeof(cut_mark));
	return hvd_take_ptr(&marked);
}
