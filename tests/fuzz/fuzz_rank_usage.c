/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank uses, as its host reports it (lib/host/rank_usage.h): what is accepted is sent and read as the same. */
#include "fuzz.h"
#include "lib/host/rank_usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *element = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL), *first, *again;
	struct hvd_rank_usage usage, back;

	if (hvd_rank_usage_parse(element, &usage, NULL) == 0) {
		first = hvd_rank_usage_json(&usage);
		must(hvd_rank_usage_parse(first, &back, NULL) == 0);
		again = hvd_rank_usage_json(&back);
		must(json_equal(first, again));
		json_decref(first);
		json_decref(again);
	}
	json_decref(element);
	return 0;
}
