/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of addresses in messages: what is taken is an address, and in order. */
#include "fuzz.h"
#include "lib/protocol/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *list, *entry;
	struct hvd_addr *addrs, again;
	char text[HVD_ADDR_TEXT];
	size_t n = hvd_get_addrs(msg, "hosts", &addrs), i, at = 0;

	list = json_object_get(msg, "hosts");
	must(n <= json_array_size(list));
	json_array_foreach(list, i, entry)
	{
		struct hvd_addr addr;

		if (!json_is_string(entry) || hvd_addr_parse(json_string_value(entry), &addr) != 0)
			continue;
		must(at < n && hvd_addr_equal(&addrs[at], &addr));
		must(hvd_addr_parse(hvd_addr_text(&addrs[at], text), &again) == 0 && hvd_addr_equal(&addr, &again));
		at++;
	}
	must(at == n);
	free(addrs);
	json_decref(msg);
	return 0;
}
