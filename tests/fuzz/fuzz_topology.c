/* SPDX-License-Identifier: Apache-2.0 */
/* What compute nodes answer of their cores, and the resource file that is made of it. */
#include "fuzz.h"
#include "lsf/topology.h"

static void resources(const struct hvd_alloc *a, const struct hvd_erf_host *hosts)
{
	char *text = hvd_erf_format(a, hosts, NULL);

	must(!text || text[strlen(text) - 1] == '\n');
	must(!text || strstr(text, "\nrank: 2: { hostname: n2.site; cpu: {"));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_erf_host hosts[2] = {{.gpus = -1}, {.gpus = 2}};
	struct hvd_alloc a = {0};
	char *text = fuzz_text(data, size);

	must(hvd_alloc_from_hosts(&a, "n1:2,n2.site:1", 0, NULL) == 0);
	if (hvd_topology_parse(hosts, &a, text, NULL) == 0) {
		for (int i = 0; i < 2; i++) {
			must(hosts[i].cores >= 1 && hosts[i].cores <= HVD_ERF_MAX_CPUS);
			must(hosts[i].threads >= 1 && hosts[i].threads <= HVD_ERF_MAX_CPUS);
			must(hosts[i].sockets >= 1);
		}
		resources(&a, hosts);
	}
	hvd_alloc_clear(&a);
	free(text);
	return 0;
}
