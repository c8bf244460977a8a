/* SPDX-License-Identifier: Apache-2.0 */
#include "srun_env.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Begins with SLURM_, so that srun passes it on whatever --export says. */
#define ASIDE "SLURM_HVD_USER_"

/* What srun may see; with a final '_' all that begin so. Every other SLURM_… and SRUN_… is set aside: releases of Slurm
 * add options more often than anything else. */
static const char *const stay[] = {
	/* which job it is, and how Slurm is reached */
	"SLURM_JOB_ID",
	"SLURM_JOBID",
	"SLURM_JOB_NODELIST",
	"SLURM_NODELIST",
	"SLURM_NODE_ALIASES",
	"SLURM_JOB_NAME",
	"SLURM_CLUSTERS",
	"SLURM_CLUSTER_NAME",
	"SLURM_WORKING_CLUSTER",
	"SLURM_CONF",
	"SLURM_CONF_SERVER",
	"SLURM_JWT",
	"SLURM_SACK_",
	"SLURM_HVD_",
	/* how a task's process runs: what the agent inherits, its ranks do */
	"SLURM_EXPORT_ENV",
	"SRUN_EXPORT_ENV",
	"SLURM_WORKING_DIR",
	"SLURM_REMOTE_CWD",
	"SLURM_PROLOG",
	"SLURM_EPILOG",
	"SLURM_TASK_PROLOG",
	"SLURM_TASK_EPILOG",
	"SLURM_UMASK",
	"SLURM_PRIO_PROCESS",
	"SLURM_RLIMIT_",
	"SLURM_SPANK_",
	"SLURM_NETWORK",
	"SLURM_CPU_FREQ_REQ",
	"SLURM_GPU_FREQ",
	"SLURM_PROFILE",
	"SLURM_ACCTG_FREQ",
	/* where its output goes */
	"SLURM_STDOUTMODE",
	"SLURM_STDERRMODE",
	"SLURM_OPEN_MODE",
	"SLURM_UNBUFFEREDIO",
	"SRUN_OUTPUT",
	"SRUN_ERROR",
};

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool stays(const char *variable)
{
	size_t name = strcspn(variable, "=");

	if (!begins_with(variable, "SLURM_") && !begins_with(variable, "SRUN_"))
		return true;
	for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++) {
		size_t len = strlen(stay[i]);

		if (strncmp(variable, stay[i], len) == 0 && (name == len || stay[i][len - 1] == '_'))
			return true;
	}
	return false;
}

void hvd_srun_env_set_aside(struct hvd_strv *env)
{
	hvd_env_unset(env, "SLURM_HVD_STEP"); /* the plugin would take the step for one of srun --hvd */
	for (size_t i = 0; i < env->n; i++) {
		char *plain = env->v[i];

		if (stays(plain))
			continue;
		env->v[i] = hvd_xasprintf(ASIDE "%s", plain);
		free(plain);
	}
}

void hvd_srun_env_restore(void)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv all = {0};

	hvd_strv_add_all(&all, environ);
	for (size_t i = 0; i < all.n; i++) {
		char *name = all.v[i] + strlen(ASIDE), *equals;

		if (!begins_with(all.v[i], ASIDE) || !(equals = strchr(name, '=')))
			continue;
		*equals = '\0';
		unsetenv(all.v[i]);
		if (*name)
			setenv(name, equals + 1, 0);
	}
}
