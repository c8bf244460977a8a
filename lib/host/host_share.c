/* SPDX-License-Identifier: Apache-2.0 */
#include "host_share.h"

#include "lib/base/size.h"

static void add(json_t *msg, const char *key, const struct hvd_share *share)
{
	if (!hvd_share_is_all(share))
		json_object_set_new(msg, key, json_pack("[i, i]", share->first, share->n));
}

void hvd_host_share_add(json_t *msg, const struct hvd_host_share *share)
{
	add(msg, "cpus", &share->cpus);
	add(msg, "gpus", &share->gpus);
}

/* A host has at least one CPU for each world, and perhaps no GPU. */
static int parse(const json_t *msg, const char *key, int least, struct hvd_share *share, struct hvd_err *err)
{
	const json_t *pair = json_object_get(msg, key), *first = json_array_get(pair, 0), *n = json_array_get(pair, 1);
	const json_int_t from = json_integer_value(first), count = json_integer_value(n);

	if (!pair)
		return 0;
	if (json_array_size(pair) != 2 || !json_is_integer(first) || !json_is_integer(n) || from < 0 ||
	    from > HVD_MAX_RANKS || count < -1 || count > HVD_MAX_RANKS || (count >= 0 && count < least))
		return hvd_err_set(err, HVD_E_PROTO, "\"%s\" in a message is no share of a host", key);
	*share = (struct hvd_share){(int)from, (int)count};
	return 0;
}

int hvd_host_share_parse(const json_t *msg, struct hvd_host_share *share, struct hvd_err *err)
{
	*share = HVD_WHOLE_HOST;
	if (parse(msg, "cpus", 1, &share->cpus, err) == 0 && parse(msg, "gpus", 0, &share->gpus, err) == 0)
		return 0;
	*share = HVD_WHOLE_HOST;
	return -1;
}
