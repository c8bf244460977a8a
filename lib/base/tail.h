/* SPDX-License-Identifier: Apache-2.0 */
/* tail.h - the last bytes of a stream, and the last lines among them. */
#ifndef HVD_TAIL_H
#define HVD_TAIL_H

#include <stddef.h>
#include <stdint.h>

struct hvd_tail {
	char *ring; /* NULL: the tail is to be made */
	size_t size;
	uint64_t n; /* bytes there have ever been */
};

/* Keep so many bytes. */
void hvd_tail_init(struct hvd_tail *tail, size_t size);
void hvd_tail_clear(struct hvd_tail *tail); /* a zeroed one is fine, and left */

void hvd_tail_add(struct hvd_tail *tail, const char *bytes, size_t n);

/* The last `lines` lines as a string, in which zero bytes are spaces; fewer if they are not all there: then its first line
 * says so. The caller frees it. */
char *hvd_tail_lines(const struct hvd_tail *tail, unsigned lines);

#endif
