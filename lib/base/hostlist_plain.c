/* SPDX-License-Identifier: Apache-2.0 */
/* Host list expressions without libslurm: the same names in the same order as hostlist_slurm.c finds. */
#include "hostlist.h"

#ifndef HVD_WITH_SLURM

#include "xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No longer than this: hvd_hostlist_check() has seen the expression. */
#define NAME_SIZE 256

/* Appends what stands at p, up to a comma or the end, to name[0..len), once for each number of its brackets; the last
 * bracket counts fastest. A bracket is at least a character of the name, so the depth is limited with its length. */
static void expand_element(const char *p, char *name, size_t len, struct hvd_strv *names)
{
	size_t plain = strcspn(p, "[,");

	memcpy(name + len, p, plain);
	len += plain;
	p += plain;
	if (*p != '[') {
		name[len] = '\0';
		hvd_strv_add(names, name);
		return;
	}
	for (const char *rest = strchr(p, ']') + 1; *p != ']';) {
		char *end;
		unsigned long lo = strtoul(++p, &end, 10), hi;
		int width = (int)(end - p);

		hi = *end == '-' ? strtoul(end + 1, &end, 10) : lo;
		for (unsigned long n = lo; n <= hi; n++) {
			int digits = snprintf(name + len, NAME_SIZE - len, "%0*lu", width, n);

			expand_element(rest, name, len + (size_t)digits, names);
		}
		p = end;
	}
}

int hvd_hostlist_expand(const char *expr, size_t max_hosts, struct hvd_strv *names, struct hvd_err *err)
{
	char name[NAME_SIZE];
	size_t count;

	if (hvd_hostlist_check(expr, max_hosts, &count, err) < 0)
		return -1;
	for (const char *p = expr; p; p = *p == ',' ? p + 1 : NULL) {
		expand_element(p, name, 0, names);
		/* The comma behind the element; those in brackets are its own. */
		for (int depth = 0; *p && (depth || *p != ','); p++)
			depth += (*p == '[') - (*p == ']');
	}
	return 0;
}

char *hvd_hostlist_compress(char *const *names, size_t n)
{
	char *text = hvd_xstrdup("");

	for (size_t i = 0; i < n; i++) {
		char *longer = hvd_xasprintf("%s%s%s", text, i ? "," : "", names[i]);

		free(text);
		text = longer;
	}
	return text;
}

#endif
