/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

const char *hvd_json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

json_t *hvd_json_words(const struct hvd_strv *words)
{
	json_t *list = json_array();

	for (size_t i = 0; i < words->n; i++)
		json_array_append_new(list, json_string(words->v[i]));
	return list;
}
