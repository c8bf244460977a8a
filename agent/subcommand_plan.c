/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-agent plan: the variables of all ranks of a host, for the plugin, which sets them (spank/task.c).
 */
#include "bootstrap.h"
#include "shim.h"
#include "subcommand.h"

struct plan_args {
	bool events;
	char **command;
};

static const struct hvd_option_row options[] = {
	{"events", NULL, "slurmstepd and its tasks report to the node agent", HVD_OPTION_FLAG,
	 offsetof(struct plan_args, events)},
	{NULL, NULL, NULL, HVD_OPTION_FLAG, 0},
};

static int find(const void *arg, struct hvd_taskinfo *info, struct hvd_err *err)
{
	(void)arg;
	return hvd_taskinfo_slurm(info, err);
}

static int print(struct hvd_bootstrap *start, const void *arg)
{
	const struct plan_args *args = arg;

	return hvd_shim_print_plans(&start->boot, &start->info, args->events, args->command, &start->log);
}

static int run(int argc, char **argv, const struct hvd_log *log)
{
	struct plan_args args = {.command = NULL};
	struct hvd_bootstrap_opts opts = {.find = find, .arg = &args, .run = print};
	int status = hvd_subcommand_parse(&hvd_subcommand_plan, argc, argv, &args, &args.command, log);

	return status >= 0 ? status : hvd_bootstrap_run(&opts, log);
}

const struct hvd_subcommand hvd_subcommand_plan = {
	.name = "plan",
	.process = "hvd-plan",
	.operands = "[COMMAND [ARGUMENT]...]",
	.summary = "print the variables of all ranks of this host",
	.about = "Start the node agent of this host, and print the variables of its ranks, which run COMMAND: "
		 "NAME=VALUE strings, each "
		 "with\n"
		 "a zero byte, and an empty one behind each rank. The plugin starts it in a host's first task of srun "
		 "--hvd.",
	.options = options,
	.most = HVD_ANY_OPERANDS,
	.command = true,
	.run = run,
};
