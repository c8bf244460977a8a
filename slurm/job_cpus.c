/* SPDX-License-Identifier: Apache-2.0 */
#include "job_cpus.h"

#include "alloc_slurm.h"
#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/layout.h"

static void count_cpus(char *const *envp, const struct hvd_alloc *hosts, int *cpus)
{
	const char *nodes = hvd_envp_get(envp, "SLURM_JOB_NODELIST");
	const char *counts = hvd_envp_get(envp, "SLURM_JOB_CPUS_PER_NODE");
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	hvd_cleanup_free int *each = NULL;

	if (!nodes || !counts || hvd_hostlist_expand(nodes, HVD_MAX_HOSTS, &names, NULL) < 0 ||
	    hvd_tasks_per_node_parse(counts, (int)names.n, &each, NULL) != (int)names.n)
		return;
	for (size_t i = 0; i < names.n; i++) {
		const int at = hvd_alloc_find(hosts, names.v[i]);

		if (at >= 0)
			cpus[at] = each[i];
	}
}

/* With the environment of the component, as hvd_alloc_host counts them; 0: of the whole job. */
static void count(char *const *envp, int component, const struct hvd_alloc *hosts, int *cpus, int *gpus)
{
	const int each = hvd_slurm_gpus_per_node(envp);

	count_cpus(envp, hosts, cpus);
	for (int i = 0; i < hosts->n_hosts; i++)
		if (hosts->hosts[i].component == component)
			gpus[i] = each;
}

void hvd_slurm_job_counts(char *const *envp, const struct hvd_alloc *hosts, int **cpus, int **gpus)
{
	int components = 0;

	*cpus = hvd_xcalloc((size_t)hosts->n_hosts + 1, sizeof(**cpus));
	*gpus = hvd_xcalloc((size_t)hosts->n_hosts + 1, sizeof(**gpus));
	for (int i = 0; i < hosts->n_hosts; i++)
		components = hosts->hosts[i].component > components ? hosts->hosts[i].component : components;
	if (!components)
		count(envp, 0, hosts, *cpus, *gpus);
	for (int i = 1; i <= components; i++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};

		hvd_slurm_component_env(envp, i - 1, &env);
		count(env.v, i, hosts, *cpus, *gpus);
	}
}
