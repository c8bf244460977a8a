/* SPDX-License-Identifier: Apache-2.0 */
#include "switch_path.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-[],"

bool hvd_switch_path_valid(const char *path)
{
	size_t len = strlen(path);

	if (len == 0 || len > HVD_SWITCH_PATH_MAX)
		return false;
	for (;;) {
		size_t n = strspn(path, NAME_CHARS);

		if (n == 0 || (path[n] && path[n] != '.'))
			return false;
		if (!path[n])
			return true;
		path += n + 1;
	}
}

static size_t count(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

char *hvd_switch_path_of(const char *addr, const char *pattern)
{
	const char *node = addr ? strrchr(addr, '.') : NULL, *last = pattern ? strrchr(pattern, '.') : NULL;
	char *path;

	/* A name with a dot in it cannot be told from two. */
	if (!node || !last || strcmp(last, ".node") != 0 || count(addr, '.') != count(pattern, '.'))
		return NULL;
	path = hvd_xstrndup(addr, (size_t)(node - addr));
	if (hvd_switch_path_valid(path))
		return path;
	free(path);
	return NULL;
}

size_t hvd_switch_path_shared(const char *a, const char *b)
{
	size_t n = 0;

	while (a && b) {
		size_t len = strcspn(a, ".");

		if (len != strcspn(b, ".") || strncmp(a, b, len) != 0)
			break;
		n++;
		a = a[len] ? a + len + 1 : NULL;
		b = b[len] ? b + len + 1 : NULL;
	}
	return n;
}

bool hvd_switch_path_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}
