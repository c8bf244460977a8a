/* SPDX-License-Identifier: Apache-2.0 */
/* hvd-agent plan: starts the host's agent for the plugin (spank/task.c), and ends as the start ends. */
#include "bootstrap.h"
#include "lib/base/cleanup.h"
#include "shim.h"
#include "subcommand.h"

struct plan_args {
	bool events;
	char **command;
};

static const struct hvd_option_row options[] = {
	{"events", NULL, "slurmstepd and its tasks report to the node agent", hvd_option_flag,
	 offsetof(struct plan_args, events)},
	{NULL, NULL, NULL, NULL, 0},
};

static int find(const void *arg, struct hvd_taskinfo *info, struct hvd_err *err)
{
	(void)arg;
	return hvd_taskinfo_slurm(info, err);
}

/* The agent overwrites the arguments for ps(1). */
static int start_agent(struct hvd_bootstrap *start, const void *arg)
{
	const struct plan_args *args = arg;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv command = {0};

	hvd_strv_add_all(&command, args->command);
	return hvd_shim_plan(&start->boot, &start->info, args->events, command.v, &start->log);
}

static int run(int argc, char **argv, const struct hvd_log *log)
{
	struct plan_args args = {.command = NULL};
	struct hvd_bootstrap_opts opts = {.find = find, .arg = &args, .run = start_agent};
	int status = hvd_subcommand_parse(&hvd_subcommand_plan, argc, argv, &args, &args.command, log);

	return status >= 0 ? status : hvd_bootstrap_run(&opts, log);
}

const struct hvd_subcommand hvd_subcommand_plan = {
	.name = "plan",
	.process = "hvd-plan",
	.operands = "[COMMAND [ARGUMENT]...]",
	.summary = "start the agent of a host of srun --hvd",
	.about = "Start the node agent of this host, and wait until it has written the variables of the ranks, which "
		 "run\nCOMMAND, into memory that the tasks share. The plugin starts it in a host's first task of srun "
		 "--hvd.",
	.options = options,
	.most = HVD_ANY_OPERANDS,
	.command = true,
	.run = run,
};
