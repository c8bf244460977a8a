/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_spec.h - what the user wants of one launch, after all options are read.
 *
 * hvd_launch_spec_make() reads struct hvd_options (command line, environment
 * and configuration files) once. After that, nothing outside of launcher/options
 * reads the options, and nothing changes the launch spec.
 *
 * A number without a value is 0, and a string NULL, unless the field's comment
 * describes another value.
 */
#ifndef HVD_LAUNCH_SPEC_H
#define HVD_LAUNCH_SPEC_H

#include "lib/base/strv.h"
#include "lib/frameworks/frameworks.h"

#include <stdbool.h>

struct hvd_multi_prog;
struct hvd_options;

/* --signal-ranks */
struct hvd_signal_before {
	int signal;     /* that all ranks get before the job's time limit */
	double seconds; /* how long before */
};

/* The C types of the kinds of lib/base/settings.def and launcher_settings.def. */
#define HVD_TYPE_FLAG()             bool
#define HVD_TYPE_RANGE(least, most) double
#define HVD_TYPE_SECONDS(least)     double
#define HVD_TYPE_NUMBER(most)       int
#define HVD_TYPE_CHOICE(words)      int      /* the number of the word */
#define HVD_TYPE_WORDS(words)       unsigned /* bits, by the numbers of the words */
#define HVD_TYPE_SIGNAL()           struct hvd_signal_before
#define HVD_TYPE_INTERFACES()       struct hvd_strv
#define HVD_TYPE_FRAMEWORKS()       unsigned /* bits of enum hvd_framework */
#define HVD_TYPE_TEXT(word)         char *

#define HVD_RELAY_FAN_OUT 32

/* The label of each line that a rank prints. */
enum hvd_label {
	HVD_LABEL_NONE = 0,
	HVD_LABEL_SRUN,    /* in the form of srun --label */
	HVD_LABEL_HOROVOD, /* in horovodrun's form */
};

/* Where the hosts of an elastic job come from. */
enum hvd_discover {
	HVD_DISCOVER_AUTO = 0, /* nothing was said */
	HVD_DISCOVER_HOSTS,    /* the listed hosts or those of the job, which never change */
	HVD_DISCOVER_SLURM,    /* the nodes of this Slurm job */
	HVD_DISCOVER_JOBS,     /* the nodes of all Slurm jobs of one name or comment */
	HVD_DISCOVER_SCRIPT,   /* what a program prints */
	HVD_DISCOVER_AGENTS,   /* self-registering agents (--launcher=join) */
};

/* --hang-action: what follows the report that no rank makes progress. */
enum hvd_hang_action {
	HVD_HANG_REPORT = 0, /* nothing more */
	HVD_HANG_KILL,       /* the job is ended */
	HVD_HANG_REQUEUE,    /* the job is ended, and the batch job is requeued */
};

/* --lost-host: who ends a step of srun --hvd when a host does not answer any longer. */
enum hvd_lost_host {
	HVD_LOST_HOST_LAUNCH = 0,
	HVD_LOST_HOST_SLURM,
};

/* --requeue-on: why the batch job is requeued; each a bit, 1 << reason. */
enum hvd_requeue_reason {
	HVD_REQUEUE_LIMIT,   /* the ranks have ended after the signal that announces the time limit */
	HVD_REQUEUE_NODE,    /* a host has failed */
	HVD_REQUEUE_PREEMPT, /* the job is preempted */
	HVD_REQUEUE_ASK,     /* a rank has asked for it */
	HVD_REQUEUE_HANG,    /* no rank makes progress any longer: HVD_HANG_REQUEUE has this bit, too */
};

/* --preflight: what is checked on each host before the ranks start. */
enum hvd_preflight {
	HVD_PREFLIGHT_OFF = 0,
	HVD_PREFLIGHT_QUICK, /* clocks, free space, limits, GPUs, the site's program */
	HVD_PREFLIGHT_FULL,  /* the same, and how fast the networks are */
};

struct hvd_launch_spec {
	/* What to run. */
	char *const *command; /* the user's, with a NULL at its end */
	/* --multi-prog: which command each rank runs (rank_commands.h); `command` is the file. NULL: all run `command` */
	const struct hvd_multi_prog *programs;
	char *own_line;      /* the user's command line up to the command, for messages; NULL = srun --hvd */
	bool counts_ranks;   /* `own_line` says how many ranks there are */
	struct hvd_strv env; /* NAME=VALUE for every rank */
	bool as_horovodrun;  /* called as horovodrun: behave as horovodrun does */

	/* How many ranks, on which hosts. */
	struct {
		int n; /* that the user wants; 0: all slots. The tasks of a batch job are srun's business */
	} ranks;
	struct {
		const char *list, *file; /* --hosts, --hostfile: at most one is set */
		bool listed;             /* one of them is */
		int slots_per_host;      /* of hosts without a number; 0 = the scheduler's number, or 1 */
		bool said; /* the user chose where ranks run: by --launcher, a list, or a discovery source */
	} hosts;
	struct {
		enum hvd_discover from;
		const char *what; /* JOBS: their name or comment; SCRIPT: a command line for sh -c */
		double interval;  /* seconds between two queries; 0 = as often as is cheap */
	} discovery;
	struct {
		bool on;                           /* ranks come and go; always on in a role */
		int first_np;                      /* ranks of the first generation, at least */
		int min_np, max_np;                /* of each later one; max 0 = any number */
		int reset_limit;                   /* generations after the first; -1 = any number */
		double timeout;                    /* seconds that the job waits for slots; below 0 = any time */
		double cooldown_min, cooldown_max; /* seconds that a failing host is left out; 0 = forever */
		double silent; /* seconds after which a silent rank is replaced; 0 = the state machine's default */
	} elastic;

	/* What starts the ranks. */
	char *launcher; /* the name of a backend; NULL = the first that suits */
	struct {
		struct hvd_strv args;           /* the words that go to srun unchanged */
		struct hvd_strv args_but_nodes; /* the same without -N */
		struct hvd_strv args_of_agents; /* the words for the agents' steps of an elastic job */
		struct hvd_strv salloc_args;    /* the words for a salloc that makes the elastic job */
		const char *no_salloc;          /* the option that salloc cannot replace; NULL = none */
		const char *jobid;              /* --jobid on the command line */
		const char *input;              /* --input, from any source */
		const char *container;          /* the option that puts the tasks into a container, without dashes */
		bool bcast;                     /* --bcast */
		const char *only_option;        /* an option on the command line that only srun knows */
		const char *any_option; /* one that srun knows, whether hvdrun does or not; -v and -Q do not count */
		const char *unknown_option; /* one that may belong to a plugin of srun's */
		int nodes_min, nodes_max;   /* -N on the command line; max 0 = no bound */
		int add_ntasks;             /* -np, if `args` have no --ntasks */
		int add_kill_on_bad_exit;   /* passed to srun; -1 = the user or the environment sets it */
		bool places_tasks;          /* the user set the number of tasks, or where they run */
		bool tasks_per_node;        /* --ntasks-per-node, from any source */
		int per_node;               /* --ntasks-per-node on the command line; 0 = not given */
		bool heterogeneous;         /* --het-group, or ":" */
		bool shares_step;           /* --overlap, --immediate: no wait for CPUs of the step we are in */
		bool overcommit, pty;
		bool one_interrupt;  /* the first SIGINT goes to the ranks or ends them, not the second */
		bool talks;          /* -v or -Q */
		bool handles_output; /* --output, --error, --pty or --label was given: hvdrun does not label output */
	} srun;
	struct {
		bool on; /* the workers' controller is MPI */
		bool tcp;
		const char *args; /* --mpi-args */
	} mpi;
	struct {
		int port;             /* 0 = ssh's own default */
		const char *identity; /* a file */
	} ssh;
	struct {
		/* Where node agents bind ranks: "none", "cores" or "ldoms"; other values are for srun. */
		const char *ranks;
		bool given;       /* --cpu-bind, or its variable: srun binds accordingly */
		const char *args; /* --binding-args, for jsrun and mpirun */
	} binding;

	/* Rendezvous and networks. */
	struct hvd_strv interfaces; /* names, prefixes or networks; empty = the driver finds them */
	int relay_fan_out;          /* relays that connect to one parent at most */
	struct {
		double start; /* seconds from the start until every rank has its plan */
	} deadlines;

	/* The ranks' output. */
	struct {
		enum hvd_label label;
		bool timestamps; /* with HVD_LABEL_HOROVOD */
		char *dir;       /* a file for each rank goes here; an absolute path */
		bool progress;   /* when the start takes long, print what it waits for */
		bool quiet;
	} output;

	/* The options of launcher_settings.def, as the user gave them. A number that is not given is -1: without
	 * max_restarts the elastic job is of Horovod's kind. `selftest`: hvd-selftest runs, to which `command` are
	 * arguments. lost_host is one of enum hvd_lost_host. */
#define LAUNCHER_SETTING(field, name, whose, group, kind, env, def, shown, help, more) HVD_TYPE_##kind field;
#include "launcher_settings.def"

	/* The settings of lib/base/settings.def: the user's value, else one that another setting implies, else the
	 * default. Times are at most HVD_MOST_SECONDS, 0 for no limit; signal_ranks.signal is 0 for none; preflight,
	 * hang_action, requeue_on and store are numbers of the enumerations above and in
	 * lib/frameworks/frameworks.h. */
#define SETTING(field, name, whose, group, kind, env, def, help, more) HVD_TYPE_##kind field;
#define HOROVOD_SETTING(field, name, plugin, whose, group, kind, env, def, help, more)
#include "lib/base/settings.def"
};

/* Fill `spec` from `o`, which hvd_options_check() has accepted, and from the environment. Lists, launcher and
 * output.dir are the spec's own; other strings stay those of `o`, which must outlive it. */
void hvd_launch_spec_make(struct hvd_launch_spec *spec, const struct hvd_options *o, char *const *envp);
void hvd_launch_spec_clear(struct hvd_launch_spec *spec);

/* Through srun: does hvdrun end the ranks after one has failed, because srun would do so in a job that is being preempted,
 * too? */
bool hvd_launch_spec_ends_ranks(const struct hvd_launch_spec *spec);

/* Do ranks of this launch find PyTorch's TCPStore at the rendezvous? */
bool hvd_launch_spec_has_store(const struct hvd_launch_spec *spec);

#endif
