/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_usage.h"

#include <limits.h>

json_t *hvd_rank_usage_json(const struct hvd_rank_usage *usage)
{
	json_t *element = json_array();

	json_array_append_new(element, json_integer(usage->rank));
#define APPEND(member, least, most) json_array_append_new(element, json_integer(usage->member));
	HVD_RANK_USAGE_FIELDS(APPEND)
#undef APPEND
	return element;
}

static int read_next(const json_t *element, size_t *i, int64_t least, int64_t most, int64_t *value)
{
	const json_t *number = json_array_get(element, (*i)++);

	*value = json_integer_value(number);
	return json_is_integer(number) && *value >= least && *value <= most ? 0 : -1;
}

int hvd_rank_usage_parse(const json_t *element, struct hvd_rank_usage *usage, struct hvd_err *err)
{
	int64_t rank;
	size_t i = 0;
	int rc;

	*usage = (struct hvd_rank_usage){0};
	rc = read_next(element, &i, 0, INT_MAX, &rank);
#define READ(member, least, most) rc = rc == 0 ? read_next(element, &i, least, most, &usage->member) : rc;
	HVD_RANK_USAGE_FIELDS(READ)
#undef READ
	if (rc == 0) {
		usage->rank = (uint32_t)rank;
		return 0;
	}
	*usage = (struct hvd_rank_usage){0};
	return hvd_err_set(err, HVD_E_PROTO, "what a rank uses is malformed");
}
