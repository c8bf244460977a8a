/* SPDX-License-Identifier: Apache-2.0 */
#include "gres.h"

#include "lib/base/digits.h"

#include <string.h>

#define MAX_GPUS 65536

/* The length of the element at p; a comma within parentheses does not end it. */
static size_t element_len(const char *p)
{
	size_t n = 0;
	int depth = 0;

	for (; p[n] && (p[n] != ',' || depth > 0); n++)
		depth += p[n] == '(' ? 1 : p[n] == ')' ? -1 : 0;
	return n;
}

/* The GPUs of one element, without "gres/" and parentheses; 0 if it is another resource, -1 if it is malformed. */
static long element(const char *p, size_t n)
{
	size_t last = n;

	if (n < 3 || memcmp(p, "gpu", 3) != 0 || (n > 3 && p[3] != ':' && p[3] != '='))
		return 0;
	while (p[last - 1] != ':' && p[last - 1] != '=' && last > 3)
		last--;
	if (last == 3)
		return n == 3 ? 1 : -1; /* "gpu": one of them */
	/* "gpu:tesla" names a type and means one; "gpu:tesla:2", "gpu:tesla=2" and "gpu:2" have a number last. */
	if (last < n && (p[last] < '0' || p[last] > '9') && p[last - 1] == ':')
		return 1;
	return hvd_digits(p + last, n - last, MAX_GPUS);
}

int hvd_gres_gpus(const char *text)
{
	long sum = 0;

	for (;;) {
		size_t len = element_len(text), n = len, head = 0;
		const char *paren = memchr(text, '(', len);
		long gpus;

		if (paren) {
			if (text[len - 1] != ')')
				return -1;
			n = (size_t)(paren - text);
		}
		if (n >= 5 && (memcmp(text, "gres/", 5) == 0 || memcmp(text, "gres:", 5) == 0))
			head = 5;
		gpus = element(text + head, n - head);
		if (gpus < 0 || (sum += gpus) > MAX_GPUS)
			return -1;
		if (text[len] == '\0')
			return (int)sum;
		text += len + 1;
	}
}
