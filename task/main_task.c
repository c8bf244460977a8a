/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-task - the rank shim.
 *
 *   hvd-task --plan[=all]          fetch this rank's plan, print it as NAME=VALUE, each with a NUL; or the plans of
 *                                  all ranks of this host (task/rank.h)
 *                                  (the SPANK plugin turns it into the task's environment)
 *   hvd-task -- COMMAND            fetch this rank's plan, run COMMAND in it, report how it ended
 *   hvd-task --mpi=HOST:SLOTS,… -- COMMAND
 *                                  the same where an MPI starts the ranks: they are put on these hosts, slot by
 *                                  slot; the rank ends with what started it
 *   hvd-task --jsrun=HOST:SLOTS,… -- COMMAND
 *                                  the same as a task of jsrun, which need not end its tasks when it is killed: the
 *                                  rank ends when the driver says so or the connection to it drops
 *   hvd-task --stdin [--input=RANK|none] -- COMMAND
 *                                  the same as a task of srun where there is no munge: the launch's key comes on
 *                                  stdin; of what follows there, COMMAND gets all, or only that of this rank
 *   hvd-task --topology            print what this host has of cores (lsf/topology.h)
 *   hvd-task --host=INDEX:HOSTS:NAME --ranks=FIRST:COUNT -- COMMAND
 *                                  start all ranks of this host and watch them; with --stdin the launch's
 *                                  environment, directory and key come on stdin (lib/protocol/preamble.h); with
 * --guarded the shim runs behind a front (task/monitor.h); --nice=N and --memlock=BYTES|unlimited are the launcher's
 * own hvd-task --serve=PID           run the rendezvous until this process ends, or the driver goes hvd-task
 * --watchdog=PID        start that, and see that it does not outlive the process hvd-task                       in
 * place of the site's TaskProlog, when its variable is set (task_prolog.h) hvd-task --drain               read stdin to
 * its end (task/stdin_bootstrap.h)
 *
 * Started by the plugin and the launch backends, not by hand.
 */
#include "command.h"
#include "host.h"
#include "lib/base/log.h"
#include "lib/process/spawn.h"
#include "lib/process/task_prolog.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/preamble.h"
#include "lsf/topology.h"
#include "monitor.h"
#include "prolog.h"
#include "rank.h"
#include "serve.h"
#include "stdin_bootstrap.h"
#include "supervised_rank.h"
#include "taskinfo.h"

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static const char usage[] =
	"usage: hvd-task --plan[=all] | hvd-task [--mpi=HOST:SLOTS,… | --jsrun=HOST:SLOTS,… | --host=N:NODES:NAME "
	"--ranks=FIRST:COUNT [--stdin] [--guarded]] "
	"[--nice=N] [--memlock=BYTES|unlimited] "
	"[--label=srun|horovod] [--framed] [--timestamps] [--output-dir=DIR] [--size=N] [--bind[=near] "
	"[--cpus=LIST:LIST…]] -- COMMAND… | "
	"hvd-task --stdin [--input=RANK|none] … -- COMMAND… | hvd-task --serve=PID | hvd-task --watchdog=PID | "
	"hvd-task --drain | hvd-task --topology\n"
	"Started by srun --hvd and hvdrun, not by hand: see hvdrun(1).\n";

enum mode {
	MODE_RUN,
	MODE_PLAN,
	MODE_HOST,
	MODE_SERVE,
	MODE_WATCHDOG,
	MODE_TOPOLOGY,
	MODE_DRAIN,
};

struct args {
	enum mode mode;
	const char *host, *ranks, *mpi, *jsrun, *input, *nice, *memlock;
	bool from_stdin, guarded, behind, all;
	pid_t task; /* whose rendezvous to run */
	struct hvd_host_opts opts;
};

/* Returns the exit status to end with, or -1 to go on. */
static int parse(int argc, char **argv, struct args *args)
{
	static const struct option options[] = {
		{"plan", optional_argument, NULL, 'p'},
		{"host", required_argument, NULL, 'h'},
		{"ranks", required_argument, NULL, 'r'},
		{"label", required_argument, NULL, 'l'},
		{"timestamps", no_argument, NULL, 't'},
		{"output-dir", required_argument, NULL, 'o'},
		{"size", required_argument, NULL, 'n'},
		{"bind", optional_argument, NULL, 'b'},
		{"mpi", required_argument, NULL, 'm'},
		{"behind", no_argument, NULL, 'B'},
		{"guarded", no_argument, NULL, 'g'},
		{"jsrun", required_argument, NULL, 'j'},
		{"topology", no_argument, NULL, 'y'},
		{"serve", required_argument, NULL, 's'},
		{"stdin", no_argument, NULL, 'i'},
		{"cpus", required_argument, NULL, 'c'},
		{"framed", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, '?' + 256},
		{"input", required_argument, NULL, 'I'},
		{"drain", no_argument, NULL, 'd'},
		{"version", no_argument, NULL, 'V'},
		{"watchdog", required_argument, NULL, 'w'},
		{"nice", required_argument, NULL, 'N'},
		{"memlock", required_argument, NULL, 'L'},
		{NULL, 0, NULL, 0},
	};
	struct hvd_output_style *style = &args->opts.output;
	int c;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			args->mode = MODE_PLAN;
			args->all = optarg && strcmp(optarg, "all") == 0;
			break;
		case 'h':
			args->mode = MODE_HOST;
			args->host = optarg;
			break;
		case 'r':
			args->ranks = optarg;
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
		case 'B': /* by the front of this shim (monitor.h) */
			args->behind = true;
			break;
		case 'g':
			args->guarded = true;
			break;
		case 'm':
			args->mpi = optarg;
			break;
		case 'j':
			args->jsrun = optarg;
			break;
		case 'y':
			args->mode = MODE_TOPOLOGY;
			break;
		case 's':
		case 'w':
			args->mode = c == 's' ? MODE_SERVE : MODE_WATCHDOG;
			args->task = atoi(optarg);
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
		case 'N':
			args->nice = optarg;
			break;
		case 'L':
			args->memlock = optarg;
			break;
		case 'd':
			args->mode = MODE_DRAIN;
			break;
		case 'V':
			printf("hvd-task %s\n", HVD_VERSION);
			return 0;
		case '?' + 256:
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	args->opts.argv = argv + optind;
	if (((args->mpi || args->jsrun) && args->mode != MODE_RUN) ||
	    (args->mode == MODE_HOST ? !args->ranks || args->input : args->guarded) ||
	    (args->from_stdin ? args->mode != MODE_RUN && args->mode != MODE_HOST : args->input != NULL) ||
	    (args->mode == MODE_RUN || args->mode == MODE_HOST) != (optind < argc)) {
		fputs(usage, stderr);
		return 2;
	}
	return -1;
}

/* Before it is known which host of the job this is. */
static int fail(const struct hvd_log *log, struct hvd_err *err)
{
	char host[256] = "";

	if (!err->host[0] && gethostname(host, sizeof(host) - 1) == 0)
		hvd_err_host(err, host);
	hvd_log_err(log, err);
	return 1;
}

/* The launch's data on stdin. Returns as prepare(). */
static int enter(const struct args *args, struct hvd_boot *boot, struct hvd_taskinfo *info, struct hvd_err *refusal,
		 const struct hvd_log *log)
{
	struct hvd_err err = {0};
	int status = hvd_stdin_bootstrap_enter(boot, &err);

	/* LSF's launchers may lose this status and what is said here. The driver is told instead. */
	if (status == HVD_PREAMBLE_NO_DIRECTORY && args->behind) {
		*refusal = err;
		hvd_err_hint(refusal, "start hvdrun in a directory that all hosts have, with the same path");
		return 0;
	}
	if (status == 0 && args->input && hvd_stdin_bootstrap_input(args->input, info->rank, &err) != 0)
		status = 1;
	else if (status != 0)
		hvd_err_host(&err, info->name);
	if (status == 0)
		return 0;
	hvd_log_err(log, &err);
	hvd_taskinfo_free(info);
	return status;
}

/* Where the driver is, and which ranks are ours. Returns 0, or the exit status to end with, after saying why. With
 * `refusal` set the driver is to be told that there will be no ranks here. */
static int prepare(const struct args *args, struct hvd_boot *boot, struct hvd_taskinfo *info, struct hvd_err *refusal,
		   const struct hvd_log *log)
{
	const char *text = args->from_stdin ? "" : getenv(HVD_BOOT_ENV);
	struct hvd_err err = {0};

	if (!text) {
		hvd_error(log, "%s is not set: hvd-task is started by srun --hvd and hvdrun, not by hand",
			  HVD_BOOT_ENV);
		return 2;
	}
	if ((!args->from_stdin && hvd_boot_parse(text, boot, &err) != 0) ||
	    (args->mode == MODE_HOST ? hvd_taskinfo_host(args->host, args->ranks, info, &err)
	     : args->mpi             ? hvd_taskinfo_mpi(args->mpi, info, &err)
	     : args->jsrun           ? hvd_taskinfo_jsrun(args->jsrun, info, &err)
				     : hvd_taskinfo_slurm(info, &err)) != 0)
		return fail(log, &err);
	return args->from_stdin ? enter(args, boot, info, refusal, log) : 0;
}

static int print_topology(const struct hvd_log *log)
{
	struct hvd_err err = {0};
	char *text = hvd_topology_line(&err);

	if (!text)
		hvd_log_err(log, &err);
	if (!text || puts(text) == EOF || fflush(stdout) != 0) {
		free(text);
		return 1;
	}
	free(text);
	return 0;
}

int main(int argc, char **argv)
{
	struct hvd_log log = hvd_log_make("hvd-task", HVD_LOG_INFO);
	struct args args = {0};
	struct hvd_taskinfo info;
	struct hvd_boot boot;
	struct hvd_err err = {0}, refusal = {0};
	int status;

	/* Slurm gives its TaskProlog no argument. */
	if (argc == 1 && getenv(HVD_PROLOG_ENV))
		return hvd_prolog_run(getenv(HVD_PROLOG_ENV), &log);
	status = parse(argc, argv, &args);
	if (status >= 0)
		return status;
	hvd_stdin_bootstrap_limits(args.nice, args.memlock);
	if (args.mode == MODE_TOPOLOGY)
		return print_topology(&log);
	if (args.mode == MODE_DRAIN)
		return hvd_stdin_bootstrap_drain();
	if (args.mode == MODE_WATCHDOG)
		return hvd_serve_watch(args.task, &err) == 0 ? 0 : 1;
	if ((args.mpi || args.guarded) && !args.behind)
		return hvd_monitor_run(argv, args.guarded, &log);
	if (args.mpi)
		hvd_command_follow();
	else if (args.behind)
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* which ends the ranks first */
	signal(SIGPIPE, SIG_IGN); /* a peer that goes is an error to handle; the command gets the default back */
	status = prepare(&args, &boot, &info, &refusal, &log);
	if (status != 0)
		return status;
	log.level = boot.verbose > 1 ? HVD_LOG_DEBUG : boot.verbose ? HVD_LOG_VERBOSE : HVD_LOG_INFO;
	switch (args.mode) {
	case MODE_PLAN:
		status = hvd_rank_print_plan(&boot, &info, args.all, &log);
		break;
	case MODE_RUN:
		if (args.jsrun) {
			status = hvd_supervised_rank_run(&boot, &info, &args.opts, &log);
			break;
		}
		status = hvd_rank_run(&boot, &info, args.opts.argv, &args.opts.output, args.mpi != NULL, &log);
		break;
	case MODE_HOST:
		status = hvd_host_run(&boot, &info, &args.opts, &refusal, &log);
		break;
	case MODE_SERVE:
		status = hvd_serve_run(&boot, &info, args.task, &log, &err) == 0 ? 0 : 1;
		break;
	case MODE_WATCHDOG:
	case MODE_TOPOLOGY:
	case MODE_DRAIN:
		break;
	}
	hvd_taskinfo_free(&info);
	return status;
}
