/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_hvd.c - hvdrun's own options, and the plugin's spellings of the settings that both have, so that
 * `srun --hvd …` and `hvdrun …` take the same words.
 */
#include "options_rows.h"

#define LAUNCHERS "auto|srun|fork|jsrun|blaunch|lsrun|ssh|mpirun|join"

int hvd_options_read_frameworks(void *result, const char *from, const char *value, struct hvd_err *err)
{
	return hvd_frameworks_parse(from, value ? value : "", &((struct hvd_options *)result)->frameworks, err);
}

#define ROW(n, ar, g, hint, text)                                                                                      \
	.name = n, .family = HVD_FAMILY_HVD, .arity = HVD_ARG_##ar, .group = HVD_G_##g, .arg = hint, .help = text
#define FLAG(n, g, text, field)       ROW(n, NONE, g, NULL, text), .type = HVD_OPT_FLAG, .at = HVD_AT(field)
#define TEXT(n, g, hint, text, field) ROW(n, REQUIRED, g, hint, text), .type = HVD_OPT_STRING, .at = HVD_AT(field)

static const struct hvd_opt rows[] = {
	{ROW("launcher", REQUIRED, RUN, "NAME", "Start processes through srun, ssh, mpirun or another launcher"),
	 .more = "auto selects the scheduler of the job that hvdrun runs in. Outside of a job it selects srun if an "
		 "option of srun is given (-n, -l, but not -np) and srun is in PATH, else ssh if --hosts lists other "
		 "machines, else fork, on this machine. join waits for agents that something else starts. See "
		 "LAUNCHERS in hvdrun(1)",
	 .type = HVD_OPT_ENUM, .at = HVD_AT(launcher), .choices = LAUNCHERS, .env = "HVD_LAUNCHER", .def = "auto"},
	{FLAG("keep-going", RUN, "Let the other ranks go on when a rank fails", keep_going),
	 .more = "The same as srun's -K0", .env = "HVD_KEEP_GOING"},
	{FLAG("dry-run", RUN, "Show what would be started, and start nothing", dry_run)},
	{FLAG("selftest", RUN, "Test the network instead of running a command", selftest),
	 .more = "hvd-selftest(1) tests whether all ranks reach each other"},
	{TEXT("preload", RUN, "MODULES", "Import these Python modules once on each host, and fork the ranks from there",
	      preload),
	 .more = "As in --preload=torch,transformers. Restarts then do not wait for imports. The command must be "
		 "Python, "
		 "and the ranks must be started by hvdrun and not by a scheduler. See PRELOADING in hvdrun(1)"},
	{TEXT("erf", RUN, "FILE", "Write jsrun's explicit resource file here, and keep it", erf),
	 .more = "With --dry-run the file is for use by hand"},
	{TEXT("run-func", RUN, "FILE", "Offer all ranks the function in this file, or descriptor", run_func),
	 .more = "This is for programs such as the Python module hvdrun, which collect what the ranks return; see "
		 "FUNCTIONS in hvdrun(1)"},
	{TEXT("results", RUN, "FILE", "Write the ranks' results of --run-func to this file, pipe or descriptor",
	      results)},

#define SETTING(field, id, g, kind, variables, value, text, rest)                                                      \
	{HVD_ROW(HVD, field, id, g, HVD_ROW_##kind, text), .more = rest, .env = variables, .def = value},
#define HOROVOD_SETTING(field, id, plugin, g, kind, variables, value, text, rest)
#include "lib/base/settings.def"

/* The plugin's spellings. */
#define SETTING(field, id, g, kind, variables, value, text, rest)                                                      \
	{HVD_ROW(HVD, field, "hvd-" id, g, HVD_ROW_##kind, "The plugin's spelling of --" id), .alias = true},
#define HOROVOD_SETTING(field, id, plugin, g, kind, variables, value, text, rest)                                      \
	{HVD_ROW(HVD, field, "hvd-" plugin, g, HVD_ROW_##kind, "The plugin's spelling of --" id), .alias = true},
#include "lib/base/settings.def"
	{ROW("hvd", NONE, START, NULL, "Do nothing: it is for srun with the plugin"), .type = HVD_OPT_TRI,
	 .at = HVD_AT(hvd), .alias = true},
	{ROW("no-hvd", NONE, START, NULL, "Do nothing: it is for srun with the plugin"), .type = HVD_OPT_TRI,
	 .at = HVD_AT(hvd), .negate = true, .alias = true},

	{ROW("nics", REQUIRED, START, "LIST", "Use only these network interfaces; the same as --network-interfaces"),
	 .type = HVD_OPT_LIST, .at = HVD_AT(nics)},
	{TEXT("join-file", START, "FILE", "Write the address at which agents join into this file", join_file),
	 .more = "This is for --launcher=join. The file is removed at the end", .env = "HVD_JOIN_FILE"},
	{TEXT("preflight-hook", START, "PROGRAM", "Run this program on each host for --preflight, as the user",
	      preflight_hook),
	 .more = "A host where the program exits with a status other than 0 is bad; the last line of the program's "
		 "output is the reason",
	 .env = "HVD_PREFLIGHT_HOOK"},

	{ROW("kill-wait", REQUIRED, FAILURE, "SECONDS",
	     "Kill ranks that have not ended this long after they were asked to end (SIGTERM)"),
	 .more = "It applies to ranks that hvdrun's agents start: with ssh, fork, join, blaunch and lsrun, and in "
		 "elastic "
		 "jobs. srun, mpirun and jsrun have their own times",
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(kill_wait), .env = "HVD_KILL_WAIT", .min = 0, .max = 3600,
	 .shown = "Slurm's KillWait in its jobs, else 15"},
	{TEXT("stacks", FAILURE, "JOB", "Show where the ranks of a running job are", stacks),
	 .more = "It shows their stacks. JOB is a job of the scheduler (123), a step (123.0), or the process of an "
		 "hvdrun or srun on this host (pid:4711). Nothing is started"},
	{ROW("plugin-path", NONE, INFO, NULL,
	     "Show the path of the plugin of this installation for plugstack.conf, and exit"),
	 .type = HVD_OPT_SET, .at = HVD_AT(action), .number = HVD_SHOW_PLUGIN},
	{ROW("lost-host", REQUIRED, FAILURE, "launch|slurm",
	     "Choose who ends a step of srun --hvd when a host is lost"),
	 .more = "launch: the launch ends it as scancel does, and prints a message. slurm: Slurm ends it, or its srun "
		 "waits forever. hvdrun always ends the job itself",
	 .type = HVD_OPT_ENUM, .at = HVD_AT(lost_host), .choices = "launch|slurm", .env = "HVD_LOST_HOST",
	 .def = "launch"},

	{FLAG("json", OUTPUT, "Print a line of JSON about the launch to standard error at the end", json),
	 .more = "With --dry-run, show what would be started as JSON"},
	{ROW("hvd-verbose", NONE, OUTPUT, NULL, "Print more messages, but none of srun"), .more = "Twice: even more",
	 .type = HVD_OPT_COUNT, .at = HVD_AT(verbose), .env = "HVD_VERBOSE"},

	{TEXT("discover", ELASTIC, "SOURCE",
	      "Take an elastic job's hosts from slurm, jobs:NAME, script:PROGRAM or hosts", discover),
	 .more = "slurm: the nodes of this job, which needs --no-kill. jobs:NAME: those of all your running jobs with "
		 "that name or comment. script:PROGRAM: those that the program prints. hosts: the fixed hosts of "
		 "--hosts, --hostfile or the job",
	 .shown = "script with --host-discovery-script, hosts if they are listed, slurm in a Slurm job"},
	{ROW("discovery-interval", REQUIRED, ELASTIC, "SECONDS",
	     "Run the discovery script, or ask Slurm for hosts, this often"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(discovery_interval), .env = "HVD_DISCOVERY_INTERVAL", .min = 0.1,
	 .max = 3600, .shown = "1, less often if that takes much of a core"},
	{ROW("max-restarts", REQUIRED, ELASTIC, "NUMBER",
	     "Restart all ranks after a failure, at most this many times (PyTorch)"),
	 .more = "They restart after a change of hosts as well, which does not count. Without --min-np and --max-np "
		 "the job keeps its size",
	 .type = HVD_OPT_INT, .at = HVD_AT(max_restarts), .env = "HVD_MAX_RESTARTS",
	 .shown = "Horovod's kind of elastic job"},
	{ROW("max-idle-restarts", REQUIRED, ELASTIC, "NUMBER",
	     "End the job when so many generations in a row have failed without progress"),
	 .more = "With --max-restarts. A generation has made progress if a file of --progress-file has changed, or "
		 "else "
		 "if it lasted for --restart-window. 0: any number. The exit status is 86",
	 .type = HVD_OPT_INT, .at = HVD_AT(max_idle_restarts), .env = "HVD_MAX_IDLE_RESTARTS", .def = "3"},
	{ROW("progress-file", REQUIRED, ELASTIC, "PATTERN",
	     "A new or changed file of this pattern, as a checkpoint, is progress"),
	 .type = HVD_OPT_STRING, .at = HVD_AT(progress_file), .env = "HVD_PROGRESS_FILE"},
	{ROW("restart-window", REQUIRED, ELASTIC, "SECONDS",
	     "Without --progress-file, a generation that lasted for so long has made progress"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(restart_window), .env = "HVD_RESTART_WINDOW", .min = 0, .max = 604800,
	 .def = "600"},

	{ROW("controller", REQUIRED, CONTROLLER, "auto|gloo|mpi|jsrun", "Choose the workers' controller"),
	 .more = "The same as --gloo, --mpi or --jsrun", .type = HVD_OPT_ENUM, .at = HVD_AT(controller),
	 .choices = "auto|gloo|mpi|jsrun", .env = "HVD_CONTROLLER", .def = "auto", .config = "controller",
	 .exclude = HVD_X_CONTROLLER},

	{ROW("help-man", NONE, INFO, NULL, "Show the options as text for hvdrun(1)"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_MAN, .hidden = true},
	{ROW("help-man-plugin", NONE, INFO, NULL, "Show the plugin's settings as text for spank-hvd(8)"),
	 .type = HVD_OPT_SET, .at = HVD_AT(action), .number = HVD_SHOW_PLUGIN_MAN, .hidden = true},
	{ROW("print-completion", NONE, INFO, NULL, "Show the options for shell completion"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_COMPLETION, .hidden = true},
};

struct hvd_opttable hvd_options_hvd(void)
{
	return (struct hvd_opttable){.rows = rows, .n = sizeof(rows) / sizeof(rows[0])};
}
