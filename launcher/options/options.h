/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the options of hvdrun, from all sources.
 *
 * hvdrun [options] command [args…]. Options are srun's, horovodrun's and
 * hvdrun's own, in any order. Option parsing stops at the first argument that is
 * not an option, or at "--". A value is taken from the command line, else from
 * the file that --config-file names, else from the environment, else from the
 * site's file, else from the option's table.
 *
 * Letters and names that srun and horovodrun both have are read as horovodrun
 * reads them when hvdrun is called as "horovodrun", and as srun does otherwise.
 *
 * Only this folder and the two main programs read struct hvd_options: all else
 * reads the launch spec (launch_spec.h), which is made from it.
 */
#ifndef HVD_OPTIONS_H
#define HVD_OPTIONS_H

#include "launch_spec.h"
#include "launchers.h"
#include "lib/base/strv.h"
#include "optable.h"

enum hvd_action {
	HVD_RUN = 0,
	HVD_SHOW_HELP,       /* --help */
	HVD_SHOW_USAGE,      /* --usage */
	HVD_SHOW_VERSION,    /* --version */
	HVD_CHECK_BUILD,     /* --check-build */
	HVD_SHOW_MAN,        /* --help-man: rows for hvdrun(1) */
	HVD_SHOW_PLUGIN_MAN, /* --help-man-plugin: rows for spank-hvd(8) */
	HVD_SHOW_COMPLETION, /* --print-completion */
	HVD_SHOW_STACKS,     /* --stacks: where the ranks of a job are */
	HVD_SHOW_STATUS,     /* --status: what a job does */
	HVD_SHOW_WATCH,      /* --watch: the same, again and again */
	HVD_MAKE_REPORT,     /* --report-of: the page of a file of events */
	HVD_SHOW_PLUGIN,     /* --plugin-path: where hvd.so is */
	HVD_ASK_SRUN,        /* no command, but --mpi=list, --cpu-bind=help…: run srun with srun_args */
};

/* --help=TOPIC, in the order of its values. */
#define HVD_HELP_TOPICS "all|srun|horovod|tunables"

enum hvd_help_topic {
	HVD_HELP_COMMON, /* --help */
	HVD_HELP_ALL,
	HVD_HELP_SRUN,
	HVD_HELP_HOROVOD,
	HVD_HELP_TUNABLES,
};

/* --launcher, in the order of its values; backends that no rule between options names need no number here */
enum hvd_launcher {
	HVD_LAUNCHER_auto = 0,
#define HVD_LAUNCHER(name) HVD_LAUNCHER_##name,
	HVD_LAUNCHERS(HVD_LAUNCHER)
#undef HVD_LAUNCHER
};

enum hvd_controller {
	HVD_CONTROLLER_AUTO = 0, /* not given: gloo */
	HVD_CONTROLLER_GLOO,
	HVD_CONTROLLER_MPI,
	HVD_CONTROLLER_JSRUN,
};

/* Where a value comes from. A later source wins over an earlier one. */
enum hvd_opt_source {
	HVD_FROM_DEFAULT = 0,
	HVD_FROM_SITE, /* the site's hvd.conf */
	HVD_FROM_ENV,
	HVD_FROM_CONFIG,  /* the file that --config-file names */
	HVD_FROM_COMMAND, /* the command line */
};

/*
 * Numbers are -1, strings NULL and lists empty when nothing gave them a value.
 * hvd_options_free() frees all of it.
 */
struct hvd_options {
	/* The words of the command line that are passed on. */
	struct hvd_strv srun_args; /* for srun, as they were written and in that order */
	struct hvd_strv unknown;   /* those of srun_args that no table has: an error if srun does not start the ranks */
	struct hvd_strv own_words; /* the command line as it was written, up to the command */
	bool counts_ranks;         /* the command line says how many ranks there are */
	struct hvd_strv command;
	struct hvd_multi_prog
		*programs;        /* --multi-prog: what the file says, after the check of the options; else NULL */
	struct hvd_strv notes;    /* messages for --verbose */
	struct hvd_strv warnings; /* messages that are always shown */
	bool dashdash;            /* "--" ended the options */
	size_t het_colon;         /* index in `command` of a ":", where srun would begin the next component; 0 = none */
	bool as_horovodrun;
	enum hvd_help_topic help_topic;
	int action; /* enum hvd_action; when it is not HVD_RUN there may be no command */

	/* Options of srun's; their words are in srun_args as well. */
	int nodes_min, nodes_max; /* -N; max 0 = no upper bound */
	int ntasks;               /* -n */
	int ntasks_per_node, ntasks_per_gpu, ntasks_per_socket, ntasks_per_core, cpus_per_task;
	char *gpus, *gpus_per_node, *gpus_per_socket, *gpus_per_task, *tres_per_task, *gres; /* "4", "a100:4" */
	char *nodelist, *nodefile, *exclude, *relative;
	char *jobid, *het_group, *partition, *time, *account, *reservation, *clusters;
	char *distribution, *export_env, *chdir, *mpi_type, *bcast, *cpu_bind, *gpu_bind, *mem, *immediate;
	char *input, *output, *error, *container;
	bool overlap, exact, exclusive, label, multi_prog, pty, unbuffered, test_only, no_allocate, overcommit;
	bool quit_on_interrupt, disable_status;
	bool preserve_env, hold, async;
	int kill_on_bad_exit; /* -K: 1; -K0: 0 */
	int wait;             /* -W seconds */
	int quiet;            /* -Q, counted */

	/* Options of horovodrun's. */
	int num_proc; /* -np: see hvd_options_np() */
	int min_np, max_np, slots_per_host, reset_limit;
	double elastic_timeout;
	int cooldown_min, cooldown_max; /* --blacklist-cooldown-range */
	char *hosts, *hostfile, *discovery_script;
	char *discover;            /* "slurm", "hosts", "jobs:NAME" or "script:PROGRAM" */
	double discovery_interval; /* seconds; -1 = not given */
	char *output_filename, *mpi_args, *binding_args, *ssh_identity_file;
	int ssh_port;
	int controller; /* enum hvd_controller */
	bool tcp, prefix_timestamp;
	/* Tunables of horovodrun's: hvd_options_tunables() makes variables of them. */
	int fusion_threshold_mb, cache_capacity;
	double cycle_time_ms;
	int hierarchical_allreduce, hierarchical_allgather, torus_allreduce, autotune, timeline_mark_cycles,
		stall_check, mpi_threads_disable, log_with_timestamp;
	char *autotune_log_file, *timeline_filename;
	int autotune_warmup_samples, autotune_steps_per_sample, autotune_bayes_opt_max_samples;
	double autotune_gaussian_process_noise;
	int stall_check_warning_time_seconds, stall_check_shutdown_time_seconds;
	int num_nccl_streams, thread_affinity, gloo_timeout_seconds;
	int log_level; /* index in TRACE|DEBUG|INFO|WARNING|ERROR|FATAL, or -1 */

	/* hvdrun's own options. */
	int launcher;     /* enum hvd_launcher */
	char *stacks;     /* --stacks: a job, a step or a process; NULL = not given */
	char *status;     /* --status: the same */
	char *watch;      /* --watch: the same */
	int interval;     /* of --watch, in seconds */
	int samples;      /* of --stacks */
	const char *rank; /* of --status and --stacks; NULL = all */
	char *report_of;  /* --report-of: a file of events; NULL = not given */
	int verbose;      /* how often -v, --verbose or --hvd-verbose */
	int hvd;          /* --hvd 1, --no-hvd 0: only the plugin uses it */

	/* By the names of launcher_settings.def, and of lib/base/settings.def: what hvdrun and the plugin share. */
#define LAUNCHER_SETTING(field, name, whose, group, kind, env, def, shown, help, more) HVD_TYPE_##kind field;
#include "launcher_settings.def"
#define SETTING(field, name, whose, group, kind, env, def, help, more)                 HVD_TYPE_##kind field;
#define HOROVOD_SETTING(field, name, plugin, whose, group, kind, env, def, help, more) HVD_TYPE_##kind field;
#include "lib/base/settings.def"

	/* The options of a launch of several roles (role_specs.h). */
	bool of_role;      /* these are the options of one of its roles, with those of the launch */
	char *roles_file;  /* --roles */
	char *ray;         /* --ray: what else `ray start` gets */
	char *role, *with; /* names of roles */
	struct hvd_strv after, ports;
	int replicas;
	bool service;
	char *ready;          /* hvd_ready_spec_parse() reads it */
	double ready_timeout; /* seconds */
	int on_failure;       /* enum hvd_on_failure, or -1 */

	unsigned char *source; /* by row: enum hvd_opt_source */
};

/* The texts of --help (`width` of the terminal in columns) and --usage; .SS titles and .TP items for a man(7) page
 * (--help-man), and .It items for the mdoc(7) page of the plugin; and for completion a line for each spelling, with tabs
 * between its fields: "--name"; "none", "required", "optional" or "two"; what the value is called; the choices, with "|"
 * between them. The caller frees them. */
char *hvd_options_help(const struct hvd_options *o, int width);
char *hvd_options_usage(const struct hvd_options *o);
char *hvd_options_man(const struct hvd_options *o);
char *hvd_options_plugin_man(void);
char *hvd_options_completion(const struct hvd_options *o);

/* Everything but configuration files at once: defaults, command line, environment (NULL = none), and the rules between
 * options. hvd_options_free() is due after an error, too. argv[0] is the name that hvdrun was called by. */
int hvd_options_load(struct hvd_options *o, int argc, char *const *argv, char *const *envp, struct hvd_err *err);

/* The same step by step, so that configuration files can be read before hvd_options_check(). */
void hvd_options_init(struct hvd_options *o);
int hvd_options_parse(struct hvd_options *o, int argc, char *const *argv, struct hvd_err *err);
/* Append to *args the srun_args without the option of this long name, however it is spelled. */
void hvd_options_srun_args_but(const struct hvd_options *o, const char *name, struct hvd_strv *args);
/* Append those for the srun that starts the agent of one host of an elastic job: without -l, and without what describes the ranks
 * and the hosts of the whole job. */
void hvd_options_srun_args_of_agents(const struct hvd_options *o, struct hvd_strv *args);
/* Append those for a salloc that makes the job: what it knows of them, and of their variables. */
void hvd_options_salloc_args(const struct hvd_options *o, struct hvd_strv *args);
int hvd_options_env(struct hvd_options *o, char *const *envp, struct hvd_err *err);
/* One value of a configuration file; `key` as in the table ("params.cycle_time_ms"), or an option's long name.
 * A value that a stronger source has given is kept. HVD_E_NOENT: there is no such key. */
int hvd_options_config(struct hvd_options *o, enum hvd_opt_source from, const char *key, const char *value,
		       struct hvd_err *err);
/* Does a table have such a key? Does one have keys within a map of that name ("params")? */
bool hvd_options_setting(const char *key);
bool hvd_options_settings_below(const char *map);
/* Configuration files (config.c): hvd.conf of the site, and --config-file. Store the values of a file's text. Errors name
 * the file, by `path`, and the line, and are HVD_E_USAGE. */
int hvd_config_parse(struct hvd_options *o, enum hvd_opt_source from, const char *text, size_t len, const char *path,
		     struct hvd_err *err);

/* Read the site's hvd.conf, which may be absent, and then the file that the options name, if any. */
int hvd_config_load(struct hvd_options *o, struct hvd_err *err);
/* The rules between options, when all values are known. Sets what one option implies for another, and adds to
 * o->notes. */
int hvd_options_check(struct hvd_options *o, struct hvd_err *err);
/* The part of that which holds for a step of srun --hvd, too: the rules between settings. */
int hvd_options_check_step(struct hvd_options *o, struct hvd_err *err);

void hvd_options_free(struct hvd_options *o); /* NULL is fine */

/* The source of the value of the option with this long name, or of another spelling of the same value. */
enum hvd_opt_source hvd_options_source(const struct hvd_options *o, const char *name);
/* Was the option on the command line? */
bool hvd_options_given(const struct hvd_options *o, const char *name);

/* The name that hvdrun is called by: "hvdrun" or "horovodrun". */
const char *hvd_options_program(const struct hvd_options *o);

/* The number of ranks: -np or -n, or the environment's; -1 when nothing gave it. */
int hvd_options_np(const struct hvd_options *o);
/* Must -np be passed to srun as -n? True if -np was given and -n was not. */
bool hvd_options_np_for_srun(const struct hvd_options *o);

/* Is the workers' controller MPI: --mpi, --jsrun? */
bool hvd_options_mpi(const struct hvd_options *o);

/* Is the job elastic? */
bool hvd_options_elastic(const struct hvd_options *o);
/* It is not, whatever the options, the environment and configuration files say. */
void hvd_options_not_elastic(struct hvd_options *o);

/* Is the flag with this long name on, or has the option with this long name a value? True for NULL. */
bool hvd_options_on(const struct hvd_options *o, const char *name);

/* The value of the option with this long name as text; NULL where it has none. The caller frees it. */
char *hvd_options_text(const struct hvd_options *o, const char *name);

/* Set in `env` the variables for workers of all tunables that have a value. */
void hvd_options_tunables(const struct hvd_options *o, struct hvd_strv *env);

#endif
