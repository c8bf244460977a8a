/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addrlist.h - lists of addresses in messages.
 */
#ifndef HVD_ADDRLIST_H
#define HVD_ADDRLIST_H

#include "lib/net/addr.h"

#include <jansson.h>
#include <stddef.h>

/* The addresses that a message lists under `key`; entries that are none are passed over. Returns how many, 0 when there
 * is no such list. *addrs is the caller's to free; may be NULL then. */
size_t hvd_addrs_from_json(const json_t *msg, const char *key, struct hvd_addr **addrs);

#endif
