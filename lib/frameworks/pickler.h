/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickler.h - writes a pickle: protocol 4 (PEP 3154), without frames and memo.
 *
 * The caller puts one piece behind the other, as pickletools shows them; nothing checks that they make a value. What
 * does not fit is left out, and `n` is then larger than `room`: how long it would have been.
 */
#ifndef HVD_PICKLER_H
#define HVD_PICKLER_H

#include "pickle_opcode.h"

#include <stddef.h>
#include <stdint.h>

struct hvd_pickler {
	unsigned char *bytes; /* the caller's; NULL with a room of 0, to measure */
	size_t room, n;       /* in bytes; start with n = 0 */
};

void hvd_pickler_begin(struct hvd_pickler *p);                /* the protocol */
void hvd_pickler_op(struct hvd_pickler *p, unsigned char op); /* an opcode without an argument */
void hvd_pickler_int(struct hvd_pickler *p, int64_t number);
void hvd_pickler_str(struct hvd_pickler *p, const char *text);                /* UTF-8; cut after 255 bytes */
void hvd_pickler_bytes(struct hvd_pickler *p, const void *bytes, size_t len); /* the same */

#endif
