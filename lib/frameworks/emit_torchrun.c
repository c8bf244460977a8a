/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_torchrun.c - for a torchrun that each host's one rank starts: the defaults of its options (PET_*; class env in
 * torch/distributed/argparse_util.py), so that torchrun without options starts the workers of one world.
 *
 * The agents of torchrun rendezvous through the launch's store. Each would also serve a store if the endpoint's address
 * were its host's and the port free; the port is not free. PET_RDZV_CONF=is_host=0 prevents that, but also keeps agents
 * from serving at an endpoint that the user gives on torchrun's command line. So it is set only if torchrun would fail
 * to find out whether the address is its host's.
 */
#include "emitters.h"

void hvd_emit_torchrun(const struct hvd_emit *in, struct hvd_strv *env)
{
	bool v6 = in->store_addr.family == AF_INET6;
	char addr[HVD_ADDR_TEXT];

	if (in->store != HVD_STORE_AGENT || in->hosts != in->slot->size)
		return;
	hvd_env_set(env, "PET_RDZV_BACKEND?", "c10d");
	hvd_env_setf(env, "PET_RDZV_ENDPOINT?", v6 ? "[%s]:%u" : "%s:%u", hvd_addr_text(&in->store_addr, addr),
		     in->store_port);
	hvd_env_set(env, "PET_RDZV_ID?", in->run_id);
	hvd_env_setf(env, "PET_NNODES?", "%d", in->hosts);
	/* The workers' store is served by the first agent, at the address that it gives here; else at a name. */
	hvd_env_set(env, "PET_LOCAL_ADDR?", hvd_addr_text(&in->here, addr));
	hvd_env_set(env, "PET_RDZV_CONF?", "is_host=0");
	hvd_env_set(env, "PET_NPROC_PER_NODE?", "gpu");
}
