/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - ranks on this machine: one node agent, without any scheduler. If the user lists several names of this
 * machine, each name is a host with a node agent of its own, which is useful for experiments.
 */
#include "backend.h"

#include "lib/process/rlimits.h"

static bool suits(const struct hvd_launch *launch)
{
	(void)launch;
	return true;
}

static int listed_hosts(struct hvd_launch *launch, struct hvd_err *err)
{
	if (hvd_launch_listed(launch, err) != 0)
		return -1;
	hvd_launch_find_local(launch, &launch->alloc);
	for (int i = 0; i < launch->alloc.n_hosts; i++)
		if (!hvd_launch_is_local(launch, launch->alloc.hosts[i].name)) {
			hvd_err_set(err, HVD_E_USAGE,
				    "host %s is another machine, but fork starts ranks on this machine only",
				    launch->alloc.hosts[i].name);
			return hvd_err_hint(err, "use --launcher=ssh for other hosts; or run hvdrun inside a Slurm "
						 "job, or with srun's options (hvdrun -N2 …)");
		}
	return 0;
}

static int add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	if (!hvd_launch_is_local(launch, launch->alloc.hosts[0].name)) {
		hvd_err_set(err, HVD_E_USAGE, "it is another machine, but fork starts ranks on this machine only");
		return hvd_err_hint(err, "use --launcher=ssh for other hosts");
	}
	hvd_launch_add_hosts(launch, NULL);
	return 0;
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	int rc = launch->spec->hosts.listed ? listed_hosts(launch, err) : hvd_launch_local_alloc(launch, err);

	if (rc != 0 || hvd_launch_take(launch, launch->spec->ranks.n, err) != 0 ||
	    hvd_limits_ranks("", launch->alloc.slots, err) != 0)
		return -1;
	hvd_launch_add_hosts(launch, NULL);
	return 0;
}

const struct hvd_backend hvd_backend_fork = {
	.name = "fork",
	.mode = HVD_START_HOSTS,
	.loopback = true,
	.suits = suits,
	.prepare = prepare,
	.add_host = add_host,
	.elastic = &hvd_backend_fork,
};
