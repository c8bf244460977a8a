/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle.h"

#include <string.h>

static void put(struct hvd_pickler *p, const void *bytes, size_t n)
{
	if (p->n <= p->room && n <= p->room - p->n && n)
		memcpy(p->bytes + p->n, bytes, n);
	p->n += n;
}

void hvd_pickler_op(struct hvd_pickler *p, unsigned char op)
{
	put(p, &op, 1);
}

void hvd_pickler_begin(struct hvd_pickler *p)
{
	put(p, (const unsigned char[]){HVD_OP_PROTO, 4}, 2);
}

void hvd_pickler_int(struct hvd_pickler *p, int64_t number)
{
	unsigned char b[10];
	size_t head = 1, bytes = 4;

	b[0] = HVD_OP_BININT;
	if (number < INT32_MIN || number > INT32_MAX) {
		b[0] = HVD_OP_LONG1;
		b[1] = 8;
		head = 2;
		bytes = 8;
	} else if (number >= 0 && number <= 255) {
		b[0] = HVD_OP_BININT1;
		bytes = 1;
	} else if (number >= 0 && number <= 65535) {
		b[0] = HVD_OP_BININT2;
		bytes = 2;
	}
	for (size_t i = 0; i < bytes; i++)
		b[head + i] = (unsigned char)((uint64_t)number >> (8 * i));
	put(p, b, head + bytes);
}

void hvd_pickler_str(struct hvd_pickler *p, const char *text)
{
	size_t len = strlen(text) < 255 ? strlen(text) : 255;

	hvd_pickler_op(p, HVD_OP_SHORT_BINUNICODE);
	hvd_pickler_op(p, (unsigned char)len);
	put(p, text, len);
}
