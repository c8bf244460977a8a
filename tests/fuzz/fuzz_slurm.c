/* SPDX-License-Identifier: Apache-2.0 */
/* GRES texts, as they stand in environments, and the output of squeue and scontrol. */
#include "fuzz.h"
#include "slurm/gres.h"
#include "slurm/scontrol.h"
#include "slurm/squeue.h"

static void squeue(const char *text)
{
	/* Short, so that inputs have it. */
	static const struct hvd_squeue_mark mark = {"<>"};
	struct hvd_slurm_job *jobs;
	size_t n;

	free(hvd_squeue_field(text, &mark));
	if (hvd_squeue_jobs_parse(text, &mark, &jobs, &n, NULL) != 0)
		must(!jobs && n == 0);
	for (size_t i = 0; i < n; i++)
		must(jobs[i].id && jobs[i].name && jobs[i].comment && jobs[i].tasks >= 0 && jobs[i].ends >= 0);
	hvd_slurm_jobs_free(jobs, n);
}

static void scontrol(const char *text)
{
	struct hvd_strv names = {0};
	struct hvd_slurm_site site;
	int *gpus;

	hvd_scontrol_config_parse(text, &site);
	must(site.port_lo >= 0 && site.port_hi >= site.port_lo && site.port_hi <= 65535 && site.kill_wait >= 0);
	must(hvd_scontrol_grace(text) >= 0);
	free(hvd_scontrol_steps(text, 7));
	hvd_scontrol_srun_hosts(text, &names);
	hvd_strv_free(&names);
	hvd_scontrol_unusable(text, &names);
	must(hvd_scontrol_nodes_like(text, "n1", &names) >= -1);
	hvd_strv_free(&names);
	hvd_strv_add(&names, "n1");
	hvd_strv_add(&names, "n2");
	gpus = hvd_scontrol_gpus(text, "a", &names);
	must(!gpus || (gpus[0] >= 0 && gpus[1] >= 0));
	free(gpus);
	hvd_strv_free(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	must(hvd_gres_gpus(text) >= -1);
	squeue(text);
	scontrol(text);
	free(text);
	return 0;
}
