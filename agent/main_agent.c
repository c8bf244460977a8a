/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-agent - the program on the hosts of a job: agents, rank shims, and small helpers of both. srun's plugin and
 * hvdrun's backends start it; only `connect` is for users.
 *
 * The table below lists the subcommands. A subcommand with options is in a file of its own, subcommand_*.c. With no
 * argument, which is how Slurm starts a TaskProlog, hvd-agent runs the site's TaskProlog (spank/prolog.c).
 */
#include "bootstrap.h"
#include "gpu_look.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/emitted.h"
#include "lib/frameworks/launch_marks.h"
#include "lib/process/spawn.h"
#include "lib/protocol/step_plans.h"
#include "lsf/topology.h"
#include "process_name.h"
#include "stacks.h"
#include "subcommand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- subcommands without options ---- */

static const struct hvd_subcommand inspect, gpus, topology, drain;

static int run_inspect(int argc, char **argv, const struct hvd_log *log)
{
	char **which;
	int status = hvd_subcommand_parse(&inspect, argc, argv, NULL, &which, log);

	return status >= 0 ? status : hvd_stacks_run(*which, log);
}

static int run_gpus(int argc, char **argv, const struct hvd_log *log)
{
	char **root;
	int status = hvd_subcommand_parse(&gpus, argc, argv, NULL, &root, log);

	return status >= 0 ? status : hvd_gpu_look_run(*root ? *root : "", log);
}

static int run_topology(int argc, char **argv, const struct hvd_log *log)
{
	hvd_cleanup_free char *text = NULL;
	struct hvd_err err = {0};
	char **none;
	int status = hvd_subcommand_parse(&topology, argc, argv, NULL, &none, log);

	if (status >= 0)
		return status;
	text = hvd_topology_line(&err);
	if (!text)
		hvd_log_err(log, &err);
	return text && puts(text) != EOF && fflush(stdout) == 0 ? 0 : 1;
}

static int run_drain(int argc, char **argv, const struct hvd_log *log)
{
	char **none;
	int status = hvd_subcommand_parse(&drain, argc, argv, NULL, &none, log);

	return status >= 0 ? status : hvd_bootstrap_drain();
}

static const struct hvd_subcommand inspect = {
	.name = "inspect",
	.process = "hvd-inspect",
	.operands = "WHICH",
	.summary = "print the stacks of ranks of this host",
	.about = "Inspect ranks of this host, and print their stacks as JSON. WHICH is RANK:PID,...@SECONDS, "
		 "or\nJOB@SECONDS or JOB.STEP@SECONDS. A node agent starts it, and hvdrun --stacks in a step beside "
		 "the ranks.",
	.least = 1,
	.most = 1,
	.run = run_inspect,
};

static const struct hvd_subcommand gpus = {
	.name = "gpus",
	.process = "hvd-gpus",
	.operands = "[ROOT]",
	.summary = "look at what processes use of GPUs",
	.about = "Answer questions for what processes of this host use of GPUs, until stdin, a socket, ends. A node "
		 "agent\nstarts it. Tests have a ROOT with dev, proc and sys below it.",
	.most = 1,
	.run = run_gpus,
};

static const struct hvd_subcommand topology = {
	.name = "topology",
	.process = "hvd-topology",
	.operands = "",
	.summary = "print which cores this host has",
	.about = "Print which cores this host has, in one line. hvdrun has jsrun start it on the hosts of an LSF job.",
	.run = run_topology,
};

static const struct hvd_subcommand drain = {
	.name = "drain",
	.process = "hvd-drain",
	.operands = "",
	.summary = "read stdin to its end",
	.about = "Read stdin to its end. A rank shim starts it for input that belongs to another rank.",
	.run = run_drain,
};

/* ---- the TaskProlog ---- */

/* The environment is that which the site's program would have without this suite. */
static int run_program(const char *program, const struct hvd_log *log)
{
	char *argv[] = {(char *)program, NULL};
	struct hvd_spawn spawn = {.path = program, .argv = argv};
	struct hvd_err err = {0};
	int status = 0;
	pid_t pid = hvd_spawn(&spawn, &err);

	if (pid < 0) {
		hvd_err_prefix(&err, "TaskProlog");
		hvd_log_err(log, &err);
		return 1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return hvd_status_exit(status);
}

/* Set a variable of the plan once more, unless the site may know it as well as the launch. */
static void print_fact(const char *name)
{
	const struct hvd_emitted *flags = hvd_emitted_flags(name);
	const char *value = getenv(name);

	if (value && !flags->iface && !flags->keeps && !strchr(value, '\n'))
		printf("export %s=%s\n", name, value);
}

/*
 * In place of the site's TaskProlog, for tasks of srun --hvd: run `program`, which is the site's, with this process's
 * output. Then print the plan's variables again, with their values of this process's environment, so that they win over
 * the output of `program`. Variables that name interfaces are an exception: there the site may know better. Slurm runs
 * this after the plugin has set the plan's variables in the task, and sets in the task each "export NAME=value" that is
 * printed. Returns the exit status of `program`.
 */
static int run_prolog(const char *program, const struct hvd_log *log)
{
	const char *text = getenv(HVD_PROLOG_NAMES_ENV);
	char *own = hvd_xstrdup(program), *names = hvd_xstrdup(text ? text : ""), *save = NULL;
	int status;

	unsetenv(HVD_PROLOG_ENV);
	unsetenv(HVD_PROLOG_NAMES_ENV);
	status = run_program(own, log);
	for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
		print_fact(name);
	printf("unset " HVD_PROLOG_ENV "\nunset " HVD_PROLOG_NAMES_ENV "\n");
	free(own);
	free(names);
	return fflush(stdout) == 0 ? status : 1;
}

/* ---- the program ---- */

static const struct hvd_subcommand *const subcommands[] = {
	&hvd_subcommand_connect, /* the user */
	&hvd_subcommand_host,    /* the backends ssh, fork, blaunch and lsrun; steps of elastic jobs */
	&hvd_subcommand_shim,    /* the backends srun, mpirun and jsrun */
	&hvd_subcommand_plan,    /* the plugin, in a task */
	&inspect,                /* rank_watch.c; hvdrun --stacks */
	&gpus,                   /* gpu_usage.c */
	&topology,               /* the backend jsrun, on the hosts of a job */
	&drain,                  /* a shim with --input */
};

#define N_SUBCOMMANDS (sizeof(subcommands) / sizeof(subcommands[0]))

static void print_usage(FILE *to)
{
	fputs("usage: hvd-agent SUBCOMMAND [OPTION]...\n\n", to);
	for (size_t i = 0; i < N_SUBCOMMANDS; i++)
		fprintf(to, "  %-9s %s\n", subcommands[i]->name, subcommands[i]->summary);
	fputs("\nhvd-agent SUBCOMMAND --help shows its options; hvd-agent --version prints the version.\nOnly connect "
	      "is started by hand; srun --hvd and hvdrun start the others. See hvd-join(7).\n",
	      to);
}

static int run(const struct hvd_subcommand *subcommand, int argc, char **argv, const struct hvd_log *log)
{
	hvd_process_name(subcommand->process);
	return subcommand->run(argc, argv, log);
}

int main(int argc, char **argv)
{
	struct hvd_log log = hvd_log_make("hvd-agent", HVD_LOG_INFO);
	const char *word = argc > 1 ? argv[1] : "";

	/* Slurm gives its TaskProlog no argument. */
	if (argc == 1 && getenv(HVD_PROLOG_ENV)) {
		hvd_process_name("hvd-prolog");
		return run_prolog(getenv(HVD_PROLOG_ENV), &log);
	}
	hvd_launch_marks_drop();
	if (strcmp(word, "--version") == 0) {
		puts("hvd-agent " HVD_VERSION);
		return 0;
	}
	if (strcmp(word, "--help") == 0) {
		print_usage(stdout);
		return 0;
	}
	for (size_t i = 0; i < N_SUBCOMMANDS; i++)
		if (strcmp(word, subcommands[i]->name) == 0)
			return run(subcommands[i], argc - 1, argv + 1, &log);
	/* The program's name in older releases, for which users have typed --join=ADDRESS. */
	if (word[0] == '-' && strcmp(program_invocation_short_name, "hvd-task") == 0) {
		argv[0] = (char *)hvd_subcommand_connect.name;
		return run(&hvd_subcommand_connect, argc, argv, &log);
	}
	if (argc > 1)
		hvd_error(&log, "there is no subcommand '%s'", word);
	print_usage(stderr);
	return 2;
}
