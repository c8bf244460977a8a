/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_jax.c - the variables that jax.distributed.initialize() reads (jax/_src/distributed.py). The coordinator is a
 * server in rank 0's process. JAX gets rank and size from Slurm or Open MPI; elsewhere the program passes WORLD_SIZE
 * and RANK.
 */
#include "emitters.h"

void hvd_emit_jax(const struct hvd_emit *in, struct hvd_strv *env)
{
	in_port_t port = in->rank0_ports[HVD_PORT_JAX];
	bool v6 = in->rank0.family == AF_INET6;
	char addr[HVD_ADDR_TEXT];

	/* JAX_COORDINATOR_PORT alone is for the host that JAX finds. */
	if (port)
		hvd_env_setf(env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT", v6 ? "[%s]:%u" : "%s:%u",
			     hvd_addr_text(&in->rank0, addr), port);
	hvd_env_set(env, "JAX_LOCAL_DEVICE_IDS?", "");
}
