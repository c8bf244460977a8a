/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.c - an elastic job through Slurm: one srun per host, whose single task is the host's node agent.
 *
 * The step has all of the host's CPUs, memory and GPUs that the job has, and the
 * node agent starts ranks within it. So replacing a rank costs a fork and not a
 * step, all ranks of a host see each other's GPUs, and everything stays within
 * the job's cgroups and accounting. The node agent binds ranks to cores.
 */
#include "backend.h"
#include "lib/process/srun_env.h"

#include <string.h>

static int add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[0];
	struct hvd_proc *proc = hvd_launch_add(launch, host->name);
	const char *gpus = launch->gpus ? hvd_env_get(launch->gpus, host->name) : NULL;

	(void)err;
	hvd_srun_env_set_aside(&proc->env);
	hvd_strv_add(&proc->argv, "srun");
	/* For the step Slurm would ask this one host for the GPUs of the whole job. */
	if (gpus)
		hvd_strv_addf(&proc->argv, "--gres=%s%s",
			      strcmp(gpus, "0") == 0 ? "none" : "gpu:", strcmp(gpus, "0") == 0 ? "" : gpus);
	hvd_strv_add_all(&proc->argv, launch->spec->srun.args_of_agents.v);
	if (host->slurm_job)
		hvd_strv_addf(&proc->argv, "--jobid=%u", host->slurm_job);
	/* srun accepts no number of a component as --jobid. */
	if (host->component)
		hvd_strv_addf(&proc->argv, "--het-group=%d", host->component - 1);
	hvd_strv_addf(&proc->argv, "--nodelist=%s", host->name);
	hvd_strv_add(&proc->argv, "--nodes=1");
	hvd_strv_add(&proc->argv, "--ntasks=1");
	hvd_strv_add(&proc->argv, "--overlap");
	if (!launch->unbound)
		hvd_strv_add(&proc->argv, "--cpu-bind=none");
	hvd_strv_add(&proc->argv, "--kill-on-bad-exit=0");
	hvd_strv_addf(&proc->argv, "--input=%s", launch->by_stdin ? "all" : "none");
	hvd_strv_add(&proc->argv, "--mpi=none");
	if (launch->another)
		hvd_strv_add(&proc->argv, "--open-mode=append");
	/* srun reports every step that ends early, which is normal in an elastic job. --quiet leaves its errors. */
	if (!launch->spec->srun.talks)
		hvd_strv_add(&proc->argv, "--quiet");
	hvd_launch_add_agent(launch, proc, "host");
	if (hvd_launch_mixes_output(launch))
		hvd_strv_add(&proc->argv, "--label=none");
	hvd_strv_add(&proc->argv, "--step");
	if (launch->by_stdin)
		hvd_strv_add(&proc->argv, "--stdin");
	hvd_launch_add_ranks(launch, 0, 0, &proc->argv);
	if (!launch->spec->binding.given)
		hvd_strv_add(&proc->argv, "--bind");
	hvd_launch_add_command(launch, &proc->argv);
	return 0;
}

const struct hvd_backend hvd_backend_steps = {
	.name = "srun",
	.mode = HVD_START_HOSTS,
	.add_host = add_host,
};
