/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the output of a discovery script. */
#include "fuzz.h"
#include "launcher/discovery/discovery_kind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_alloc hosts;
	char *text = malloc(size ? size : 1);
	long sum = 0;

	must(text != NULL);
	memcpy(text, data, size);
	must(hvd_script_parse(text, size, 2, &hosts, NULL) == 0 || !hosts.n_hosts);
	for (int i = 0; i < hosts.n_hosts; i++) {
		sum += hosts.hosts[i].slots;
		must(hvd_alloc_find(&hosts, hosts.hosts[i].name) == i);
	}
	must(sum == hosts.slots);
	hvd_alloc_clear(&hosts);
	free(text);
	return 0;
}
