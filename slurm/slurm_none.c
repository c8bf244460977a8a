/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.h in a build without libslurm. */
#include "slurm.h"

#ifndef HVD_WITH_SLURM

#include "lib/base/cleanup.h"
#include "lib/process/capture.h"
#include "scontrol.h"

#include <string.h>

/* `scontrol show config` prints about 8 KB. */
#define MAX_CONFIG     (1u << 20)
#define CONFIG_SECONDS 30

static int built_without(struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_NOENT, "this program was built without Slurm");
	return hvd_err_hint(err, "rebuild it where Slurm's development files are installed");
}

bool hvd_slurm_built_in(void)
{
	return false;
}

void hvd_slurm_release(char text[16])
{
	*text = '\0';
}

int hvd_slurm_site_get(struct hvd_slurm_site *site, struct hvd_err *err)
{
	static const char *const argv[] = {"scontrol", "show", "config", NULL};
	struct hvd_spawn sp = {.path = argv[0], .argv = (char *const *)argv};
	int status = 0;
	hvd_cleanup_free char *text = NULL;
	size_t len;

	*site = (struct hvd_slurm_site){0};
	text = hvd_capture(&sp, MAX_CONFIG, hvd_deadline_in(CONFIG_SECONDS), &len, &status, err);
	if (!text)
		return -1;
	if (status == 0)
		hvd_scontrol_config_parse(text, site);
	return status == 0 ? 0 : hvd_err_set(err, HVD_E_SYS, "'scontrol show config' failed");
}

int hvd_slurm_step_signal(uint32_t job, uint32_t step, int signal, struct hvd_err *err)
{
	(void)job, (void)step, (void)signal;
	return built_without(err);
}

int hvd_slurm_job_get(uint32_t job, struct hvd_slurm_job *out, struct hvd_err *err)
{
	(void)job;
	memset(out, 0, sizeof(*out));
	return built_without(err);
}

int hvd_slurm_jobs_get(struct hvd_slurm_job **jobs, size_t *n, struct hvd_err *err)
{
	*jobs = NULL;
	*n = 0;
	return built_without(err);
}

int hvd_slurm_nodes_get(struct hvd_slurm_nodes *nodes, struct hvd_err *err)
{
	(void)nodes;
	return built_without(err);
}

char *hvd_slurm_job_script(uint32_t job, struct hvd_err *err)
{
	(void)job;
	built_without(err);
	return NULL;
}

int hvd_slurm_requeue(const struct hvd_slurm_rerun *rerun, bool ended, struct hvd_err *err)
{
	(void)rerun;
	(void)ended;
	return built_without(err);
}

void hvd_slurm_exclude(const struct hvd_slurm_rerun *rerun, const struct hvd_strv *nodes, struct hvd_err *errs)
{
	(void)rerun;
	for (size_t i = 0; i < nodes->n; i++)
		built_without(&errs[i]);
}

int hvd_slurm_open(struct hvd_err *err)
{
	return built_without(err);
}

#endif
