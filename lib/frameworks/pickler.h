/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickler.h - writes a pickle: protocol 4 (PEP 3154), without frames and memo. To read pickles: pickle.h.
 *
 * The caller writes one opcode after the other, in the order in which pickletools shows them; the pickler does not
 * check that they make a value. Bytes that do not fit into `room` are left out, but `n` counts them: n > room means
 * that the pickle is incomplete, and shows how much room it needs.
 */
#ifndef HVD_PICKLER_H
#define HVD_PICKLER_H

#include "pickle_opcode.h"

#include <stddef.h>
#include <stdint.h>

struct hvd_pickler {
	unsigned char *bytes; /* owned by the caller; NULL with room 0, to measure */
	size_t room, n;       /* bytes; start with n = 0 */
};

void hvd_pickler_begin(struct hvd_pickler *p);                /* write the protocol's number */
void hvd_pickler_op(struct hvd_pickler *p, unsigned char op); /* an opcode without an argument */
void hvd_pickler_int(struct hvd_pickler *p, int64_t number);
void hvd_pickler_str(struct hvd_pickler *p, const char *text);                /* UTF-8; cut after 255 bytes */
void hvd_pickler_bytes(struct hvd_pickler *p, const void *bytes, size_t len); /* the same */

#endif
