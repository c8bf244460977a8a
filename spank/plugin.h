/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - the plugin's files, what they have in common, and the one place of mutable state.
 *
 * srun, sbatch and salloc load the plugin once for each command, slurmstepd once for each step; slurmstepd's tasks are
 * forks of it. hvd.c has Slurm's hooks, which call:
 *
 *   options.c      options and plugstack arguments                      everywhere
 *   srun.c         starts and ends hvd-driver                           srun
 *   key.c          brings the launch's key to the tasks without munge   srun, slurmstepd, tasks
 *   step.c         distinguishes steps of srun --hvd from others        slurmstepd, tasks
 *   plans.c        shares one hvd-agent plan among the tasks of a host  slurmstepd, tasks
 *   step_events.c  reports the tasks to the node agent                  slurmstepd, tasks
 *   container.c    tasks that another plugin puts into a container      slurmstepd, tasks
 *   task.c         gets the plan and sets it in the environment         tasks
 *   prolog.c       has the plan win over the site's TaskProlog          tasks
 *   host_slurm.c   what the Slurm that has loaded the plugin offers     everywhere
 */
#ifndef HVD_PLUGIN_H
#define HVD_PLUGIN_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/key.h"
#include "lib/base/strv.h"
#include "lib/process/spawn.h"
#include "lib/protocol/boot.h"

#include <limits.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <sys/types.h>

#define HVD_OPT_UNSET      (-1)
#define HVD_LAUNCH_KEY_HEX (2 * HVD_KEY_LEN)
/* The step of HVD_BOOT_ENV, "JOB.STEP". A step that is started within another one inherits both variables. */
#define HVD_STEP_ENV "SLURM_HVD_STEP"
/* The start of HVD_BOOT_ENV's value if there is no driver. The exit status for the tasks follows; srun has printed the
 * reason. */
#define HVD_REFUSED "refused "

/* A network namespace; all zero = not known. */
struct hvd_netns {
	dev_t dev;
	ino_t ino;
};

/* The numbers of the plugin's options, in the order in which Slurm shows them. */
enum hvd_plugin_option {
	HVD_OPT_HVD,
	HVD_OPT_NO_HVD,
	HVD_OPT_VERBOSE,
	/* Settings, which srun passes on to hvd-driver: HVD_SET_nics, … */
#define SETTING(field, name, whose, group, kind, env, def, help, more)                 HVD_SET_##field,
#define HOROVOD_SETTING(field, name, plugin, whose, group, kind, env, def, help, more) HVD_SET_##field,
#include "lib/base/settings.def"
	HVD_N_OPTIONS,
};

struct hvd_plugin_opt {
	int enabled;               /* HVD_OPT_UNSET, 0 (--no-hvd) or 1 (--hvd) */
	int verbose;               /* HVD_OPT_UNSET, or the verbosity */
	char *text[HVD_N_OPTIONS]; /* of settings, checked; NULL = unset */
};

struct hvd_plugin {
	/* A setting of the user wins over the site's. */
	struct hvd_plugin_opt opt; /* of the user: from options */
	unsigned given;            /* bits, by the options' numbers: options of this command's own command line */
	unsigned of_job;           /* likewise: options that were given to sbatch or salloc */
	struct hvd_err wrong;      /* the first option with an invalid value; no code = none */
	struct {
		struct hvd_plugin_opt defaults;
		char libexecdir[PATH_MAX];
		int kill_on_bad_exit;            /* end the step when a rank fails */
		int newer_slurm;                 /* load into a Slurm that is newer than all that are known */
	} site;                                  /* of the site: from plugstack.conf */
	char launch_key[HVD_LAUNCH_KEY_HEX + 1]; /* slurmstepd only; "" = the launch message has none (key.c) */
	int components;                          /* srun only: of the step, of which srun has read the options */
	pid_t driver;                            /* srun only; 0 = none runs */
	int srun_status;                         /* srun only: with which it is ending; -1 = it is not */
	int driver_fd;                           /* srun only: when it is closed the driver ends; -1 = none */
	bool driver_ends_ranks;                  /* srun only: after a failure, in place of srun */
	struct {
		int root_fd;             /* the host's root (O_PATH, close-on-exec); 0 = none */
		struct hvd_netns net;    /* the network namespace in which the plan was made */
		char *container_env;     /* PYXIS_CONTAINER_ENV as the user has set it; NULL = unset */
		bool container_env_ours; /* PYXIS_CONTAINER_ENV was changed for pyxis to read */
		struct hvd_strv plan;    /* NAME=VALUE, as they were set in this task */
		int verbose;             /* of the launch */
		/* In a task that waits for its plan: */
		volatile sig_atomic_t shim;       /* the process of hvd-agent plan; 0 = none runs */
		volatile sig_atomic_t terminated; /* SIGTERM has come */
	} task;                                   /* slurmstepd and its tasks only */
	struct {
		int memory, ready, tell; /* descriptors; 0 = there are none */
		uint32_t waiting;        /* tasks, for the first */
	} plans;                         /* slurmstepd and its tasks only; see plans.c */
	struct {
		int ours, agents, backup, watchdogs; /* descriptors; 0 = there are none */
		int seen, answers;                   /* the eventfd, and the epoll instance that watches it */
		hvd_time waited;                     /* for answers, in all */
		pid_t agent;                         /* in a task that has its plan: the node agent; 0 = none */
	} events;                                    /* slurmstepd and its tasks only; see step_events.c */
};

/* options.c */

/* Take the arguments of the plugin's line in plugstack.conf: key=value. -1 with err set for an unknown key or an
 * invalid value. */
int hvd_plugin_site_args(struct hvd_plugin *pl, int argc, char **argv, struct hvd_err *err);
/* Register the command-line options with Slurm. -1 after logging the reason. */
int hvd_plugin_options(spank_t sp);
/* After all options are known: -1 with err set if one has an invalid value. Reports options without effect to the
 * user. */
int hvd_plugin_check(const struct hvd_plugin *pl, struct hvd_err *err);
/* The value of a setting: the option's, else the site's, else NULL. */
const char *hvd_plugin_value(const struct hvd_plugin *pl, enum hvd_plugin_option setting);
/* The name that hvd-driver knows it by. */
const char *hvd_plugin_setting_name(enum hvd_plugin_option setting);
/* Is this a --hvd step? */
bool hvd_plugin_enabled(const struct hvd_plugin *pl);

/* srun.c */

/* Refuse a step for a reason that is known before the driver is started. -1 with err set; there is nothing to undo. */
int hvd_srun_check(const struct hvd_plugin *pl, struct hvd_err *err);
/* After all options are known: the same, and have srun end the step when a rank fails. */
int hvd_srun_prepare(struct hvd_plugin *pl, struct hvd_err *err);
/* Before srun launches the tasks: start the driver, and export its address. -1 with err set; then no driver runs. */
int hvd_srun_start_driver(struct hvd_plugin *pl, spank_t sp, struct hvd_err *err);
/* Without a driver: have each task end with this status. */
void hvd_srun_refuse_tasks(spank_t sp, int status);
/* End the driver, if one runs. */
void hvd_srun_end_driver(struct hvd_plugin *pl);

/* key.c */

/* In srun: does the launch need a key of its own, because Slurm does not use munge here? */
bool hvd_launch_key_wanted(void);
/* In srun's local_user_init: make a key and put it into the launch message. Returns a close-on-exec descriptor with the
 * key's bytes for the driver, which the caller closes. -1 with err set, also if this Slurm has no place for the key. */
int hvd_launch_key_send(spank_t sp, struct hvd_err *err);
/* In slurmstepd, when options are registered: have Slurm store the key of the launch message in
 * hvd_plugin.launch_key. */
int hvd_launch_key_expect(spank_t sp);
/* In a task: a descriptor as above, for hvd-agent plan. -1 with err set if the launch message had no key. */
int hvd_launch_key_take(const struct hvd_plugin *pl, struct hvd_err *err);

/* step.c */

#define HVD_STEP_NAME_MAX 64 /* bytes of "JOB.STEP", its zero byte included */
/* Write the name of this step. False: Slurm does not say which it is. */
bool hvd_step_name(spank_t sp, char name[HVD_STEP_NAME_MAX]);
/* Was this step started by srun --hvd, and not by an srun within it? `boot` gets the value of HVD_BOOT_ENV. */
bool hvd_step_wanted(spank_t sp, char boot[HVD_BOOT_MAX]);
/* Which of its host's tasks is this one, from 0? Works in task_exit, too. */
uint32_t hvd_step_local_id(spank_t sp);
/* Wait until a descriptor can be read, or its other end is closed. False: the time is over. */
bool hvd_step_await(int fd, hvd_time deadline);
/* Close a descriptor in struct hvd_plugin for which 0 means that there is none, and set it to 0. */
void hvd_step_close(int *fd);

/* plans.c */

/* In slurmstepd, before it forks the tasks: make the memory and the pipe that they share. */
void hvd_plans_prepare(struct hvd_plugin *pl, spank_t sp);
/* In slurmstepd, after it has forked the tasks. Does nothing if nothing is open. */
void hvd_plans_close(struct hvd_plugin *pl);
/* In the first task: the memory for hvd-agent plan, which this function makes unless slurmstepd has. -1 with errno. */
int hvd_plans_memory(struct hvd_plugin *pl);
/* In the first task: tell the others the exit status of hvd-agent plan. */
void hvd_plans_tell(struct hvd_plugin *pl, int status);
/* In another task: wait for that status. -1 with err set: the first task has told none. */
int hvd_plans_await(struct hvd_plugin *pl, hvd_time deadline, struct hvd_err *err);
/* In a task, after status 0: its variables (lib/protocol/step_plans.h), which it may change and which last until its
 * exec. Sets events.agent. NULL with err set: there are none. */
char *hvd_plans_own(struct hvd_plugin *pl, spank_t sp, struct hvd_err *err);

/* step_events.c */

/* In slurmstepd, before it forks the tasks: make the descriptors that they share with the node agent. */
void hvd_step_events_prepare(struct hvd_plugin *pl, spank_t sp);
/* In the first task: pass the agent's descriptors on to hvd-agent plan. False: there are none. */
bool hvd_step_events_hand_over(const struct hvd_plugin *pl, struct hvd_spawn *spawn);
/* In slurmstepd, after it has forked the tasks: keep only its own descriptors. */
void hvd_step_events_forked(struct hvd_plugin *pl);
/* In a task that has its plan: report the task to the agent, if there is one, and have it read standard error. */
void hvd_step_events_task(struct hvd_plugin *pl, spank_t sp, const struct hvd_boot *boot);
/* In slurmstepd, when a task has ended: report the end to the agent. Takes at most HVD_STEP_SEEN_MS, and waits in vain
 * only once in a step. */
void hvd_step_events_exit(struct hvd_plugin *pl, spank_t sp);

/* container.c */

/* Are these the arguments of the line "hvd.so late"? */
bool hvd_container_late_args(int argc, char **argv);
/* In slurmstepd, before the init_post_opt of pyxis if this plugin is listed first: have pyxis keep the plan's
 * variables. */
void hvd_container_keep_names(struct hvd_plugin *pl, spank_t sp);
/* In a task, after pyxis has read the names: restore the user's setting for an srun within the command. */
void hvd_container_restore_names(struct hvd_plugin *pl, spank_t sp);
/* In a task, still as root and outside of any container. */
void hvd_container_remember_host(struct hvd_plugin *pl, spank_t sp);
/* A descriptor of the host's root if this process now has another root, else 0. */
int hvd_container_host_root(const struct hvd_plugin *pl);
/* Is this task in another network namespace than before? *now gets the namespace. */
bool hvd_container_other_net(const struct hvd_plugin *pl, struct hvd_netns *now);
/* In the task_init of the line "hvd.so late": set the plan again. */
void hvd_container_repeat_plan(struct hvd_plugin *pl, spank_t sp);

/* task.c: in a task, which already runs as the user: get the plan, and set it in the task's environment. Without a plan
 * the task could only hang, so this function then ends the task. */
void hvd_task_take_plan(struct hvd_plugin *pl, spank_t sp);

/* prolog.c */

/* In srun: tell the tasks the name of the site's TaskProlog. */
void hvd_prolog_export(void);
/* In a task, after the plan was set: have hvd-agent run the site's TaskProlog, if there is one. */
void hvd_prolog_wrap(const struct hvd_plugin *pl, spank_t sp);

extern struct hvd_plugin hvd_plugin;

#endif
