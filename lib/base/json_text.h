/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.h - texts in JSON. */
#ifndef HVD_JSON_TEXT_H
#define HVD_JSON_TEXT_H

#include "strv.h"

#include <jansson.h>

/* The text under a key of an object, which owns it; "" if there is none, or no object. */
const char *hvd_json_text(const json_t *object, const char *key);

/* The strings as a list, a new reference. Those that are no UTF-8 are left out. */
json_t *hvd_json_words(const struct hvd_strv *words);

#endif
