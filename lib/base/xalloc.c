/* SPDX-License-Identifier: Apache-2.0 */
#include "xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *must(void *p)
{
	static const char text[] = "hvd: error: out of memory\n";

	if (p)
		return p;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		/* nothing more to be done */
	}
	_exit(1);
}

void *hvd_xcalloc(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size ? size : 1));
}

void *hvd_xrealloc(void *p, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size)
		must(NULL);
	size *= n;
	return must(realloc(p, size ? size : 1));
}

void *hvd_xgrow(void *array, size_t n, size_t *room, size_t size)
{
	if (array && n < *room)
		return array;
	*room = *room ? 2 * *room : 16;
	return hvd_xrealloc(array, *room, size);
}

char *hvd_xstrdup(const char *s)
{
	return must(strdup(s));
}

char *hvd_xstrndup(const char *s, size_t n)
{
	return must(strndup(s, n));
}

char *hvd_xvasprintf(const char *fmt, va_list ap)
{
	char *s = NULL;

	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	return must(s);
}

char *hvd_xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = hvd_xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}

void hvd_xappendf(char **text, const char *fmt, ...)
{
	char *old = *text, *more;
	va_list ap;

	va_start(ap, fmt);
	more = hvd_xvasprintf(fmt, ap);
	va_end(ap);
	*text = hvd_xasprintf("%s%s", old ? old : "", more);
	free(old);
	free(more);
}
