/* SPDX-License-Identifier: Apache-2.0 */
/* wire_decode.h - for tests: reads frames of a peer that sends no bytes. */
#ifndef HVD_TESTS_WIRE_DECODE_H
#define HVD_TESTS_WIRE_DECODE_H

#include "lib/protocol/wire.h"

/* Returns as hvd_wire_read(). *used is 0 and *msg NULL unless 1 is returned. */
static inline int wire_decode(struct hvd_wire *wire, const unsigned char *buf, size_t len, size_t *used, json_t **msg,
			      struct hvd_err *err)
{
	struct hvd_frame frame;
	int rc = hvd_wire_read(wire, buf, len, &frame, err);

	*used = rc == 1 ? frame.used : 0;
	*msg = frame.msg;
	return rc;
}

#endif
