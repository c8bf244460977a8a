/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_horovod.c - the options of horovodrun, and the workers' variables that
 * its tunables set.
 */
#include "lib/base/size.h"
#include "lib/base/values.h"
#include "options_rows.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* "MIN MAX", "MIN,MAX" */
static int read_cooldown(void *result, const char *from, const char *value, struct hvd_err *err)
{
	struct hvd_options *res = result;
	long long lo, hi;
	char a[16], b[16], rest;

	if (!value || sscanf(value, "%15[0-9]%*[ ,]%15[0-9]%c", a, b, &rest) != 2 || !hvd_value_whole(a, &lo) ||
	    !hvd_value_whole(b, &hi)) {
		hvd_err_set(err, HVD_E_USAGE, "%s: \"%s\" is not two numbers of seconds", from, value ? value : "");
		return hvd_err_hint(err, "for example --blacklist-cooldown-range 60 300");
	}
	if (lo < 1 || hi > 3600 || lo > hi) {
		hvd_err_set(err, HVD_E_USAGE, "%s: %lld to %lld is not a range within 1 to 3600 seconds", from, lo, hi);
		return hvd_err_hint(err, "the shorter time comes first: --blacklist-cooldown-range 60 300");
	}
	res->cooldown_min = (int)lo;
	res->cooldown_max = (int)hi;
	return 0;
}

static int read_help(void *result, const char *from, const char *value, struct hvd_err *err)
{
	struct hvd_options *o = result;
	int topic = -1;

	if (value && hvd_value_choice(from, value, HVD_HELP_TOPICS, &topic, err) != 0)
		return -1;
	o->help_topic = (enum hvd_help_topic)(topic + 1);
	o->action = HVD_SHOW_HELP;
	return 0;
}

#define ROW(n, ar, g, hint, text)                                                                                      \
	.name = n, .family = HVD_FAMILY_HOROVOD, .arity = HVD_ARG_##ar, .group = HVD_G_##g, .arg = hint, .help = text
#define NUM(n, g, text, field, least)                                                                                  \
	ROW(n, REQUIRED, g, "NUMBER", text), .type = HVD_OPT_INT, .at = HVD_AT(field), .min = least
#define TEXT(n, g, hint, text, field) ROW(n, REQUIRED, g, hint, text), .type = HVD_OPT_STRING, .at = HVD_AT(field)
#define ON(n, g, text, field)         ROW(n, NONE, g, NULL, text), .type = HVD_OPT_TRI, .at = HVD_AT(field)
#define OFF(n, g, text, field)        ON(n, g, text, field), .negate = true
#define SETS(n, g, text, field, to)   ROW(n, NONE, g, NULL, text), .type = HVD_OPT_SET, .at = HVD_AT(field), .number = to
/* A tunable: the worker's variable, how the value is written, and the key in a configuration file. */
#define TELL(var, as, key) .tunable = var, .transform = as, .config = key, .whose = HVD_OF_ROLE
/* --NAME, a tunable, and --no-NAME, which turns it off. */
#define PAIR(n, g, field, var, as, key, other, on, off)                                                                \
	{ON(n, g, on, field), TELL(var, as, key), .needs = other},                                                     \
	{                                                                                                              \
		OFF("no-" n, g, off, field), .whose = HVD_OF_ROLE                                                      \
	}

static const struct hvd_opt rows[] = {
	{NUM("num-proc", RUN, "Start this many ranks", num_proc, 1), .max = HVD_MAX_RANKS, .whose = HVD_OF_ROLE,
	 .more = "The same number as srun's -n, which, however, has srun start the ranks: outside of a job, -np runs "
		 "them on "
		 "this machine or the listed hosts, and -n makes a Slurm job. An elastic job waits for this many "
		 "before it "
		 "starts",
	 .word = "np", .aka = "np|nproc|nprocs|n-procs|num-procs|processes|num-ranks|ranks|workers|num-workers",
	 .letter = 'n'},
	{TEXT("hosts", HOSTS, "HOST:SLOTS,...", "Run on these hosts, with these slots on each", hosts), .letter = 'H',
	 .more = "Slurm's ranges are taken, too: n[1-4]:8", .exclude = HVD_X_HOSTS,
	 .collide = "-H is srun's --hold; horovodrun's when called as horovodrun"},
	{TEXT("hostfile", HOSTS, "FILE", "Run on the hosts of this file", hostfile),
	 .more = "A line is \"HOST slots=SLOTS\"", .word = "hostfile", .exclude = HVD_X_HOSTS},
	{TEXT("host-discovery-script", HOSTS, "PROGRAM",
	      "Run this program every second for the hosts of an elastic job", discovery_script),
	 .more = "It prints a line for each, HOST or HOST:SLOTS. --discovery-interval changes the second",
	 .exclude = HVD_X_HOSTS},
	{NUM("slots-per-host", HOSTS, "Use this many slots on hosts that are listed without a number", slots_per_host,
	     1),
	 .env = "HVD_SLOTS_PER_HOST"},

/* Options that the plugin has as well. */
#define SETTING(field, id, whose, g, kind, variables, value, text, rest)
#define HOROVOD_SETTING(field, id, plugin, whose, g, kind, variables, value, text, rest)                               \
	{HVD_ROW(HOROVOD, field, id, whose, g, HVD_ROW_##kind, text), .more = rest, .env = variables, .def = value},
#include "lib/base/settings.def"
	{ROW("network-interface", REQUIRED, START, "NAME", "Use this network interface; may be repeated for more"),
	 .type = HVD_OPT_LIST, .at = HVD_AT(nics)},
	{ROW("disable-cache", NONE, START, NULL, "Do nothing: every launch checks its hosts again"),
	 .type = HVD_OPT_PASS, .no_effect = "every launch checks its hosts again"},

	{TEXT("output-filename", OUTPUT, "DIRECTORY", "Also write each rank's output to files in this directory",
	      output_filename),
	 .more = "The files are DIRECTORY/rank.RANK/stdout and stderr, in a launch with roles "
		 "DIRECTORY/ROLE/rank.RANK/stdout and stderr"},
	{ROW("prefix-output-with-timestamp", NONE, OUTPUT, NULL, "Put the time in front of each line of output"),
	 .word = "prefix-timestamp", .type = HVD_OPT_FLAG, .at = HVD_AT(prefix_timestamp)},
	{ROW("verbose", NONE, OUTPUT, NULL, "Print more messages"), .type = HVD_OPT_COUNT, .at = HVD_AT(verbose),
	 .collide = "passed on to srun, but not when called as horovodrun"},

	{NUM("min-np", ELASTIC, "Go on with as few ranks as this", min_np, 1),
	 .more = "With fewer, the job waits for hosts", .shown = "--num-proc"},
	{NUM("min-num-proc", ELASTIC, "The same as --min-np", min_np, 1)},
	{NUM("max-np", ELASTIC, "Start at most this many ranks", max_np, 1), .shown = "unbounded"},
	{NUM("max-num-proc", ELASTIC, "The same as --max-np", max_np, 1)},
	{ROW("elastic-timeout", REQUIRED, ELASTIC, "SECONDS",
	     "Wait this long for enough slots after hosts have changed"),
	 .type = HVD_OPT_SECONDS, .at = HVD_AT(elastic_timeout), .env = "HOROVOD_ELASTIC_TIMEOUT", .def = "600",
	 .min = 0.001},
	{NUM("reset-limit", ELASTIC, "Change the ranks at most this many times", reset_limit, 0),
	 .more = "After that a failure ends the job, and new hosts are not used", .shown = "unbounded"},
	{ROW("blacklist-cooldown-range", TWO, ELASTIC, "MIN MAX",
	     "Reuse a failed host after MIN seconds, and after up to MAX if it fails again"),
	 .type = HVD_OPT_INT, .at = HVD_AT(cooldown_min), .read = read_cooldown, .shown = "never again"},

	{SETS("gloo", CONTROLLER, "Use the Gloo controller, which is the default", controller, HVD_CONTROLLER_GLOO),
	 .exclude = HVD_X_CONTROLLER},
	{SETS("mpi", CONTROLLER, "Use the MPI controller, and start workers by mpirun", controller, HVD_CONTROLLER_MPI),
	 .exclude = HVD_X_CONTROLLER, .collide = "with a value, --mpi=TYPE, it is srun's"},
	{SETS("jsrun", CONTROLLER, "Use the MPI controller, and start workers by jsrun (LSF)", controller,
	      HVD_CONTROLLER_JSRUN),
	 .exclude = HVD_X_CONTROLLER},
	{TEXT("mpi-args", CONTROLLER, "ARGUMENTS", "Pass these arguments, quoted as one word, to mpirun", mpi_args),
	 .dash_value = true},
	{TEXT("binding-args", CONTROLLER, "ARGUMENTS", "Pass these arguments to mpirun or jsrun, to bind processes",
	      binding_args),
	 .dash_value = true},
	{ROW("tcp", NONE, CONTROLLER, NULL, "Use TCP only, without InfiniBand"), .type = HVD_OPT_FLAG,
	 .at = HVD_AT(tcp), .tunable = "NCCL_IB_DISABLE", .transform = HVD_AS_BOOL, .whose = HVD_OF_ROLE},

	{NUM("ssh-port", SSH, "Connect to this port of ssh on all hosts", ssh_port, 1), .max = 65535, .letter = 'p',
	 .collide = "-p is srun's --partition; horovodrun's when called as horovodrun"},
	{TEXT("ssh-identity-file", SSH, "FILE", "Use this private key for ssh", ssh_identity_file), .letter = 'i',
	 .collide = "-i is srun's --input; horovodrun's when called as horovodrun"},

	{NUM("fusion-threshold-mb", TUNE, "Fuse tensors up to this size in MiB; 0 does not fuse", fusion_threshold_mb,
	     0),
	 TELL("HOROVOD_FUSION_THRESHOLD", HVD_AS_MIB, "params.fusion_threshold_mb"), .shown = "Horovod's: 128"},
	{ROW("cycle-time-ms", REQUIRED, TUNE, "MILLISECONDS", "Wait this long between two rounds of fusing tensors"),
	 .type = HVD_OPT_FLOAT, .at = HVD_AT(cycle_time_ms),
	 TELL("HOROVOD_CYCLE_TIME", HVD_AS_IS, "params.cycle_time_ms"), .shown = "Horovod's: 1"},
	{NUM("cache-capacity", TUNE, "Cache up to this many tensor names", cache_capacity, 0),
	 TELL("HOROVOD_CACHE_CAPACITY", HVD_AS_IS, "params.cache_capacity"), .shown = "Horovod's: 1024"},
	PAIR("hierarchical-allreduce", TUNE, hierarchical_allreduce, "HOROVOD_HIERARCHICAL_ALLREDUCE", HVD_AS_BOOL,
	     "params.hierarchical_allreduce", NULL, "Reduce within a host first, then between hosts",
	     "Do not reduce hierarchically, even when tuning automatically"),
	PAIR("hierarchical-allgather", TUNE, hierarchical_allgather, "HOROVOD_HIERARCHICAL_ALLGATHER", HVD_AS_BOOL,
	     "params.hierarchical_allgather", NULL, "Gather within a host first, then between hosts",
	     "Do not gather hierarchically, even when tuning automatically"),
	PAIR("torus-allreduce", TUNE, torus_allreduce, "HOROVOD_TORUS_ALLREDUCE", HVD_AS_BOOL, "params.torus_allreduce",
	     NULL, "Reduce over a two-dimensional torus, with NCCL",
	     "Do not reduce over a torus, even when tuning automatically"),

	PAIR("autotune", AUTOTUNE, autotune, "HOROVOD_AUTOTUNE", HVD_AS_BOOL, "autotune.enabled", NULL,
	     "Find good values of the tunables while training", "Do not tune automatically"),
	{TEXT("autotune-log-file", AUTOTUNE, "FILE", "Write the trials and their scores to this file",
	      autotune_log_file),
	 TELL("HOROVOD_AUTOTUNE_LOG", HVD_AS_IS, "autotune.log_file"), .needs = "autotune"},
	{NUM("autotune-warmup-samples", AUTOTUNE, "Discard this many samples first", autotune_warmup_samples, 0),
	 TELL("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", HVD_AS_IS, "autotune.warmup_samples"), .needs = "autotune",
	 .shown = "Horovod's: 3"},
	{NUM("autotune-steps-per-sample", AUTOTUNE, "Take this many steps as a sample", autotune_steps_per_sample, 0),
	 TELL("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", HVD_AS_IS, "autotune.steps_per_sample"), .needs = "autotune",
	 .shown = "Horovod's: 10"},
	{NUM("autotune-bayes-opt-max-samples", AUTOTUNE, "Take at most this many samples for one Bayesian optimization",
	     autotune_bayes_opt_max_samples, 0),
	 TELL("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", HVD_AS_IS, "autotune.bayes_opt_max_samples"),
	 .needs = "autotune", .shown = "Horovod's: 20"},
	{ROW("autotune-gaussian-process-noise", REQUIRED, AUTOTUNE, "NUMBER",
	     "Regularize the noisy samples by this number from 0 to 1"),
	 .type = HVD_OPT_FLOAT, .at = HVD_AT(autotune_gaussian_process_noise), .max = 1,
	 TELL("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", HVD_AS_IS, "autotune.gaussian_process_noise"),
	 .needs = "autotune", .shown = "Horovod's: 0.8"},

	{TEXT("timeline-filename", TIMELINE, "FILE", "Write a timeline of Horovod's work to this JSON file",
	      timeline_filename),
	 TELL("HOROVOD_TIMELINE", HVD_AS_IS, "timeline.filename")},
	PAIR("timeline-mark-cycles", TIMELINE, timeline_mark_cycles, "HOROVOD_TIMELINE_MARK_CYCLES", HVD_AS_BOOL,
	     "timeline.mark_cycles", "timeline-filename", "Mark cycles in the timeline",
	     "Do not mark cycles in the timeline"),

	PAIR("stall-check", STALL, stall_check, "HOROVOD_STALL_CHECK_DISABLE", HVD_AS_COMPLEMENT, "stall_check.enabled",
	     NULL, "Warn when ranks wait long for others, which is Horovod's default", "Do not warn about stalls"),
	{NUM("stall-check-warning-time-seconds", STALL, "Warn after this time", stall_check_warning_time_seconds, 0),
	 TELL("HOROVOD_STALL_CHECK_TIME_SECONDS", HVD_AS_IS, "stall_check.warning_time_seconds"),
	 .shown = "Horovod's: 60"},
	{NUM("stall-check-shutdown-time-seconds", STALL, "End the job after this time; 0 never does",
	     stall_check_shutdown_time_seconds, 0),
	 TELL("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", HVD_AS_IS, "stall_check.shutdown_time_seconds"),
	 .shown = "Horovod's: 0"},

	PAIR("mpi-threads-disable", LIBRARY, mpi_threads_disable, "HOROVOD_MPI_THREADS_DISABLE", HVD_AS_BOOL,
	     "library_options.mpi_threads_disable", NULL, "Do not use MPI from several threads",
	     "Use MPI from several threads"),
	{NUM("num-nccl-streams", LIBRARY, "Use this many NCCL streams", num_nccl_streams, 0),
	 TELL("HOROVOD_NUM_NCCL_STREAMS", HVD_AS_IS, "library_options.num_nccl_streams")},
	{NUM("thread-affinity", LIBRARY, "Bind Horovod's background thread to this CPU", thread_affinity, 0),
	 TELL("HOROVOD_THREAD_AFFINITY", HVD_AS_IS, "library_options.thread_affinity"), .shown = "Horovod's: 0"},
	{NUM("gloo-timeout-seconds", LIBRARY, "Fail when a Gloo operation takes longer", gloo_timeout_seconds, 0),
	 TELL("HOROVOD_GLOO_TIMEOUT_SECONDS", HVD_AS_IS, "library_options.gloo_timeout_seconds"),
	 .shown = "Horovod's: 30"},

	{ROW("log-level", REQUIRED, LOGGING, "LEVEL", "Log Horovod's messages of this level and above in the workers"),
	 .type = HVD_OPT_ENUM, .at = HVD_AT(log_level), .choices = "TRACE|DEBUG|INFO|WARNING|ERROR|FATAL",
	 TELL("HOROVOD_LOG_LEVEL", HVD_AS_IS, "logging.level"), .shown = "Horovod's: WARNING"},
	{ON("log-with-timestamp", LOGGING, "Show the time in Horovod's log", log_with_timestamp),
	 TELL("HOROVOD_LOG_HIDE_TIME", HVD_AS_COMPLEMENT, "logging.with_timestamp")},
	{OFF("log-without-timestamp", LOGGING, "Do not show the time in Horovod's log", log_with_timestamp),
	 .whose = HVD_OF_ROLE},
	{OFF("log-hide-timestamp", LOGGING, "Old name of --log-without-timestamp", log_with_timestamp), .hidden = true,
	 .whose = HVD_OF_ROLE},
	{ON("no-log-hide-timestamp", LOGGING, "Old name of --log-with-timestamp", log_with_timestamp), .hidden = true,
	 .whose = HVD_OF_ROLE},

	{ROW("check-build", NONE, INFO, NULL,
	     "Show how this program and Horovod (in PATH's Python) were built, and exit"),
	 .word = "cb", .type = HVD_OPT_SET, .at = HVD_AT(action), .number = HVD_CHECK_BUILD},
	/* -h is an option of srun, without a value. */
	{ROW("help", OPTIONAL, INFO, HVD_HELP_TOPICS, "Show all options, or those of srun or horovodrun, and exit"),
	 .type = HVD_OPT_SET, .at = HVD_AT(action), .read = read_help},
	{ROW("version", NONE, INFO, NULL, "Show the version of this program and exit"), .letter = 'v',
	 .type = HVD_OPT_SET, .at = HVD_AT(action), .number = HVD_SHOW_VERSION,
	 .collide = "-v is srun's --verbose; horovodrun's when called as horovodrun"},
};

const struct hvd_opttable hvd_options_horovod = {.rows = rows, .n = sizeof(rows) / sizeof(rows[0])};
