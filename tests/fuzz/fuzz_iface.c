/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of rtnetlink. */
#include "fuzz.h"
#include "lib/net/iface_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_nl_dump d = {0};

	hvd_nl_parse(&d, data, size, 1, NULL);
	for (size_t i = 0; i < d.n_links; i++)
		if (!d.links[i].name[0] || strnlen(d.links[i].name, IF_NAMESIZE) == IF_NAMESIZE ||
		    strchr(d.links[i].name, '/') || d.links[i].index <= 0)
			abort();
	for (size_t i = 0; i < d.n_addrs; i++)
		if (d.addrs[i].index <= 0 || d.addrs[i].prefix < 0 || d.addrs[i].prefix > 128)
			abort();
	hvd_nl_clear(&d);
	return 0;
}
