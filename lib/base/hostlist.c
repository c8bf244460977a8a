/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a host list expression one that libslurm may be given? It ends the process for "too many ranges".
 */
#include "hostlist.h"

#include "size.h"

#include <string.h>

#define MAX_NAME   255
#define MAX_DIGITS 18 /* fits an unsigned long of 64 bits */

/* One number at *p; returns how many digits it has. */
static size_t digits(const char **p, unsigned long long *value)
{
	size_t n = 0;

	for (*value = 0; **p >= '0' && **p <= '9' && n <= MAX_DIGITS; (*p)++, n++)
		*value = *value * 10 + (unsigned)(**p - '0');
	return n;
}

/* "1-3,07]" at *p; moves behind the bracket. Returns how many numbers it stands for, 0 when it is malformed
 * or stands for more than max. *width: digits of the longest. */
static size_t ranges(const char **p, size_t max, size_t *width)
{
	size_t count = 0;

	*width = 0;
	for (;;) {
		unsigned long long lo, hi;
		size_t n = digits(p, &lo);

		if (n == 0 || n > MAX_DIGITS)
			return 0;
		*width = n > *width ? n : *width;
		hi = lo;
		if (**p == '-') {
			(*p)++;
			n = digits(p, &hi);
			if (n == 0 || n > MAX_DIGITS || hi < lo)
				return 0;
			*width = n > *width ? n : *width;
		}
		if (hi - lo >= max - count)
			return 0;
		count += (size_t)(hi - lo) + 1;
		if (**p == ']') {
			(*p)++;
			return count;
		}
		if (*(*p)++ != ',')
			return 0;
	}
}

static int name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
	       c == '.';
}

/* One element, up to a comma or the end. Returns how many names it stands for, 0 when it is no good. */
static size_t element(const char **p, size_t max)
{
	size_t count = 1, len = 0;

	while (**p && **p != ',') {
		if (**p == '[') {
			size_t width, n;

			(*p)++;
			n = ranges(p, max, &width);
			if (n == 0 || n > max / count)
				return 0;
			count *= n;
			len += width;
		} else if (name_char(**p)) {
			(*p)++;
			len++;
		} else {
			return 0;
		}
	}
	return len > 0 && len <= MAX_NAME && count <= max ? count : 0;
}

int hvd_hostlist_check(const char *expr, size_t max_hosts, size_t *count, struct hvd_err *err)
{
	const char *p = expr;

	*count = 0;
	if (max_hosts > HVD_MAX_HOSTS)
		max_hosts = HVD_MAX_HOSTS;
	for (;;) {
		size_t n = element(&p, HVD_MAX_HOSTS);

		if (n == 0)
			return hvd_err_set(err, HVD_E_PROTO, "'%.200s' is no list of hosts like 'n[1-4],gpu07'", expr);
		if (n > max_hosts - *count)
			return hvd_err_set(err, HVD_E_LIMIT, "'%.200s' stands for more than %zu hosts", expr,
					   max_hosts);
		*count += n;
		if (*p == '\0')
			return 0;
		p++;
	}
}
