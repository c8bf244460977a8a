/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - the plugin's context: the one place of mutable state.
 *
 * srun, sbatch and salloc load the plugin once per command; slurmstepd once
 * per step. Options fill `opt`, plugstack arguments fill `site`; a hook looks
 * at `opt` first and at `site` where the user left something unset.
 */
#ifndef HVD_PLUGIN_H
#define HVD_PLUGIN_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/key.h"
#include "lib/base/strv.h"
#include "lib/protocol/boot.h"

#include <limits.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <sys/types.h>

#define HVD_OPT_UNSET      (-1)
#define HVD_LAUNCH_KEY_HEX (2 * HVD_KEY_LEN)
/* Which step the exported HVD_BOOT_ENV is for: a step started from within another inherits both. */
#define HVD_STEP_ENV "SLURM_HVD_STEP"
/* In place of the driver's boot text, with a status behind it: there is no driver, and srun has said why. */
#define HVD_REFUSED "refused "

/* Which network namespace a process is in; all zero when that cannot be told. */
struct hvd_netns {
	dev_t dev;
	ino_t ino;
};

/* What srun hands on to hvd-driver as it is. */
enum hvd_setting {
	HVD_NICS,
	HVD_START_TIMEOUT,
	HVD_RENDEZVOUS,
	HVD_TRACE,
	HVD_CONFIG,
	HVD_KEY_FILE,
	HVD_N_SETTINGS,
};

struct hvd_plugin_opt {
	int enabled;                /* HVD_OPT_UNSET, 0 (--no-hvd) or 1 (--hvd) */
	int verbose;                /* HVD_OPT_UNSET, or how much to say */
	char *text[HVD_N_SETTINGS]; /* checked; NULL = unset */
};

struct hvd_plugin {
	struct hvd_plugin_opt opt;
	unsigned given;       /* options by number: those of this command's own line, */
	unsigned of_job;      /* and those that sbatch or salloc was given */
	struct hvd_err wrong; /* the first that makes no sense */
	struct {
		struct hvd_plugin_opt defaults;
		char libexecdir[PATH_MAX];
		int kill_on_bad_exit; /* end the step when a rank fails */
	} site;
	char launch_key[HVD_LAUNCH_KEY_HEX + 1]; /* slurmstepd only; "" when none came (key.h) */
	pid_t driver;                            /* srun only; 0 while there is none */
	int driver_fd;                           /* srun only: its EOF ends the driver */
	struct {
		int root_fd;             /* the host's root (O_PATH, close-on-exec); 0 while there is none */
		struct hvd_netns net;    /* the network namespace in which the plan was made */
		char *container_env;     /* PYXIS_CONTAINER_ENV as the user has it; NULL when unset */
		bool container_env_ours; /* it has been changed for pyxis to read */
		struct hvd_strv plan;    /* NAME=VALUE, as this task has got them */
		int verbose;             /* of the launch */
	} task;                          /* slurmstepd and its tasks only */
	struct {
		int memory, ready, tell; /* descriptors; 0 where this host's tasks do not share a shim */
	} plans;                         /* slurmstepd and its tasks only; see plans.c */
};

/* Plugstack arguments: key=value. Unknown keys and bad values are errors. */
int hvd_plugin_site_args(struct hvd_plugin *pl, int argc, char **argv, struct hvd_err *err);
/* Register the command-line options with Slurm. */
int hvd_plugin_options(spank_t sp);
/* When all options are known: -1 with err set for the first that makes no sense. Tells of those without effect. */
int hvd_plugin_check(const struct hvd_plugin *pl, struct hvd_err *err);
/* The value of a setting: the option's, else the site's, else NULL. */
const char *hvd_plugin_value(const struct hvd_plugin *pl, enum hvd_setting setting);
/* The name of hvd-driver's option for it. */
const char *hvd_plugin_setting_name(enum hvd_setting setting);
bool hvd_plugin_enabled(const struct hvd_plugin *pl);

/* In srun. */
int hvd_srun_check(struct hvd_err *err); /* refuse what is known before the driver is started; nothing to undo then */
int hvd_srun_prepare(struct hvd_plugin *pl, struct hvd_err *err);                  /* after the options */
int hvd_srun_start_driver(struct hvd_plugin *pl, spank_t sp, struct hvd_err *err); /* before the launch */
void hvd_srun_refuse_tasks(spank_t sp, int status); /* no driver: each task is to end with this status */
void hvd_srun_end_driver(struct hvd_plugin *pl);    /* at the end */

/* In the task, already the user: fetch the plan and put it into the task's environment. Does not
 * return when there is no plan: the task ends, since it could only hang. */
void hvd_task_take_plan(struct hvd_plugin *pl, spank_t sp);

/* plans.c: how the tasks of a host share one shim. */
enum hvd_plans_part {
	HVD_PLANS_OWN,   /* there is no sharing: run a shim for this task alone */
	HVD_PLANS_FETCH, /* run the shim for all tasks of the host, and tell them */
	HVD_PLANS_TAKE,  /* take what that one tells */
};
void hvd_plans_prepare(struct hvd_plugin *pl, spank_t sp); /* in slurmstepd, before it forks the tasks */
void hvd_plans_close(struct hvd_plugin *pl);               /* in slurmstepd, after that; fine when nothing is open */
enum hvd_plans_part hvd_plans_part(struct hvd_plugin *pl, spank_t sp); /* in a task */
/* The first task's word: status 0 with the plans of all, or the status that all are to end with. */
void hvd_plans_tell(struct hvd_plugin *pl, int status, const char *plans, size_t len);
/* Another task's wait for it. 0 with *plan, which the caller frees; > 0: the status to end with, the first task has
 * said why; -1 with err set. */
int hvd_plans_take(struct hvd_plugin *pl, spank_t sp, hvd_time deadline, char **plan, size_t *len, struct hvd_err *err);
/* Where the n-th plan (from 0) begins in `plans`, and how long it is with its empty string; 0 when there is none. */
size_t hvd_plans_nth(const char *plans, size_t len, uint32_t n, const char **plan);

/* prolog.c: have the plan stay when the site has a TaskProlog. After it was set. */
void hvd_prolog_wrap(const struct hvd_plugin *pl, spank_t sp);

/* step.c: is that a step which srun --hvd started? `boot` gets the text of HVD_BOOT_ENV. */
bool hvd_step_wanted(spank_t sp, char boot[HVD_BOOT_MAX]);

/* container.c: a plugin behind or in front of this one may put the task into a container. */
bool hvd_container_late_args(int argc, char **argv); /* is that the line "hvd.so late"? */
void hvd_container_keep_names(struct hvd_plugin *pl, spank_t sp);
void hvd_container_restore_names(struct hvd_plugin *pl, spank_t sp);
void hvd_container_remember_host(struct hvd_plugin *pl, spank_t sp);
int hvd_container_host_root(const struct hvd_plugin *pl);
bool hvd_container_other_net(const struct hvd_plugin *pl, struct hvd_netns *now);
void hvd_container_repeat_plan(struct hvd_plugin *pl, spank_t sp);

extern struct hvd_plugin hvd_plugin;

/* srun's own configuration, which it and libslurm export but slurm.h does not declare. Its type changes
 * with each release; Slurm refuses a plugin that was built for another one. */
extern slurm_conf_t slurm_conf __attribute__((weak));

/* srun's own options, of a type that is not needed here, and whether one of them was given by name, as Slurm's
 * cli_filter plugins ask. false for a name that this release does not know. */
extern char hvd_srun_opt __asm__("opt") __attribute__((weak));
extern bool slurm_option_isset(void *opt, const char *name) __attribute__((weak));

#endif
