/* SPDX-License-Identifier: Apache-2.0 */
#include "addrlist.h"

#include "lib/base/xalloc.h"
#include "wire.h"

#define MAX_ADDRS (1 << 20)

size_t hvd_addrs_from_json(const json_t *msg, const char *key, struct hvd_addr **addrs)
{
	json_t *list, *entry;
	size_t i, n = 0;

	*addrs = NULL;
	if (hvd_get_array(msg, key, MAX_ADDRS, &list, NULL) != 0)
		return 0;
	*addrs = hvd_xcalloc(json_array_size(list), sizeof(**addrs));
	json_array_foreach(list, i, entry)
	{
		if (json_is_string(entry) && hvd_addr_parse(json_string_value(entry), &(*addrs)[n]) == 0)
			n++;
	}
	return n;
}
