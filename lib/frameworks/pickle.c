/* SPDX-License-Identifier: Apache-2.0 */
/* pickle.c - questions about the values of a pickle that was read. */
#include "pickle.h"

#include <string.h>

bool hvd_pickle_is_str(const struct hvd_pickle_value *v, const char *text)
{
	return v && v->kind == HVD_PICKLE_STR && v->len == strlen(text) && memcmp(v->text, text, v->len) == 0;
}

bool hvd_pickle_is_class(const struct hvd_pickle_value *v, const char *module, const char *name)
{
	return v && v->kind == HVD_PICKLE_CLASS && hvd_pickle_is_str(v->items[0], module) &&
	       hvd_pickle_is_str(v->items[1], name);
}

const struct hvd_pickle_value *hvd_pickle_find(const struct hvd_pickle_value *v, const char *key)
{
	for (size_t i = 0; v && v->kind == HVD_PICKLE_DICT && i < v->n; i += 2)
		if (hvd_pickle_is_str(v->items[i], key))
			return v->items[i + 1];
	return NULL;
}
