/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ends.h - which ranks of a launch have ended.
 *
 * A rank has ended when its shim has said so, or has gone and taken the rank with it, or when the rank's host is lost.
 */
#ifndef HVD_ENDS_H
#define HVD_ENDS_H

#include "strv.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_ends {
	bool *ended; /* by rank */
	uint32_t n, left;
	struct hvd_strv without_munge; /* hosts where a shim found no munged when its rank had ended */
};

/* None of `n` ranks has ended. Zeroed before, or cleared. */
void hvd_ends_begin(struct hvd_ends *ends, uint32_t n);
/* Returns true when that was the last one: once. A rank that has ended already, or that there is not, changes nothing.
 */
bool hvd_ends_add(struct hvd_ends *ends, uint32_t rank);
/* The host is named once, however often it is told. */
void hvd_ends_without_munge(struct hvd_ends *ends, const char *host);
void hvd_ends_clear(struct hvd_ends *ends);

#endif
