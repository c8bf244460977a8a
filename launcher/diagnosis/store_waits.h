/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_waits.h - which ranks wait for which keys of the store, and which do not.
 *
 * Pure. `answers` is launcher/world/stacks.h's. A waiting process is known by its pid, which gives its rank if one
 * rank has it; otherwise it is shown by its address.
 */
#ifndef HVD_STORE_WAITS_H
#define HVD_STORE_WAITS_H

#include <jansson.h>

/*
 * [{"key":TEXT, "ranks":[R,…], "others":[TEXT,…], "missing":[R,…]},…]: who waits for the key. "missing": the ranks that
 * wait for no key, if some others wait. The keys for which most wait come first, at most HVD_STORE_WAITS_KEYS. A new
 * reference.
 */
#define HVD_STORE_WAITS_KEYS 8
json_t *hvd_store_waits(const json_t *answers);

#endif
