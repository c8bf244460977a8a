/* SPDX-License-Identifier: Apache-2.0 */
/* Host list expressions, GRES texts and configurations, as they stand in environments and the controller's answers. */
#include "fuzz.h"
#include "lib/base/hostlist.h"
#include "slurm/gres.h"
#include "slurm/scontrol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_strv names = {0};
	struct hvd_slurm_site site;
	char *text = fuzz_text(data, size);
	size_t count;
	int gpus;

	gpus = hvd_gres_gpus(text);
	if (gpus < -1)
		abort();
	hvd_scontrol_config_parse(text, &site);
	if (site.port_lo < 0 || site.port_hi < site.port_lo || site.port_hi > 65535)
		abort();
	if (hvd_hostlist_check(text, 4096, &count, NULL) == 0) {
		if (count < 1 || count > 4096)
			abort();
		if (hvd_hostlist_expand(text, 4096, &names, NULL) == 0) {
			if (names.n != count)
				abort();
			free(hvd_hostlist_compress(names.v, names.n));
		}
	}
	hvd_strv_free(&names);
	free(text);
	return 0;
}
