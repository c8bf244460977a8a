/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_hvd.c - hvdrun's own options, and the spellings of the Slurm plugin,
 * so that `srun --hvd …` and `hvdrun …` take the same words.
 */
#include "lib/base/values.h"
#include "options_rows.h"

#define LAUNCHERS "auto|srun|fork|jsrun|blaunch|lsrun|ssh|mpirun|join"

static int read_frameworks(void *result, const char *from, const char *value, struct hvd_err *err)
{
	return hvd_frameworks_parse(from, value ? value : "", &((struct hvd_options *)result)->frameworks, err);
}

static int read_limit_signal(void *result, const char *from, const char *value, struct hvd_err *err)
{
	struct hvd_options *o = result;

	return hvd_value_signal_before(from, value ? value : "", &o->limit_signal, &o->limit_seconds, err);
}

static int read_requeue_on(void *result, const char *from, const char *value, struct hvd_err *err)
{
	return hvd_value_set(from, value ? value : "", HVD_VALUES_REQUEUE_ON,
			     &((struct hvd_options *)result)->requeue_on, err);
}

#define ROW(n, ar, g, hint, text)                                                                                      \
	.name = n, .family = HVD_FAMILY_HVD, .arity = HVD_ARG_##ar, .group = HVD_G_##g, .arg = hint, .help = text
#define FLAG(n, g, text, field)       ROW(n, NONE, g, NULL, text), .type = HVD_OPT_FLAG, .at = HVD_AT(field)
#define TEXT(n, g, hint, text, field) ROW(n, REQUIRED, g, hint, text), .type = HVD_OPT_STRING, .at = HVD_AT(field)

/* A set of frameworks: stored as bits, in an unsigned, by read_frameworks(). */
#define FRAMEWORKS .type = HVD_OPT_INT, .at = HVD_AT(frameworks), .read = read_frameworks

/* A signal and a time, stored by read_limit_signal(); the set of read_requeue_on(). */
#define LIMIT_SIGNAL .type = HVD_OPT_INT, .at = HVD_AT(limit_signal), .read = read_limit_signal
#define REQUEUE_ON   .type = HVD_OPT_INT, .at = HVD_AT(requeue_on), .read = read_requeue_on

#define AGENT_OF_HOST "the rendezvous runs with the driver, and ranks meet at an agent on their host"

static const struct hvd_opt rows[] = {
	{ROW("launcher", REQUIRED, RUN, "NAME",
	     "What starts processes on hosts: auto takes the scheduler of the job that this runs in; outside of a job "
	     "srun where any option of srun's is given (-n, -l, but not -np) and srun is in PATH, else ssh where "
	     "--hosts lists other machines, else fork, on this machine; join waits for agents that something else "
	     "starts; see hvdrun(1), LAUNCHERS"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(launcher), .choices = LAUNCHERS, .env = "HVD_LAUNCHER", .def = "auto"},
	{FLAG("keep-going", RUN, "A rank that fails does not end the others; the same as srun's -K0", keep_going),
	 .env = "HVD_KEEP_GOING"},
	{FLAG("dry-run", RUN, "Show what would be started, and start nothing", dry_run)},
	{FLAG("selftest", RUN, "Instead of a command, run a worker that tests that all ranks reach each other",
	      selftest)},
	{TEXT("erf", RUN, "FILE",
	      "With jsrun, write its explicit resource file here, and leave it; with --dry-run for use by hand", erf)},
	{TEXT("run-func", RUN, "FILE",
	      "For programs such as the Python module hvdrun: offer all ranks the function in this file (or "
	      "descriptor), and collect what they return; see hvdrun(1), FUNCTIONS",
	      run_func)},
	{TEXT("results", RUN, "FILE",
	      "With --run-func, where the ranks' results go: a file, a pipe, or the number of a descriptor", results)},

	{ROW("nics", REQUIRED, START, "LIST", "The same as --network-interfaces"), .type = HVD_OPT_LIST,
	 .at = HVD_AT(nics)},
	{ROW("hvd-nics", REQUIRED, START, "LIST", "The plugin's spelling of --network-interfaces"),
	 .type = HVD_OPT_LIST, .at = HVD_AT(nics)},
	{ROW("hvd-start-timeout", REQUIRED, START, "SECONDS", "The plugin's spelling of --start-timeout"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(start_timeout), .min = HVD_VALUES_LEAST_TIMEOUT},
	{ROW("rendezvous", REQUIRED, START, "WHERE", "Without effect"), .type = HVD_OPT_PASS, .hidden = true,
	 .env = "HVD_RENDEZVOUS", .no_effect = AGENT_OF_HOST},
	{ROW("hvd-rendezvous", REQUIRED, START, "WHERE", "The plugin's spelling of --rendezvous"), .type = HVD_OPT_PASS,
	 .hidden = true, .no_effect = AGENT_OF_HOST},
	{ROW("store", REQUIRED, START, "WHO",
	     "Who serves the store at which ranks of PyTorch meet (MASTER_ADDR, MASTER_PORT): agent is this launch, "
	     "before any rank starts; rank0 is rank 0's process, on a port that is kept for it; off is not set"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(store), .choices = HVD_STORE_WORDS, .env = "HVD_STORE", .def = "agent"},
	{ROW("hvd-store", REQUIRED, START, "WHO", "The plugin's spelling of --store"), .type = HVD_OPT_ENUM,
	 .at = HVD_AT(store), .choices = HVD_STORE_WORDS},
	{ROW("store-relay", REQUIRED, START, "WHEN", "Without effect"), .type = HVD_OPT_PASS, .hidden = true,
	 .env = "HVD_STORE_RELAY", .no_effect = AGENT_OF_HOST},
	{ROW("hvd-store-relay", REQUIRED, START, "WHEN", "The plugin's spelling of --store-relay"),
	 .type = HVD_OPT_PASS, .hidden = true, .no_effect = AGENT_OF_HOST},
	{ROW("frameworks", REQUIRED, START, "LIST|auto|none",
	     "Whose variables ranks get: auto is all but tensorflow, none is only the network interfaces, else names "
	     "with commas between them (called as horovodrun: horovod if not said): horovod, torch, torchrun, jax, "
	     "deepspeed, accelerate, lightning, tensorflow"),
	 FRAMEWORKS, .env = "HVD_FRAMEWORKS", .def = "auto"},
	{ROW("hvd-frameworks", REQUIRED, START, "LIST|auto|none", "The plugin's spelling of --frameworks"), FRAMEWORKS},
	{ROW("init-timeout", REQUIRED, START, "SECONDS",
	     "End the launch when, so long after the first rank has called init_process_group(), not all ranks of "
	     "PyTorch have, and name those that have not; 0 never does"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(init_timeout), .env = "HVD_INIT_TIMEOUT", .def = "0"},
	{ROW("hvd-init-timeout", REQUIRED, START, "SECONDS", "The plugin's spelling of --init-timeout"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(init_timeout)},
	{TEXT("hvd-config", START, "FILE", "The plugin's spelling of --config-file", config_file)},
	{ROW("hvd", NONE, START, NULL, "Without effect: it is for srun with the plugin"), .type = HVD_OPT_TRI,
	 .at = HVD_AT(hvd)},
	{ROW("no-hvd", NONE, START, NULL, "Without effect: it is for srun with the plugin"), .type = HVD_OPT_TRI,
	 .at = HVD_AT(hvd), .negate = true},

	{TEXT("key-file", START, "FILE",
	      "Identify ranks by the secret in this file, which all hosts can read, instead of by munge; see "
	      "hvd.conf(5)",
	      key_file),
	 .env = "HVD_KEY_FILE"},
	{TEXT("join-file", START, "FILE",
	      "With --launcher=join, write the address that agents join at into this file, which is removed at the end",
	      join_file),
	 .env = "HVD_JOIN_FILE"},
	{TEXT("hvd-key-file", START, "FILE", "The plugin's spelling of --key-file", key_file)},

	{ROW("preflight", REQUIRED, START, "HOW",
	     "Look at all hosts before ranks start: quick is clocks, free space, limits, GPUs and the site's program; "
	     "full also measures the network between neighbours. A bad host fails the start, or is left out "
	     "(--spares)"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(preflight), .choices = HVD_VALUES_PREFLIGHT, .env = "HVD_PREFLIGHT",
	 .def = "off"},
	{ROW("hvd-preflight", REQUIRED, START, "HOW", "The plugin's spelling of --preflight"), .type = HVD_OPT_ENUM,
	 .at = HVD_AT(preflight), .choices = HVD_VALUES_PREFLIGHT},
	{TEXT("preflight-hook", START, "PROGRAM",
	      "What --preflight runs on each host, as the user: a status that is not 0 makes the host a bad one, and "
	      "the last line of its output is the reason",
	      preflight_hook),
	 .env = "HVD_PREFLIGHT_HOOK"},
	{ROW("spares", REQUIRED, START, "NUMBER",
	     "The job has so many hosts more than it needs: start on the best ones, and say which were left out and "
	     "why"),
	 .type = HVD_OPT_INT, .at = HVD_AT(spares), .env = "HVD_SPARES", .def = "0", .max = HVD_VALUES_MOST_SPARES},
	{ROW("hvd-spares", REQUIRED, START, "NUMBER", "The plugin's spelling of --spares"), .type = HVD_OPT_INT,
	 .at = HVD_AT(spares), .max = HVD_VALUES_MOST_SPARES},

	{ROW("stacks", REQUIRED, FAILURE, "JOB",
	     "Start nothing: show where the ranks of a running job are, by their stacks, and what they wait for; JOB "
	     "is a job of the scheduler (123), a step (123.0), or the process of an hvdrun or srun on this host "
	     "(pid:4711)"),
	 .type = HVD_OPT_STRING, .at = HVD_AT(stacks)},
	{ROW("hang-timeout", REQUIRED, FAILURE, "SECONDS",
	     "When no rank has made any progress for so long (no output, no processor time, no reads or writes, "
	     "nothing new in the store), report where they are; 0 never looks"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(hang_timeout), .env = "HVD_HANG_TIMEOUT", .def = "0"},
	{ROW("hvd-hang-timeout", REQUIRED, FAILURE, "SECONDS", "The plugin's spelling of --hang-timeout"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(hang_timeout)},
	{ROW("hang-action", REQUIRED, FAILURE, "ACTION",
	     "With --hang-timeout, what to do after the report: nothing (report), end the job (kill), or have the "
	     "batch job begin again (requeue)"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(hang_action), .choices = HVD_VALUES_HANG_ACTION, .env = "HVD_HANG_ACTION",
	 .def = "report", .needs = "hang-timeout"},
	{ROW("hvd-hang-action", REQUIRED, FAILURE, "ACTION", "The plugin's spelling of --hang-action"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(hang_action), .choices = HVD_VALUES_HANG_ACTION},
	{ROW("lost-host", REQUIRED, FAILURE, "WHO",
	     "Who ends a step of srun --hvd when a host does not answer any longer: launch (as scancel does, with a "
	     "message), or slurm, whose srun may wait for ever; hvdrun always ends the job itself"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(lost_host), .choices = "launch|slurm", .env = "HVD_LOST_HOST",
	 .def = "launch"},
	{ROW("signal-ranks", REQUIRED, FAILURE, "SIGNAL@SECONDS",
	     "Send all ranks this signal so long before the job's time limit, as in USR1@300"),
	 LIMIT_SIGNAL, .env = "HVD_SIGNAL_RANKS"},
	{ROW("hvd-signal-ranks", REQUIRED, FAILURE, "SIGNAL@SECONDS", "The plugin's spelling of --signal-ranks"),
	 LIMIT_SIGNAL},
	{ROW("requeue-on", REQUIRED, FAILURE, "LIST",
	     "When to have the batch job begin again, once: limit (ranks ended after the signal of --signal-ranks), "
	     "node (a host has failed), preempt, ask (a rank asks for it), hang, none; see hvd-requeue(7)"),
	 REQUEUE_ON, .env = "HVD_REQUEUE_ON", .def = "none"},
	{ROW("hvd-requeue-on", REQUIRED, FAILURE, "LIST", "The plugin's spelling of --requeue-on"), REQUEUE_ON},
	{ROW("stderr-lines", REQUIRED, FAILURE, "NUMBER",
	     "Keep the last lines of each rank's standard error for the report of a failure; 0 does not look at it"),
	 .type = HVD_OPT_INT, .at = HVD_AT(stderr_lines), .env = "HVD_STDERR_LINES", .def = "20",
	 .max = HVD_VALUES_MOST_LINES},
	{ROW("hvd-stderr-lines", REQUIRED, FAILURE, "NUMBER", "The plugin's spelling of --stderr-lines"),
	 .type = HVD_OPT_INT, .at = HVD_AT(stderr_lines), .max = HVD_VALUES_MOST_LINES},

	{TEXT("trace", OUTPUT, "FILE", "Write a trace of the start to this file, for Chrome's or Perfetto's viewer",
	      trace),
	 .env = "HVD_TRACE"},
	{TEXT("hvd-trace", OUTPUT, "FILE", "The plugin's spelling of --trace", trace)},
	{FLAG("json", OUTPUT,
	      "With --dry-run, show what would run as JSON; otherwise end with a line of JSON about the launch on "
	      "standard error",
	      json)},
	{ROW("hvd-verbose", NONE, OUTPUT, NULL, "Say more, without making srun say more; twice for every step"),
	 .type = HVD_OPT_COUNT, .at = HVD_AT(verbose), .env = "HVD_VERBOSE"},

	{TEXT("discover", ELASTIC, "SOURCE",
	      "Where hosts come from as they come and go: slurm is the nodes of this job (which needs --no-kill), "
	      "jobs:NAME those of all your running jobs of that name or comment, script:PROGRAM what it prints, hosts "
	      "those of --hosts, --hostfile or the job, which stay",
	      discover),
	 .shown = "script with --host-discovery-script, hosts where they are listed, slurm in a Slurm job"},

	{ROW("discovery-interval", REQUIRED, ELASTIC, "SECONDS",
	     "Time from one look for hosts to the next, 0.1 at least: run the discovery script, or ask Slurm"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(discovery_interval), .env = "HVD_DISCOVERY_INTERVAL", .min = 0.1,
	 .max = 3600, .shown = "1, more seldom where a look takes much of a core"},

	{ROW("max-restarts", REQUIRED, ELASTIC, "NUMBER",
	     "For PyTorch, whose ranks cannot take in others: start all ranks anew after a failure, so many times at "
	     "most, and after a change of hosts. Without --min-np and --max-np the job keeps its size"),
	 .type = HVD_OPT_INT, .at = HVD_AT(max_restarts), .env = "HVD_MAX_RESTARTS",
	 .shown = "Horovod's kind of elastic job"},

	{ROW("controller", REQUIRED, CONTROLLER, "NAME", "The same as --gloo, --mpi or --jsrun"), .type = HVD_OPT_ENUM,
	 .at = HVD_AT(controller), .choices = "auto|gloo|mpi|jsrun", .env = "HVD_CONTROLLER", .def = "auto",
	 .config = "controller", .exclude = HVD_X_CONTROLLER},

	{ROW("help-man", NONE, INFO, NULL, "Show the options as text for a manual page"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_MAN, .hidden = true},
	{ROW("print-completion", NONE, INFO, NULL, "Show the options for shell completion"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_COMPLETION, .hidden = true},
};

struct hvd_opttable hvd_options_hvd(void)
{
	return (struct hvd_opttable){.rows = rows, .n = sizeof(rows) / sizeof(rows[0])};
}
