/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_text.h - hosts and slots of an allocation as one text: "a:2 b:1".
 */
#ifndef HVD_TESTS_ALLOC_TEXT_H
#define HVD_TESTS_ALLOC_TEXT_H

#include "lib/host/alloc.h"

#include <stdio.h>

/* Of static memory, valid until the next call. */
static inline const char *text_of(const struct hvd_alloc *a)
{
	static char buf[1024];
	size_t len = 0;

	buf[0] = '\0';
	for (int i = 0; i < a->n_hosts && len < sizeof(buf); i++)
		len += (size_t)snprintf(buf + len, sizeof(buf) - len, "%s%s:%d", i ? " " : "", a->hosts[i].name,
					a->hosts[i].slots);
	return buf;
}

#endif
