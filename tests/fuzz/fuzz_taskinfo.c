/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a task in a Slurm step, and the options with which a launcher starts a host's ranks: lines of
 * text. */
#include "agent/taskinfo.h"
#include "fuzz.h"
#include "lib/base/size.h"

static void check(struct hvd_taskinfo *info)
{
	must(info->node < info->nodes && info->nodes <= HVD_MAX_HOSTS);
	must(info->local_size > 0 && info->name[0] && strlen(info->name) < sizeof(info->name));
	for (uint32_t i = 0; i < info->local_size; i++)
		must(info->ranks[i] < HVD_MAX_RANKS);
	hvd_taskinfo_free(info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"SLURM_PROCID",         "SLURM_LOCALID",        "SLURM_NODEID",
					    "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURMD_NODENAME",
					    "SLURM_GTIDS"};
	char *text = fuzz_text(data, size), *lines[7] = {0}, *p = text;
	struct hvd_taskinfo info;

	for (int i = 0; i < 7; i++) {
		lines[i] = strsep(&p, "\n");
		if (lines[i])
			setenv(names[i], lines[i], 1);
		else
			unsetenv(names[i]);
	}
	if (hvd_taskinfo_slurm(&info, NULL) == 0) {
		must(info.rank < info.size && info.ranks[info.local_rank] == info.rank);
		check(&info);
	} else {
		must(info.ranks == NULL);
	}
	if (lines[1]) {
		/* A large count of ranks takes much memory: not every input may ask for it. */
		if (strlen(lines[1]) < 10 && hvd_taskinfo_host(lines[0], lines[1], &info, NULL) == 0)
			check(&info);
	}
	free(text);
	return 0;
}
