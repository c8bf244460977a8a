/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-agent host: the agent of a host where no scheduler starts the ranks (spawned.h).
 */
#include "bootstrap.h"
#include "lib/process/srun_env.h"
#include "session_wrapper.h"
#include "spawned.h"
#include "subcommand.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct host_args {
	struct hvd_rank_args rank; /* first, for its rows */
	const char *host, *ranks, *bind, *cpus, *preload, *nice, *memlock;
	bool guarded, step;
	char **command;
};

#define AT(field) offsetof(struct host_args, field)

static const struct hvd_option_row options[] = {
	{"host", "INDEX:HOSTS:NAME", "index and name of this host in the job", hvd_option_text, AT(host)},
	{"ranks", "FIRST:COUNT", "the ranks of this host", hvd_option_text, AT(ranks)},
	{"guarded", NULL, "run behind a monitor, because the starter may kill this process", hvd_option_flag,
	 AT(guarded)},
	{"step", NULL, "this process is the task of a step of its own, which srun has started", hvd_option_flag,
	 AT(step)},
	{"bind", "[=near]", "bind each rank to cores of its own, or to their NUMA domains", hvd_option_text, AT(bind)},
	{"cpus", "LIST:LIST...", "the CPUs of each rank", hvd_option_text, AT(cpus)},
	{"preload", "MODULES", "import these Python modules once, and fork the ranks", hvd_option_text, AT(preload)},
	{"nice", "N", "take over the launcher's nice value", hvd_option_text, AT(nice)},
	{"memlock", "BYTES|unlimited", "take over the launcher's limit of locked memory", hvd_option_text, AT(memlock)},
	{NULL, NULL, NULL, NULL, 0},
};

/* The launcher's process group, if this process has the terminal of their session as its standard input. Ranks cannot
 * join a group that this process cannot see, since its leader is outside of their container. */
static pid_t terminal_group(const struct hvd_rank_args *rank)
{
	pid_t launcher = getppid(), group = getpgid(launcher);

	if (rank->from_stdin || rank->behind || tcgetpgrp(STDIN_FILENO) < 0 || getsid(launcher) != getsid(0))
		return 0;
	return group > 0 ? group : HVD_TERMINAL_HIDDEN;
}

/* Did srun start this process? SLURM_STEP_ID alone does not say so: what runs below a step, or in a job that was
 * submitted from there, inherits it. */
static bool is_task(void)
{
	const char *task = getenv("SLURM_TASK_PID");

	return task && atoi(task) == getpid();
}

static struct hvd_spawned_ranks_opts ranks_of(const struct host_args *args)
{
	return (struct hvd_spawned_ranks_opts){
		.step = args->step,
		.argv = args->command,
		.bind = args->bind != NULL,
		.near = args->bind && strcmp(args->bind, "near") == 0,
		.cpus = args->cpus,
		.preload = args->preload,
		.output = hvd_rank_args_style(&args->rank),
	};
}

int hvd_subcommand_host_join(struct hvd_join *join, const struct hvd_log *log)
{
	struct hvd_bootstrap *start = &join->start;
	struct host_args args = {.host = NULL};
	struct hvd_spawned_ranks_opts ranks;
	struct hvd_err err = {0};
	int status;

	if (start->args.n < 1 || strcmp(start->args.v[0], hvd_subcommand_host.name) != 0 ||
	    hvd_subcommand_parse(&hvd_subcommand_host, (int)start->args.n, start->args.v, &args, &args.command, log) >=
		    0 ||
	    !args.host || !args.ranks || !*args.command ||
	    hvd_taskinfo_host(args.host, args.ranks, &start->info, &err) != 0) {
		hvd_err_set(&err, HVD_E_PROTO, "the launcher sent a command line that this release does not know");
		hvd_log_err(log, &err);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	start->log = *log;
	start->log.level = hvd_bootstrap_level(&start->boot);
	args.step = is_task();
	ranks = ranks_of(&args);
	status = hvd_spawned_run(join, start, &ranks);
	hvd_bootstrap_clear(start);
	return status;
}

/* Where a shell could have changed them, the command and most options come on stdin. */
static int supervise(struct hvd_bootstrap *start, struct host_args *args)
{
	struct hvd_spawned_ranks_opts ranks;
	int status = start->args.n ? hvd_subcommand_parse(&hvd_subcommand_host, (int)start->args.n, start->args.v, args,
							  &args->command, &start->log)
				   : -1;

	if (status >= 0)
		return status;
	if (!*args->command)
		return hvd_subcommand_misused(&hvd_subcommand_host, &start->log, "COMMAND is missing");
	ranks = ranks_of(args);
	ranks.terminal_group = terminal_group(&args->rank);
	return hvd_spawned_run(NULL, start, &ranks);
}

static int run(int argc, char **argv, const struct hvd_log *log)
{
	struct host_args args = {.host = NULL};
	int status = hvd_subcommand_parse(&hvd_subcommand_host, argc, argv, &args, &args.command, log);
	pid_t wrapper = args.rank.behind ? getppid() : 0;
	struct hvd_bootstrap start;
	const char *missing;

	hvd_srun_env_restore();
	if (status >= 0)
		return status;
	missing = !args.host                                ? "--host"
		  : !args.ranks                             ? "--ranks"
		  : !args.rank.from_stdin && !*args.command ? "COMMAND"
							    : NULL;
	if (missing)
		return hvd_subcommand_misused(&hvd_subcommand_host, log, "%s is missing", missing);
	hvd_bootstrap_limits(args.nice, args.memlock);
	if (args.guarded && !args.rank.behind)
		return hvd_session_wrapper_run(argv, HVD_SESSION_WRAPPER_HOST, log);
	if (args.rank.behind)
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* the end of the wrapper ends this process, after its ranks */
	status = hvd_bootstrap_begin(&start,
				     &(struct hvd_bootstrap_opts){.host = args.host,
								  .ranks = args.ranks,
								  .from_stdin = args.rank.from_stdin,
								  .refuses = args.rank.behind},
				     log);
	if (status == 0)
		status = supervise(&start, &args);
	hvd_bootstrap_clear(&start);
	hvd_session_wrapper_wake(wrapper);
	return status;
}

const struct hvd_subcommand hvd_subcommand_host = {
	.name = "host",
	.process = "hvd-agent",
	.operands = "COMMAND [ARGUMENT]...",
	.summary = "start the ranks of this host, and watch them",
	.about = "Act as the node agent of this host: start its ranks, each of which runs COMMAND, and watch "
		 "them.\nhvdrun starts it once on each host where no scheduler starts the ranks.",
	.options = options,
	.common = hvd_rank_args_rows,
	.most = HVD_ANY_OPERANDS,
	.command = true,
	.run = run,
};
