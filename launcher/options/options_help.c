/* SPDX-License-Identifier: Apache-2.0 */
/* options_help.c - all option tables together, and what hvdrun shows of them. */
#include "lib/base/xalloc.h"
#include "options_rows.h"

#include <stdlib.h>

static const char *const titles[HVD_GROUPS] = {
	[HVD_G_RUN] = "What to run",
	[HVD_G_HOSTS] = "Hosts",
	[HVD_G_START] = "Start",
	[HVD_G_OUTPUT] = "Output",
	[HVD_G_FAILURE] = "When it goes wrong",
	[HVD_G_ELASTIC] = "Elastic training",
	[HVD_G_CONTROLLER] = "Controller",
	[HVD_G_SSH] = "Starting by ssh",
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

static enum hvd_opt_family primary_of(const struct hvd_options *o)
{
	return o->as_horovodrun ? HVD_FAMILY_HOROVOD : HVD_FAMILY_SRUN;
}

char *hvd_options_usage(const struct hvd_options *o)
{
	const char *name = o->as_horovodrun ? "horovodrun" : "hvdrun";

	return hvd_xasprintf("Usage: %s [options] command [arguments]\n"
			     "       %s -np 4 python train.py\n"
			     "       %s -N 2 --ntasks-per-node=4 --gpus-per-task=1 python train.py\n"
			     "Options are those of srun, those of horovodrun, and its own: see %s --help.\n",
			     name, name, name, name);
}

char *hvd_options_help(const struct hvd_options *o, int width)
{
	const struct hvd_optset set = hvd_options_set();
	char *usage = hvd_options_usage(o);
	char *rows = hvd_opt_help(&set, primary_of(o), ~0U, width);
	char *all = hvd_xasprintf("%s%s", usage, rows);

	free(rows);
	free(usage);
	return all;
}

char *hvd_options_man(const struct hvd_options *o)
{
	const struct hvd_optset set = hvd_options_set();

	return hvd_opt_man(&set, primary_of(o));
}

char *hvd_options_plugin_man(void)
{
	const struct hvd_optset set = hvd_options_set();

	return hvd_opt_alias_man(&set);
}

char *hvd_options_completion(const struct hvd_options *o)
{
	const struct hvd_optset set = hvd_options_set();

	return hvd_opt_completion(&set, primary_of(o));
}
