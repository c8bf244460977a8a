/* SPDX-License-Identifier: Apache-2.0 */
#include "status_lines.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *make_safe(const char *text)
{
	const size_t size = 4 * strlen(text) + 1;
	char *safe = hvd_xcalloc(1, size);

	hvd_printable_line(text, safe, size);
	return safe;
}

void hvd_status_add(struct hvd_status_lines *lines, enum hvd_status_kind kind, char *text)
{
	lines->v = hvd_xrealloc(lines->v, lines->n + 1, sizeof(*lines->v));
	lines->v[lines->n++] = (struct hvd_status_line){.text = make_safe(text), .kind = kind};
	free(text);
}

void hvd_status_wrap(struct hvd_status_lines *lines, enum hvd_status_kind kind, size_t indent, size_t width,
		     const char *format, ...)
{
	hvd_cleanup_free char *given = NULL, *safe = NULL;
	char *line = NULL;
	const char *text;
	size_t column = 0, left = indent;
	va_list ap;

	va_start(ap, format);
	given = hvd_xvasprintf(format, ap);
	va_end(ap);
	safe = make_safe(given);
	for (text = safe; *text; text += strspn(text, " ")) {
		const size_t word = strcspn(text, " ");

		if (column > 0 && column + 1 + word > width) {
			hvd_status_add(lines, kind, line);
			line = NULL;
			column = 0;
			left = indent + 2;
		}
		if (column == 0)
			hvd_xappendf(&line, "%*s", (int)left, "");
		hvd_xappendf(&line, "%s%.*s", column ? " " : "", (int)word, text);
		column = (column ? column + 1 : left) + word;
		text += word;
	}
	hvd_status_add(lines, kind, line ? line : hvd_xstrdup(""));
}

void hvd_status_lines_clear(struct hvd_status_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		free(lines->v[i].text);
	free(lines->v);
	*lines = (struct hvd_status_lines){0};
}
