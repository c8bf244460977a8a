/* SPDX-License-Identifier: Apache-2.0 */
/* options_set.c - all option tables together. */
#include "options_rows.h"

static const char *const titles[HVD_GROUPS] = {
	[HVD_G_RUN] = "Running",
	[HVD_G_HOSTS] = "Hosts",
	[HVD_G_START] = "Start",
	[HVD_G_OUTPUT] = "Output",
	[HVD_G_FAILURE] = "Failures",
	[HVD_G_ELASTIC] = "Elastic training",
	[HVD_G_CONTROLLER] = "Controller",
	[HVD_G_SSH] = "ssh",
	[HVD_G_TUNE] = "Tunables",
	[HVD_G_AUTOTUNE] = "Automatic tuning",
	[HVD_G_TIMELINE] = "Timeline",
	[HVD_G_STALL] = "Stall check",
	[HVD_G_LIBRARY] = "Libraries",
	[HVD_G_LOGGING] = "Logging of Horovod",
	[HVD_G_INFO] = "Information",
	[HVD_G_S_TASKS] = "srun: tasks",
	[HVD_G_S_NODES] = "srun: nodes",
	[HVD_G_S_RESOURCES] = "srun: resources",
	[HVD_G_S_BINDING] = "srun: binding",
	[HVD_G_S_IO] = "srun: input and output",
	[HVD_G_S_STEP] = "srun: the step",
	[HVD_G_S_JOB] = "srun: the job",
	[HVD_G_S_PLUGIN] = "srun: options of the plugin pyxis",
};

struct hvd_optset hvd_options_set(void)
{
	return (struct hvd_optset){
		.family = {[HVD_FAMILY_SRUN] = hvd_options_srun(),
			   [HVD_FAMILY_HOROVOD] = hvd_options_horovod(),
			   [HVD_FAMILY_HVD] = hvd_options_hvd()},
		.titles = titles,
		.n_titles = HVD_GROUPS,
	};
}

bool hvd_options_counts_ranks(const struct hvd_opt *opt)
{
	return opt->at == HVD_AT(num_proc) || opt->at == HVD_AT(ntasks) || opt->at == HVD_AT(ntasks_per_node) ||
	       opt->at == HVD_AT(nodes_min) || opt->at == HVD_AT(hosts) || opt->at == HVD_AT(hostfile) ||
	       opt->at == HVD_AT(slots_per_host);
}
