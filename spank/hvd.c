/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd.c - Slurm's hooks. They only choose the function to call; plugin.h lists the files.
 *
 * There is no user_init: while that hook waits, scancel does not reach the step, and Slurm may drain the node.
 */
#include "plugin.h"

#include "lib/frameworks/launch_marks.h"

#include "host_slurm.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT extern const char plugin_name[];
EXPORT extern const char plugin_type[];
EXPORT extern unsigned int plugin_version;
EXPORT extern const unsigned int spank_plugin_version;

const char plugin_name[] = "hvd";
const char plugin_type[] = "spank";
unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

/* Slurm refuses a plugin that was built for another release. It looks for plugin_version after it has loaded the
 * plugin, and so after this function. */
__attribute__((constructor)) static void claim_release(void)
{
	uint32_t release = hvd_host_slurm_release();

	if (release)
		plugin_version = release;
}

static int fail(const struct hvd_err *err)
{
	if (err->msg[0])
		slurm_error("hvd: %s", err->msg);
	if (err->hint[0])
		slurm_error("hvd: %s", err->hint);
	return -1;
}

/* Symbols and values of a Slurm that nobody has seen may differ from those of its predecessors. So a site can refuse
 * it. */
static int refuse_newer(struct hvd_plugin *pl, struct hvd_err *err)
{
	uint32_t release = hvd_host_slurm_release();

	if (pl->site.newer_slurm || hvd_host_slurm_is_known(release))
		return 0;
	pl->site.defaults.enabled = 0; /* Slurm calls the other hooks all the same where the line says "optional" */
	hvd_err_set(err, HVD_E_FAILED, "Slurm %u.%02u is newer than the releases that this hvd was tried with",
		    SLURM_VERSION_MAJOR(release), SLURM_VERSION_MINOR(release));
	return hvd_err_hint(err, "install a newer hvd, or remove newer_slurm=0 from the line of hvd.so in "
				 "plugstack.conf");
}

/* End srun, as srun does itself after an invalid option. A failing hook is not enough: Slurm heeds it only if the line
 * in plugstack.conf says "required". With "optional" srun would go on, and its tasks would run without ranks'
 * variables. */
static void end_srun(const struct hvd_err *err)
{
	fail(err);
	exit(hvd_err_status(err));
}

EXPORT int slurm_spank_init(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_init_post_opt(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_local_user_init(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_task_init(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_task_post_fork(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_task_exit(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_exit(spank_t sp, int ac, char **av);

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	struct hvd_err err = {0};

	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
	case S_CTX_REMOTE:
		break;
	default:
		return 0;
	}
	if (hvd_container_late_args(ac, av))
		return 0;
	if (hvd_plugin_site_args(&hvd_plugin, ac, av, &err) != 0 || refuse_newer(&hvd_plugin, &err) != 0)
		return fail(&err);
	if (hvd_plugin_options(sp) != 0)
		return -1;
	return spank_context() == S_CTX_REMOTE ? hvd_launch_key_expect(sp) : 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	struct hvd_err err = {0};

	if (hvd_container_late_args(ac, av))
		return 0;
	if (spank_context() == S_CTX_REMOTE) {
		hvd_container_keep_names(&hvd_plugin, sp);
		hvd_plans_prepare(&hvd_plugin, sp);
		hvd_step_events_prepare(&hvd_plugin, sp);
	} else if (hvd_plugin_check(&hvd_plugin, &err) != 0) {
		end_srun(&err);
	}
	/* srun calls this for each component of a heterogeneous step. */
	hvd_plugin.components++;
	/* The job, or the step with ranks, is not of the launch in whose rank sbatch, salloc or srun may run. */
	if (spank_context() == S_CTX_ALLOCATOR || (spank_context() == S_CTX_LOCAL && hvd_plugin_enabled(&hvd_plugin)))
		hvd_launch_marks_drop();
	if (spank_context() != S_CTX_LOCAL || !hvd_plugin_enabled(&hvd_plugin))
		return 0;
	if (hvd_srun_prepare(&hvd_plugin, &err) != 0)
		end_srun(&err);
	return 0;
}

int slurm_spank_local_user_init(spank_t sp, int ac, char **av)
{
	struct hvd_err err = {0};

	if (hvd_container_late_args(ac, av) || !hvd_plugin_enabled(&hvd_plugin))
		return 0;
	if (hvd_srun_check(&hvd_plugin, &err) != 0)
		end_srun(&err);
	if (hvd_srun_start_driver(&hvd_plugin, sp, &err) != 0) {
		fail(&err);
		hvd_srun_refuse_tasks(sp, hvd_err_status(&err));
	}
	return 0;
}

int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av)
{
	if (!hvd_container_late_args(ac, av))
		hvd_container_remember_host(&hvd_plugin, sp);
	return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	if (hvd_container_late_args(ac, av)) {
		hvd_container_repeat_plan(&hvd_plugin, sp);
		return 0;
	}
	hvd_task_take_plan(&hvd_plugin, sp);
	hvd_prolog_wrap(&hvd_plugin, sp);
	return 0;
}

/* In slurmstepd, once all tasks are forked. */
int slurm_spank_task_post_fork(spank_t sp, int ac, char **av)
{
	(void)sp;
	(void)ac;
	(void)av;
	hvd_plans_close(&hvd_plugin);
	hvd_step_events_forked(&hvd_plugin);
	return 0;
}

/* In slurmstepd, when it has reaped a task. */
int slurm_spank_task_exit(spank_t sp, int ac, char **av)
{
	if (!hvd_container_late_args(ac, av))
		hvd_step_events_exit(&hvd_plugin, sp);
	return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	(void)sp;
	if (spank_context() == S_CTX_LOCAL && !hvd_container_late_args(ac, av))
		hvd_srun_end_driver(&hvd_plugin);
	return 0;
}
