/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - what the command line of hvdrun says.
 *
 * hvdrun [options] command [args…]. Options are srun's, horovodrun's and its
 * own, in any order; they end at the first word that is none, or at "--".
 * A value comes from the command line, else from a configuration file, else
 * from the environment, else it is the table's default.
 *
 * Called as "horovodrun", letters and names that both srun and horovodrun have
 * are read as horovodrun reads them; otherwise as srun does.
 */
#ifndef HVD_OPTIONS_H
#define HVD_OPTIONS_H

#include "launch_spec.h"
#include "lib/base/strv.h"
#include "optable.h"

enum hvd_action {
	HVD_RUN = 0,
	HVD_SHOW_HELP,       /* --help */
	HVD_SHOW_USAGE,      /* --usage */
	HVD_SHOW_VERSION,    /* --version */
	HVD_CHECK_BUILD,     /* --check-build */
	HVD_SHOW_MAN,        /* --help-man */
	HVD_SHOW_COMPLETION, /* --print-completion */
	HVD_ASK_SRUN,        /* no command, but --mpi=list, --cpu-bind=help…: srun with srun_args answers */
};

/* --launcher, in the order of its choices */
enum hvd_launcher {
	HVD_LAUNCHER_AUTO = 0,
	HVD_LAUNCHER_SRUN,
	HVD_LAUNCHER_FORK,
	HVD_LAUNCHER_JSRUN,
	HVD_LAUNCHER_BLAUNCH,
	HVD_LAUNCHER_LSRUN,
	HVD_LAUNCHER_SSH,
	HVD_LAUNCHER_MPIRUN,
};

enum hvd_controller {
	HVD_CONTROLLER_AUTO = 0, /* nothing was said: gloo */
	HVD_CONTROLLER_GLOO,
	HVD_CONTROLLER_MPI,
	HVD_CONTROLLER_JSRUN,
};

/* Where a value comes from; a later one wins. */
enum hvd_opt_source {
	HVD_FROM_DEFAULT = 0,
	HVD_FROM_SITE, /* a file of the site */
	HVD_FROM_ENV,
	HVD_FROM_CONFIG,  /* the file that --config-file names */
	HVD_FROM_COMMAND, /* the command line */
};

/*
 * Numbers are -1, strings NULL and lists empty when nothing gave them a value.
 * All memory is the struct's own: hvd_options_free().
 */
struct hvd_options {
	/* The command line, taken apart. Nothing of it is lost: every word is read, or here. */
	struct hvd_strv srun_args; /* for srun, as they were written and in that order */
	struct hvd_strv unknown;   /* those of srun_args that no table knows; refuse them where srun is not used */
	struct hvd_strv command;
	struct hvd_strv notes;    /* things worth telling the user with --verbose */
	struct hvd_strv warnings; /* … and always */
	bool dashdash;            /* options were ended by "--" */
	size_t het_colon; /* where in command a ":" is, at which srun would begin the next component; 0 = none */
	bool as_horovodrun;
	int action; /* enum hvd_action; when it is not HVD_RUN there may be no command */

	/* srun's. They are in srun_args as well. */
	int nodes_min, nodes_max; /* -N; max 0 = no upper bound */
	int ntasks;               /* -n */
	int ntasks_per_node, ntasks_per_gpu, ntasks_per_socket, ntasks_per_core, cpus_per_task;
	char *gpus, *gpus_per_node, *gpus_per_socket, *gpus_per_task, *tres_per_task, *gres; /* "4", "a100:4" */
	char *nodelist, *nodefile, *exclude, *relative;
	char *jobid, *het_group, *partition, *time, *account, *reservation, *clusters;
	char *distribution, *export_env, *chdir, *mpi_type, *bcast, *cpu_bind, *gpu_bind, *mem, *immediate;
	char *input, *output, *error, *container;
	bool overlap, exact, exclusive, label, multi_prog, pty, unbuffered, test_only, no_allocate, overcommit;
	bool preserve_env, hold, async;
	int kill_on_bad_exit; /* -K: 1; -K0: 0 */
	int wait;             /* -W seconds */
	int quiet;            /* -Q, counted */

	/* horovodrun's. */
	int num_proc; /* -np: see hvd_options_np() */
	int min_np, max_np, slots_per_host, reset_limit;
	double elastic_timeout;
	int cooldown_min, cooldown_max; /* --blacklist-cooldown-range */
	struct hvd_strv nics;
	char *hosts, *hostfile, *discovery_script;
	char *discover;            /* "slurm", "hosts", "jobs:NAME" or "script:PROGRAM" */
	double discovery_interval; /* seconds; -1 = not given */
	char *output_filename, *mpi_args, *binding_args, *ssh_identity_file;
	int ssh_port;
	int controller; /* enum hvd_controller */
	bool disable_cache, tcp, prefix_timestamp;
	/* … its tunables: hvd_options_tunables() */
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

	/* hvdrun's own. */
	bool dry_run, json, selftest;
	bool keep_going; /* a rank that fails does not end the others: --keep-going, -K0 */
	char *trace, *config_file, *key_file;
	char *erf;                /* where jsrun's resource file is to be */
	char *run_func, *results; /* both or none */
	int launcher;             /* enum hvd_launcher */
	int rendezvous;           /* enum hvd_rendezvous_at */
	double start_timeout;     /* seconds */
	int verbose;              /* how often -v, --verbose or --hvd-verbose */
	int hvd;                  /* --hvd 1, --no-hvd 0: without effect here */

	unsigned char *source; /* by row: enum hvd_opt_source */
};

/* All tables. */
struct hvd_optset hvd_options_set(void);

/* --help, as wide as the terminal, and what --help-man and --print-completion show. The caller frees it. */
char *hvd_options_help(const struct hvd_options *o, int width);
char *hvd_options_usage(const struct hvd_options *o);
char *hvd_options_man(const struct hvd_options *o);
char *hvd_options_completion(const struct hvd_options *o);

/* Everything at once: defaults, command line, environment (NULL = none), and the rules between options.
 * On an error *o is valid and empty enough for hvd_options_free(). argv[0] tells the name it was called by. */
int hvd_options_load(struct hvd_options *o, int argc, char *const *argv, char *const *envp, struct hvd_err *err);

/* … or step by step, with a configuration file in between. */
void hvd_options_init(struct hvd_options *o);
int hvd_options_parse(struct hvd_options *o, int argc, char *const *argv, struct hvd_err *err);
/* srun_args without the option of this long name, all its spellings. Appended to *args. */
void hvd_options_srun_args_but(const struct hvd_options *o, const char *name, struct hvd_strv *args);
int hvd_options_env(struct hvd_options *o, char *const *envp, struct hvd_err *err);
/* One value of a configuration file; `key` as in the table ("params.cycle_time_ms"), or an option's long name.
 * A value that a stronger source has given stays. HVD_E_NOENT: there is no such key. */
int hvd_options_config(struct hvd_options *o, enum hvd_opt_source from, const char *key, const char *value,
		       struct hvd_err *err);
/* Is there such a key? Are there keys within a map of that name ("params")? */
bool hvd_options_setting(const char *key);
bool hvd_options_settings_below(const char *map);
/* Rules between options: call it last. May add to o->notes. */
int hvd_options_check(struct hvd_options *o, struct hvd_err *err);

void hvd_options_free(struct hvd_options *o); /* NULL is fine */

/* Who gave the value of the option with this long name (or of another spelling of the same thing)? */
enum hvd_opt_source hvd_options_source(const struct hvd_options *o, const char *name);
/* Was it on the command line? */
bool hvd_options_given(const struct hvd_options *o, const char *name);

/* Processes to start: -np or -n, or what the environment says; -1 when nobody said. */
int hvd_options_np(const struct hvd_options *o);
/* Is -np to be added to srun_args as -n? True when it was given and -n was not. */
bool hvd_options_np_for_srun(const struct hvd_options *o);

/* Is the workers' controller MPI: --mpi, --jsrun? */
bool hvd_options_mpi(const struct hvd_options *o);

/* Is the job to be elastic: may ranks come and go? */
bool hvd_options_elastic(const struct hvd_options *o);

/* Is the option with this long name on (a flag), or has it a value (others)? True for NULL. */
bool hvd_options_on(const struct hvd_options *o, const char *name);

/* The value of the option with this long name as text; NULL where it has none. The caller frees it. */
char *hvd_options_text(const struct hvd_options *o, const char *name);

/* What workers are told in their environment: set the variables of the tunables that were given. */
void hvd_options_tunables(const struct hvd_options *o, struct hvd_strv *env);

#endif
