/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_waits.h - which ranks wait for which keys of the store, and which do not.
 *
 * Pure. `said` is launcher/driver/stacks.h's. A process that waits is known by its pid, and so by its rank where one
 * rank has it; else it is shown by its address.
 */
#ifndef HVD_STORE_WAITS_H
#define HVD_STORE_WAITS_H

#include <jansson.h>

/* [{"key":TEXT, "ranks":[R,…], "others":[TEXT,…], "missing":[R,…]},…]: who waits for the key; "missing": the ranks that
 * wait for no key, where some others wait. The keys that most wait for come first, and so many at most. A new
 * reference. */
#define HVD_STORE_WAITS_KEYS 8
json_t *hvd_store_waits(const json_t *said);

#endif
