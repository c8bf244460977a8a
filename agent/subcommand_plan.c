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

static int run(int argc, char **argv, const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv command = {0};
	struct plan_args args = {.command = NULL};
	int status = hvd_subcommand_parse(&hvd_subcommand_plan, argc, argv, &args, &args.command, log);
	struct hvd_bootstrap start;

	if (status >= 0)
		return status;
	status = hvd_bootstrap_begin(&start, &(struct hvd_bootstrap_opts){.host = NULL}, log);
	/* The agent overwrites the arguments for ps(1). */
	hvd_strv_add_all(&command, args.command);
	if (status == 0)
		status = hvd_shim_plan(&start.boot, &start.info, args.events, command.v, &start.log);
	hvd_bootstrap_clear(&start);
	return status;
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
