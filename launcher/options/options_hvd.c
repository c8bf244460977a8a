/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_hvd.c - hvdrun's own options, and the plugin's spellings of the settings that both have, so that
 * `srun --hvd …` and `hvdrun …` take the same words.
 */
#include "lib/base/size.h"
#include "options_rows.h"

#define OR_LAUNCHER(name) "|" #name
#define LAUNCHERS         "auto" HVD_LAUNCHERS(OR_LAUNCHER)

int hvd_options_read_frameworks(void *result, const char *from, const char *value, struct hvd_err *err)
{
	return hvd_frameworks_parse(from, value ? value : "", &((struct hvd_options *)result)->frameworks, err);
}

#define ROW(n, ar, g, hint, text)                                                                                      \
	.name = n, .family = HVD_FAMILY_HVD, .arity = HVD_ARG_##ar, .group = HVD_G_##g, .arg = hint, .help = text
#define TEXT(n, g, hint, text, field) ROW(n, REQUIRED, g, hint, text), .type = HVD_OPT_STRING, .at = HVD_AT(field)
#define ROLE(n, ar, hint, text)       ROW(n, ar, ROLES, hint, text), .whose = HVD_OF_ROLES_ONLY

static const struct hvd_opt rows[] = {
	{ROW("launcher", REQUIRED, RUN, "NAME", "Start processes through srun, ssh, mpirun or another launcher"),
	 .more = "auto selects the scheduler of the job that hvdrun runs in. Outside of a job it selects srun if an "
		 "option of srun is given (-n, -l, but not -np) and srun is in PATH, else ssh if --hosts lists other "
		 "machines, else fork, on this machine. join waits for agents that something else starts. See "
		 "LAUNCHERS in hvdrun(1)",
	 .type = HVD_OPT_ENUM, .at = HVD_AT(launcher), .choices = LAUNCHERS, .env = "HVD_LAUNCHER", .def = "auto"},

#define LAUNCHER_SETTING(field, id, whose, g, kind, variables, value, other, text, rest)                               \
	{HVD_ROW(HVD, field, id, whose, g, HVD_ROW_##kind, text), .more = rest, .env = variables, .def = value,        \
	 .shown = other},
#include "launcher_settings.def"
#define SETTING(field, id, whose, g, kind, variables, value, text, rest)                                               \
	{HVD_ROW(HVD, field, id, whose, g, HVD_ROW_##kind, text), .more = rest, .env = variables, .def = value},
#define HOROVOD_SETTING(field, id, plugin, whose, g, kind, variables, value, text, rest)
#include "lib/base/settings.def"

/* The plugin's spellings. */
#define SETTING(field, id, whose, g, kind, variables, value, text, rest)                                               \
	{HVD_ROW(HVD, field, "hvd-" id, whose, g, HVD_ROW_##kind, "The plugin's spelling of --" id), .alias = true},
#define HOROVOD_SETTING(field, id, plugin, whose, g, kind, variables, value, text, rest)                               \
	{HVD_ROW(HVD, field, "hvd-" plugin, whose, g, HVD_ROW_##kind, "The plugin's spelling of --" id), .alias = true},
#include "lib/base/settings.def"
	{ROW("hvd", NONE, START, NULL, "Do nothing: it is for srun with the plugin"), .type = HVD_OPT_TRI,
	 .at = HVD_AT(hvd), .alias = true},
	{ROW("no-hvd", NONE, START, NULL, "Do nothing: it is for srun with the plugin"), .type = HVD_OPT_TRI,
	 .at = HVD_AT(hvd), .negate = true, .alias = true},

	{ROW("nics", REQUIRED, START, "LIST", "Use only these network interfaces; the same as --network-interfaces"),
	 .type = HVD_OPT_LIST, .at = HVD_AT(nics)},
	{TEXT("stacks", FAILURE, "JOB", "Show where the ranks of a running job are", stacks),
	 .more = "It shows their stacks. JOB is a job of the scheduler (123), a step (123.0), or the process of an "
		 "hvdrun or srun on this host (pid:4711). Nothing is started"},
	{ROW("samples", REQUIRED, FAILURE, "NUMBER", "Take the stacks so many times, and name the ranks that differ"),
	 .more = "It names the ranks whose stacks differ from the others' in most samples, which are taken some "
		 "seconds apart",
	 .type = HVD_OPT_INT, .at = HVD_AT(samples), .min = 1, .max = 20, .def = "1", .needs = "stacks"},
	{TEXT("status", FAILURE, "JOB", "Show what a running job does, and what its ranks use", status),
	 .more = "It shows the state of the job's launches, and of each rank its processor time, memory, reads, writes "
		 "and GPU; slow ranks come first. JOB is as for --stacks. With --json it prints JSON. Nothing is "
		 "started"},
	{TEXT("rank", FAILURE, "[ROLE:]NUMBER", "Show this rank alone with --status or --stacks", rank),
	 .more = "With --status the last lines of its output follow, as far as it passes through the launch. In a "
		 "launch with roles a number alone is that of a rank of the first role"},
	{TEXT("watch", FAILURE, "JOB", "Show the same on a full screen, again and again", watch),
	 .more = "? shows the keys; l shows the last lines of a rank, s stacks, q leaves. Where stdout is no terminal, "
		 "it prints the text of --status each time, with --json a line of JSON. It ends with the launch"},
	{ROW("interval", REQUIRED, FAILURE, "SECONDS", "Ask so often with --watch"), .type = HVD_OPT_INT,
	 .at = HVD_AT(interval), .min = 1, .max = 3600, .def = "5", .needs = "watch"},
	{TEXT("report-of", OUTPUT, "FILE", "Print the page of --report for the launches in a file of --events",
	      report_of),
	 .more = "With --report=FILE write it to that file. Nothing is started. It works while the launch still runs, "
		 "and after it was killed"},
	{ROW("plugin-path", NONE, INFO, NULL,
	     "Show the path of the plugin of this installation for plugstack.conf, and exit"),
	 .type = HVD_OPT_SET, .at = HVD_AT(action), .number = HVD_SHOW_PLUGIN},
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
	{ROW("controller", REQUIRED, CONTROLLER, "auto|gloo|mpi|jsrun", "Choose the workers' controller"),
	 .more = "The same as --gloo, --mpi or --jsrun", .type = HVD_OPT_ENUM, .at = HVD_AT(controller),
	 .choices = "auto|gloo|mpi|jsrun", .env = "HVD_CONTROLLER", .def = "auto", .config = "controller",
	 .exclude = HVD_X_CONTROLLER},

	/* Roles. */
	{ROW("roles", REQUIRED, ROLES, "FILE", "Start the roles of this YAML file"), .more = "See hvd-roles(7)",
	 .type = HVD_OPT_STRING, .at = HVD_AT(roles_file)},
	{ROLE("ray", OPTIONAL, "OPTIONS", "Start Ray on all hosts, run the command on the first, and end Ray with it"),
	 .more = "The command has RAY_ADDRESS. OPTIONS, quoted as one word, are for `ray start` on each host. See RAY "
		 "in hvdrun(1)",
	 .type = HVD_OPT_STRING, .at = HVD_AT(ray)},
	{ROLE("role", REQUIRED, "NAME", "Begin the options of this role, which its command ends"),
	 .type = HVD_OPT_STRING, .at = HVD_AT(role)},
	{ROLE("with", REQUIRED, "ROLE", "Run on the hosts of this role, beside its ranks"), .type = HVD_OPT_STRING,
	 .at = HVD_AT(with)},
	{ROLE("after", REQUIRED, "ROLE,...", "Start the role when all ranks of these are ready"), .type = HVD_OPT_LIST,
	 .at = HVD_AT(after)},
	{ROLE("replicas", REQUIRED, "NUMBER", "Run the role so many times, each with ranks and hosts of its own"),
	 .type = HVD_OPT_INT, .at = HVD_AT(replicas), .min = 1, .max = HVD_MAX_RANK_WORLDS, .def = "1"},
	{ROLE("service", NONE, NULL, "End the role when all roles that are no services have ended"),
	 .type = HVD_OPT_FLAG, .at = HVD_AT(service)},
	{ROLE("ready", REQUIRED, "WHEN",
	      "Say when roles with --after may start: tcp:PORT, http:PORT/PATH, file:PATH or notify"),
	 .more = "tcp: the port takes connections; http: GET of the path succeeds; file: the file was made or changed "
		 "since the start of the ranks; each on every host of the role. notify: each rank has sent READY=1 to "
		 "its NOTIFY_SOCKET, as sd_notify(3) and systemd-notify(1) do",
	 .type = HVD_OPT_STRING, .at = HVD_AT(ready), .shown = "when the ranks have started"},
	{ROLE("ready-timeout", REQUIRED, "SECONDS", "The role has failed if it is not ready by then"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(ready_timeout), .min = 1, .max = 604800, .def = "600", .needs = "ready"},
	{ROLE("on-failure", REQUIRED, "end|restart|ignore", "Choose what follows the failure of the role"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(on_failure), .choices = "end|restart|ignore"},
	{ROLE("ports", REQUIRED, "NUMBER|PORT,...",
	      "Reserve so many ports for each rank, or name those at which the role listens, and tell all roles"),
	 .type = HVD_OPT_LIST, .at = HVD_AT(ports)},

	{ROW("help-man", NONE, INFO, NULL, "Show the options as text for hvdrun(1)"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_MAN, .hidden = true},
	{ROW("help-man-plugin", NONE, INFO, NULL, "Show the plugin's settings as text for spank-hvd(8)"),
	 .type = HVD_OPT_SET, .at = HVD_AT(action), .number = HVD_SHOW_PLUGIN_MAN, .hidden = true},
	{ROW("print-completion", NONE, INFO, NULL, "Show the options for shell completion"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_COMPLETION, .hidden = true},
};

const struct hvd_opttable hvd_options_hvd = {.rows = rows, .n = sizeof(rows) / sizeof(rows[0])};
