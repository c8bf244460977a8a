/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-task - the rank shim and node agent. srun's plugin and the launch backends start it on the hosts of a job.
 *
 * One option chooses the mode (see the table `modes` below):
 *
 *   -- COMMAND                  rank shim: run COMMAND with this rank's plan, which the host's node agent gets. The
 * first shim of a host starts that. Started for each rank by the backend srun (shim.h).
 *   --mpi=HOST:SLOTS,…          the same for each rank that an MPI starts. The MPI fills the hosts slot by slot. The
 *                               rank ends with the process that started it (monitor.h).
 *   --jsrun=HOST:SLOTS,…        the same for each rank that jsrun starts. jsrun need not end its tasks when it is
 *                               killed, so the rank ends when the driver says so or is gone.
 *   --host=INDEX:HOSTS:NAME --ranks=FIRST:COUNT
 *                               node agent: start all ranks of this host and watch them. Started for each host by
 *                               the backends ssh, fork, blaunch and lsrun, and in elastic jobs (supervisor.h).
 *   --plan                      start the host's node agent, and print the plans of all ranks of this host: NAME=VALUE,
 *                               each with a NUL. Started in a host's first task of srun --hvd by the plugin
 *                               (spank/task.c), which sets them.
 *   --topology                  print what cores this host has (lsf/topology.h). Started by the backend jsrun.
 *   --join=ADDRESS              agent: come to a launch that waits for agents, and be the node agent of this host for
 *                               it. Started by whatever the user has, for hvdrun --launcher=join (join.h); with
 *                               --key-file=FILE|- [--slots=N] [--index=N] [--name=HOST] [--timeout=SECONDS]
 *   --stacks=WHICH              print where ranks of this host are (stacks.h). Started by a process that stays with
 * them, or in a step beside theirs by hvdrun --stacks
 *   --drain                     read stdin to its end. Started by a rank shim (stdin_bootstrap.h).
 *   no argument                 run the site's TaskProlog: Slurm starts this program in its place (prolog.h).
 *
 * Of the other options, those that change what a mode does:
 *
 *   --stdin                     the driver's address, the key and, for --host, the environment and the directory come
 *                               on stdin (lib/protocol/preamble.h); else HVD_BOOT_ENV has the address
 *   --input=RANK|none           what follows on stdin then goes to this rank's COMMAND only, or to none
 *   --notes                     slurmstepd and its tasks tell the node agent of themselves (lib/protocol/step_note.h)
 *   --guarded                   run behind a monitor (monitor.h), which adds --behind
 *   --nice=N, --memlock=BYTES|unlimited
 *                               take over these limits of the launcher
 */
#include "command.h"
#include "join.h"
#include "lib/base/cleanup.h"
#include "lib/base/log.h"
#include "lib/process/task_prolog.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/preamble.h"
#include "lsf/topology.h"
#include "monitor.h"
#include "prolog.h"
#include "shim.h"
#include "stacks.h"
#include "stdin_bootstrap.h"
#include "supervisor.h"
#include "taskinfo.h"

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char usage[] =
	"usage: hvd-task --plan [--notes] | hvd-task [--mpi=HOST:SLOTS,… | --jsrun=HOST:SLOTS,… "
	"| "
	"--host=N:NODES:NAME "
	"--ranks=FIRST:COUNT [--stdin] [--guarded]] "
	"[--nice=N] [--memlock=BYTES|unlimited] "
	"[--label=srun|horovod] [--framed] [--timestamps] [--output-dir=DIR] [--size=N] [--bind[=near] "
	"[--cpus=LIST:LIST…]] -- COMMAND… | "
	"hvd-task --stdin [--input=RANK|none] … -- COMMAND… | "
	"hvd-task --stacks=WHICH | hvd-task --drain | hvd-task --topology | "
	"hvd-task --join=ADDRESS --key-file=FILE|- [--slots=N] [--index=N] [--name=HOST] [--timeout=SECONDS]\n"
	"Only --join is started by hand; all else by srun --hvd and hvdrun: see hvdrun(1).\n";

enum mode_index {
	MODE_RANK, /* no option chooses it */
	MODE_MPI,
	MODE_JSRUN,
	MODE_HOST,
	MODE_PLAN,
	MODE_TOPOLOGY,
	MODE_DRAIN,
	MODE_JOIN,
	MODE_STACKS,
	N_MODES,
};

/* What the command line says. */
struct args {
	enum mode_index mode;
	const char *value; /* of the mode's option; NULL = none */
	const char *ranks, *input, *nice, *memlock;
	bool from_stdin, guarded, behind, notes;
	struct hvd_ranks_opts opts;
	struct hvd_join_opts join;
};

struct task {
	struct args args;
	struct hvd_boot boot;
	struct hvd_taskinfo info;
	struct hvd_err refusal; /* with a code: there can be no ranks here, and the driver is to be told why */
	struct hvd_log log;
};

static int run_rank(struct task *task)
{
	static const enum hvd_host_agent_kind kinds[] = {[MODE_RANK] = HVD_HOST_AGENT_SRUN,
							 [MODE_MPI] = HVD_HOST_AGENT_MPI,
							 [MODE_JSRUN] = HVD_HOST_AGENT_JSRUN};
	struct hvd_shim_opts opts = {
		.kind = kinds[task->args.mode], .argv = task->args.opts.argv, .style = &task->args.opts.output};

	return hvd_shim_run(&task->boot, &task->info, &opts, &task->log);
}

static int run_host(struct task *task)
{
	return hvd_supervise_host(&task->boot, &task->info, &task->args.opts, &task->refusal, &task->log);
}

static int print_plan(struct task *task)
{
	return hvd_shim_print_plans(&task->boot, &task->info, task->args.notes, &task->log);
}

static int print_topology(struct task *task)
{
	struct hvd_err err = {0};
	hvd_cleanup_free char *text = hvd_topology_line(&err);

	if (!text)
		hvd_log_err(&task->log, &err);
	return text && puts(text) != EOF && fflush(stdout) == 0 ? 0 : 1;
}

static int drain(struct task *task)
{
	(void)task;
	return hvd_stdin_bootstrap_drain();
}

static int join(struct task *task);

static int stacks(struct task *task)
{
	return hvd_stacks_run(task->args.value, &task->log);
}

/* The modes, and what starts this program in each. All return the exit status. */
static const struct mode {
	bool command; /* a COMMAND must follow the options; else none may */
	bool driver;  /* the mode needs the driver's address, and which ranks of the job are this process's */
	int (*run)(struct task *task);
} modes[N_MODES] = {
	[MODE_RANK] = {true, true, run_rank},             /* the backend srun */
	[MODE_MPI] = {true, true, run_rank},              /* mpirun and its like */
	[MODE_JSRUN] = {true, true, run_rank},            /* jsrun */
	[MODE_HOST] = {true, true, run_host},             /* ssh, fork, blaunch, lsrun, steps of elastic jobs */
	[MODE_PLAN] = {false, true, print_plan},          /* the plugin, in a task */
	[MODE_TOPOLOGY] = {false, false, print_topology}, /* the backend jsrun, on the hosts of a job */
	[MODE_DRAIN] = {false, false, drain},             /* MODE_RANK with --input=RANK */
	[MODE_JOIN] = {false, false, join},               /* the user */
	[MODE_STACKS] = {false, false, stacks},           /* rank_watch.c; hvdrun --stacks */
};

static bool misused(const struct args *args, bool command)
{
	bool host = args->mode == MODE_HOST;

	return command != modes[args->mode].command || host != (args->ranks != NULL) || (args->guarded && !host) ||
	       (args->from_stdin && !command) || (args->join.key_file && args->mode != MODE_JOIN) ||
	       (args->input && (host || !args->from_stdin)) || (args->notes && args->mode != MODE_PLAN);
}

/* The option of a mode stands for the mode. */
static const struct option options[] = {
	{"mpi", required_argument, NULL, MODE_MPI},
	{"jsrun", required_argument, NULL, MODE_JSRUN},
	{"host", required_argument, NULL, MODE_HOST},
	{"plan", no_argument, NULL, MODE_PLAN},
	{"topology", no_argument, NULL, MODE_TOPOLOGY},
	{"drain", no_argument, NULL, MODE_DRAIN},
	{"join", required_argument, NULL, MODE_JOIN},
	{"stacks", required_argument, NULL, MODE_STACKS},
	{"ranks", required_argument, NULL, 'r'},
	{"notes", no_argument, NULL, 'd'},
	{"label", required_argument, NULL, 'l'},
	{"timestamps", no_argument, NULL, 't'},
	{"output-dir", required_argument, NULL, 'o'},
	{"size", required_argument, NULL, 'n'},
	{"bind", optional_argument, NULL, 'b'},
	{"behind", no_argument, NULL, 'B'},
	{"guarded", no_argument, NULL, 'g'},
	{"stdin", no_argument, NULL, 'i'},
	{"cpus", required_argument, NULL, 'c'},
	{"framed", no_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},
	{"input", required_argument, NULL, 'I'},
	{"version", no_argument, NULL, 'V'},
	{"nice", required_argument, NULL, 'N'},
	{"memlock", required_argument, NULL, 'L'},
	{"key-file", required_argument, NULL, 'k'},
	{"slots", required_argument, NULL, 'S'},
	{"index", required_argument, NULL, 'X'},
	{"name", required_argument, NULL, 'H'},
	{"timeout", required_argument, NULL, 'T'},
	{NULL, 0, NULL, 0},
};

/* Take over an option other than --help and --version. False: there is no such option, or a second one of a mode. */
static bool take_option(struct args *args, int c)
{
	struct hvd_output_style *style = &args->opts.output;

	switch (c) {
	case 'r':
		args->ranks = optarg;
		break;
	case 'd':
		args->notes = true;
		break;
	case 'l':
		style->label = strcmp(optarg, "horovod") == 0 ? HVD_LABEL_HOROVOD : HVD_LABEL_SRUN;
		break;
	case 't':
		style->timestamps = true;
		break;
	case 'o':
		style->dir = optarg;
		break;
	case 'n':
		style->size = atoi(optarg);
		break;
	case 'b':
		args->opts.bind = true;
		args->opts.near = optarg && strcmp(optarg, "near") == 0;
		break;
	case 'c':
		args->opts.cpus = optarg;
		break;
	case 'B':
		args->behind = true;
		break;
	case 'g':
		args->guarded = true;
		break;
	case 'f':
		style->framed = true;
		break;
	case 'i':
		args->from_stdin = true;
		break;
	case 'I':
		args->input = optarg;
		break;
	case 'k':
		args->join.key_file = optarg;
		break;
	case 'S':
		args->join.slots = optarg;
		break;
	case 'X':
		args->join.index = optarg;
		break;
	case 'H':
		args->join.name = optarg;
		break;
	case 'T':
		args->join.timeout = optarg;
		break;
	case 'N':
		args->nice = optarg;
		break;
	case 'L':
		args->memlock = optarg;
		break;
	default:
		if (c >= N_MODES || args->mode != MODE_RANK)
			return false;
		args->mode = (enum mode_index)c;
		args->value = optarg;
	}
	return true;
}

/* Returns the exit status to end with, or -1 to go on. */
static int parse(int argc, char **argv, struct args *args)
{
	int c;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == 'V') {
			printf("hvd-task %s\n", HVD_VERSION);
			return 0;
		}
		if (c == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (!take_option(args, c)) {
			fputs(usage, stderr);
			return 2;
		}
	}
	args->opts.argv = argv + optind;
	if (!misused(args, optind < argc))
		return -1;
	fputs(usage, stderr);
	return 2;
}

/* Take over what the launcher has sent on stdin. Returns 0, or the exit status to end with, after saying why. */
static int enter_stdin(struct task *task)
{
	const struct args *args = &task->args;
	struct hvd_err err = {0};
	int status = hvd_stdin_bootstrap_enter(&task->boot, &err);

	/* LSF's launchers may lose this process's output and exit status, so the driver is told. */
	if (status == HVD_PREAMBLE_NO_DIRECTORY && args->behind) {
		task->refusal = err;
		hvd_err_hint(&task->refusal, "start hvdrun in a directory that all hosts have, with the same path");
		return 0;
	}
	if (status == 0 && args->input && hvd_stdin_bootstrap_input(args->input, task->info.rank, &err) != 0)
		status = 1;
	else if (status != 0)
		hvd_err_host(&err, task->info.name);
	if (status != 0)
		hvd_log_err(&task->log, &err);
	return status;
}

static int find_ranks(const struct args *args, struct hvd_taskinfo *info, struct hvd_err *err)
{
	switch (args->mode) {
	case MODE_HOST:
		return hvd_taskinfo_host(args->value, args->ranks, info, err);
	case MODE_MPI:
		return hvd_taskinfo_mpi(args->value, info, err);
	case MODE_JSRUN:
		return hvd_taskinfo_jsrun(args->value, info, err);
	default:
		return hvd_taskinfo_slurm(info, err);
	}
}

/* Find out where the driver is, and which ranks of the job are this process's. Returns 0, or the exit status to end
 * with, after saying why. */
static int prepare(struct task *task)
{
	const struct args *args = &task->args;
	const char *text = args->from_stdin ? "" : getenv(HVD_BOOT_ENV);
	struct hvd_err err = {0};
	char host[256] = "";

	if (!text) {
		hvd_error(&task->log, "%s is not set: hvd-task is started by srun --hvd and hvdrun, not by hand",
			  HVD_BOOT_ENV);
		return 2;
	}
	if ((!args->from_stdin && hvd_boot_parse(text, &task->boot, &err) != 0) ||
	    find_ranks(args, &task->info, &err) != 0) {
		/* It is not known here what the scheduler calls this host. */
		if (!err.host[0] && gethostname(host, sizeof(host) - 1) == 0)
			hvd_err_host(&err, host);
		hvd_log_err(&task->log, &err);
		return 1;
	}
	return args->from_stdin ? enter_stdin(task) : 0;
}

static void set_level(struct task *task, const struct hvd_boot *boot)
{
	task->log.level = boot->verbose > 1 ? HVD_LOG_DEBUG : boot->verbose ? HVD_LOG_VERBOSE : HVD_LOG_INFO;
}

/* The launch's arguments are those of MODE_HOST. */
static int join(struct task *task)
{
	struct hvd_joined joined;
	struct hvd_err err = {0};
	int status;

	task->args.join.address = task->args.value;
	status = hvd_join(&task->args.join, &joined, &task->log);
	if (status >= 0)
		return status;
	memset(&task->args, 0, sizeof(task->args));
	optind = 0;
	if (parse((int)joined.args.n, joined.args.v, &task->args) >= 0 || task->args.mode != MODE_HOST ||
	    find_ranks(&task->args, &task->info, &err) != 0) {
		hvd_err_set(&err, HVD_E_PROTO, "the launcher sent a command line that this release does not know");
		hvd_log_err(&task->log, &err);
		return 1;
	}
	set_level(task, &joined.boot);
	status = hvd_supervise_joined(&joined, &task->info, &task->args.opts, &task->log);
	hvd_strv_free(&joined.args);
	hvd_taskinfo_free(&task->info);
	return status;
}

int main(int argc, char **argv)
{
	struct task task = {.log = hvd_log_make("hvd-task", HVD_LOG_INFO)};
	const struct args *args = &task.args;
	int status;

	/* Slurm gives its TaskProlog no argument. */
	if (argc == 1 && getenv(HVD_PROLOG_ENV))
		return hvd_prolog_run(getenv(HVD_PROLOG_ENV), &task.log);
	status = parse(argc, argv, &task.args);
	if (status >= 0)
		return status;
	hvd_stdin_bootstrap_limits(args->nice, args->memlock);
	if (args->mode == MODE_JOIN && !args->behind)
		return hvd_monitor_run(argv, HVD_MONITOR_JOIN, &task.log);
	if (!modes[args->mode].driver)
		return modes[args->mode].run(&task);
	if ((args->mode == MODE_MPI || args->guarded) && !args->behind)
		return hvd_monitor_run(argv, args->guarded ? HVD_MONITOR_HOST : HVD_MONITOR_RANK, &task.log);
	if (args->mode == MODE_MPI)
		hvd_command_follow();
	else if (args->behind)
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* the end of the monitor ends this process, after its ranks */
	/* That a peer is gone is an error to handle here; the command starts with the default. */
	signal(SIGPIPE, SIG_IGN);
	status = prepare(&task);
	if (status == 0) {
		set_level(&task, &task.boot);
		status = modes[args->mode].run(&task);
	}
	hvd_taskinfo_free(&task.info);
	return status;
}
