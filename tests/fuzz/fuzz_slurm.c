/* SPDX-License-Identifier: Apache-2.0 */
/* GRES texts and configurations, as they stand in environments and the controller's answers. */
#include "fuzz.h"
#include "slurm/gres.h"
#include "slurm/scontrol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_slurm_site site;
	char *text = fuzz_text(data, size);
	int gpus;

	gpus = hvd_gres_gpus(text);
	if (gpus < -1)
		abort();
	hvd_scontrol_config_parse(text, &site);
	free(hvd_scontrol_steps(text, 7));
	if (site.port_lo < 0 || site.port_hi < site.port_lo || site.port_hi > 65535 || site.kill_wait < 0)
		abort();
	free(text);
	return 0;
}
