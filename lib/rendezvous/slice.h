/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice.h - bytes that somebody else owns.
 */
#ifndef HVD_RENDEZVOUS_SLICE_H
#define HVD_RENDEZVOUS_SLICE_H

#include <stddef.h>

struct hvd_slice {
	const char *p; /* not terminated */
	size_t n;
};

#endif
