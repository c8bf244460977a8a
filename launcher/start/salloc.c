/* SPDX-License-Identifier: Apache-2.0 */
/* salloc.c - outside of a Slurm job: the job that salloc makes for a launch whose agents are steps of it. */
#include "backend.h"
#include "launcher/options/role_specs.h"
#include "lib/base/cleanup.h"
#include "slurm/alloc_slurm.h"

#include <string.h>

bool hvd_launch_hosts_told(const struct hvd_launch_spec *spec)
{
	return spec->hosts.listed || spec->discovery.from != HVD_DISCOVER_AUTO;
}

void hvd_launch_name_job(const struct hvd_launch *launch, struct hvd_strv *argv)
{
	const char *command = launch->spec->selftest ? launch->selftest : launch->spec->command[0];

	if (!launch->spec->srun.jobid && !hvd_envp_get(launch->envp, "SLURM_JOB_NAME"))
		hvd_strv_addf(argv, "--job-name=%s", basename(command));
}

bool hvd_launch_needs_salloc(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	return backend == &hvd_backend_steps && !hvd_launch_hosts_told(launch->spec) &&
	       !hvd_alloc_in_slurm(launch->envp);
}

/* ---- roles: nodes that are alike, of which each is enough for any role ---- */

/* What the ranks on a node need, of one role or of all that run there. */
struct need {
	int64_t tasks, cpus, gpus;
};

static void add_need(struct need *need, const struct hvd_role_spec *role)
{
	const int64_t spread =
		role->hosts && role->spec.ranks.n ? (role->spec.ranks.n + role->hosts - 1) / role->hosts : 1;
	const int64_t tasks = role->per_host ? role->per_host : spread;

	need->tasks += tasks;
	need->cpus += tasks * (role->cpus ? role->cpus : 1);
	need->gpus += role->gpus > 0 ? tasks * role->gpus : 0;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int add_roles(const struct hvd_role_specs *roles, int spares, struct hvd_strv *out, struct hvd_err *err)
{
	struct need all = {0};
	int64_t nodes = spares;

	for (int i = 0; i < (int)roles->n; i++) {
		const int64_t own = hvd_role_n_hosts(&roles->v[i], 0);
		struct need need = {0};

		if (roles->v[i].with >= 0)
			continue;
		if (!own) {
			hvd_err_set(err, HVD_E_USAGE,
				    "role %s does not say how many nodes it needs, and there is no job",
				    roles->v[i].name);
			return hvd_err_hint(err, "add -N to its options; or start hvdrun within salloc or sbatch");
		}
		nodes += own;
		for (int k = 0; k < (int)roles->n; k++)
			if (hvd_role_base(roles, k) == i)
				add_need(&need, &roles->v[k]);
		all = (struct need){most(all.tasks, need.tasks), most(all.cpus, need.cpus), most(all.gpus, need.gpus)};
	}
	hvd_strv_addf(out, "--nodes=%lld", (long long)nodes);
	hvd_strv_addf(out, "--ntasks-per-node=%lld", (long long)all.tasks);
	if (all.cpus > all.tasks)
		hvd_strv_addf(out, "--cpus-per-task=%lld", (long long)((all.cpus + all.tasks - 1) / all.tasks));
	if (all.gpus > 0)
		hvd_strv_addf(out, "--gpus-per-node=%lld", (long long)all.gpus);
	return 0;
}

int hvd_launch_salloc(const struct hvd_launch *launch, char *const *argv, struct hvd_strv *out, struct hvd_err *err)
{
	hvd_strv_add(out, "salloc");
	hvd_strv_add(out, "--no-kill");
	hvd_launch_name_job(launch, out);
	if (launch->roles && add_roles(launch->roles, launch->spec->spares, out, err) != 0)
		return -1;
	hvd_strv_add_all(out, launch->spec->srun.salloc_args.v);
	hvd_strv_add_all(out, argv);
	return 0;
}
