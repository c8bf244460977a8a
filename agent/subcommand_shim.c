/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-agent shim and hvd-agent plan: the processes that get plans from the agent of their host, and start it if it is not
 * there (shim.h).
 *
 * shim is in front of a rank that a scheduler or an MPI starts. The plugin starts plan in the first task of a host
 * (spank/task.c); it ends as the start ends.
 *
 * An MPI fills the hosts of --mpi slot by slot, and the rank ends with the process that started it (session_wrapper.h).
 * jsrun need not end its tasks when it is killed, so such a rank ends when the driver says so or is gone.
 */
#include "shim.h"

#include "bootstrap.h"
#include "lib/base/cleanup.h"
#include "run_child.h"
#include "session_wrapper.h"
#include "subcommand.h"

#include <unistd.h>

/* ---- shim ---- */

struct shim_args {
	struct hvd_rank_args rank; /* first, for its rows */
	const char *mpi, *jsrun, *input;
	bool framed;
	char **command;
};

#define AT(field) offsetof(struct shim_args, field)

static const struct hvd_option_row shim_options[] = {
	{"mpi", "HOST:SLOTS,...", "an MPI has started this process, and fills these hosts slot by slot",
	 hvd_option_text, AT(mpi)},
	{"jsrun", "HOST:SLOTS,...", "jsrun has started this process on one of these hosts", hvd_option_text, AT(jsrun)},
	{"input", "RANK|none", "with --stdin: the rank that gets the rest of stdin", hvd_option_text, AT(input)},
	{"framed", NULL, "put frames around the output, which hvdrun removes", hvd_option_flag, AT(framed)},
	{NULL, NULL, NULL, NULL, 0},
};

static int run_rank(struct hvd_bootstrap *start, const struct shim_args *args)
{
	struct hvd_output_style style = hvd_rank_args_style(&args->rank);
	struct hvd_shim_opts opts = {.starter = args->mpi     ? &hvd_starter_mpi
						: args->jsrun ? &hvd_starter_jsrun
							      : &hvd_starter_srun,
				     .argv = args->command,
				     .style = &style};

	style.framed = args->framed;
	return hvd_shim_run(start, &opts);
}

static int run_shim(int argc, char **argv, const struct hvd_log *log)
{
	struct shim_args args = {.mpi = NULL};
	int status = hvd_subcommand_parse(&hvd_subcommand_shim, argc, argv, &args, &args.command, log);
	pid_t wrapper = args.rank.behind ? getppid() : 0;
	struct hvd_bootstrap start;

	if (status >= 0)
		return status;
	if (args.mpi && args.jsrun)
		return hvd_subcommand_misused(&hvd_subcommand_shim, log, "--mpi and --jsrun exclude each other");
	if (args.input && !args.rank.from_stdin)
		return hvd_subcommand_misused(&hvd_subcommand_shim, log, "--input needs --stdin");
	if (args.mpi && !args.rank.behind)
		return hvd_session_wrapper_run(argv, HVD_SESSION_WRAPPER_RANK, log);
	if (args.mpi)
		hvd_child_follow();
	status = hvd_bootstrap_begin(
		&start,
		&(struct hvd_bootstrap_opts){
			.mpi = args.mpi, .jsrun = args.jsrun, .from_stdin = args.rank.from_stdin, .input = args.input},
		log);
	if (status == 0)
		status = run_rank(&start, &args);
	hvd_bootstrap_clear(&start);
	hvd_session_wrapper_wake(wrapper);
	return status;
}

const struct hvd_subcommand hvd_subcommand_shim = {
	.name = "shim",
	.process = "hvd-shim",
	.operands = "COMMAND [ARGUMENT]...",
	.summary = "run one rank that a scheduler or an MPI has started",
	.about = "Get this rank's variables from the node agent of its host, which the first shim of a host starts, "
		 "and\n"
		 "run COMMAND with them. hvdrun has srun, mpirun or jsrun start it once for each rank.",
	.options = shim_options,
	.common = hvd_rank_args_rows,
	.least = 1,
	.most = HVD_ANY_OPERANDS,
	.command = true,
	.run = run_shim,
};

/* ---- plan ---- */

struct plan_args {
	bool events;
	char **command;
};

static const struct hvd_option_row plan_options[] = {
	{"events", NULL, "slurmstepd and its tasks report to the node agent", hvd_option_flag,
	 offsetof(struct plan_args, events)},
	{NULL, NULL, NULL, NULL, 0},
};

static int run_plan(int argc, char **argv, const struct hvd_log *log)
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
		status = hvd_shim_plan(&start, args.events, command.v);
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
	.options = plan_options,
	.most = HVD_ANY_OPERANDS,
	.command = true,
	.run = run_plan,
};
