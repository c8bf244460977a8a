/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_torch.c - the variables that torch.distributed's init_method env:// reads, and further ones of torchrun
 * (torch/distributed/rendezvous.py; _start_workers() of torch/distributed/elastic/agent/server/local_elastic_agent.py).
 *
 * TORCHELASTIC_SIGNALS_TO_HANDLE is not set: it is for torchrun itself. The process that starts a rank sets
 * TORCHELASTIC_ERROR_FILE (lib/host/rank_error.h). For TORCHELASTIC_RUN_ID see emit_lightning.c.
 */
#include "emitters.h"

/*
 * Who has the TCPStore. Without TORCHELASTIC_USE_AGENT_STORE rank 0 is the server, and cannot be if its port is in use.
 * Two values make ranks clients of the server that is there already:
 *
 *   True  in these letters, is for PyTorch's Python. Each rank is a client, whatever the address, and no rank starts a
 *         server. A program that rendezvouses at another address than this launch's waits for ever (from 2.14 only if
 *         it sets MASTER_ADDR and MASTER_PORT)
 *   1     is for TCPStore itself, since PyTorch 2.7. Rank 0 tries to serve. If the port is MASTER_PORT and in use, rank
 *         0 writes an error line (agent/bind_line.h) and becomes a client; at each other port it serves, as without
 *         a launch
 *
 * The rank's host knows its PyTorch, and decides (resolve.h).
 */
static void emit_store(const struct hvd_emit *in, struct hvd_strv *env)
{
	bool agent = in->store == HVD_STORE_AGENT;
	in_port_t port = agent ? in->store_port : in->rank0_ports[HVD_PORT_STORE];
	char addr[HVD_ADDR_TEXT];

	if (in->store == HVD_STORE_OFF || !port)
		return;
	hvd_env_set(env, "MASTER_ADDR", hvd_addr_text(agent ? &in->store_addr : &in->rank0, addr));
	hvd_env_setf(env, "MASTER_PORT", "%u", port);
	if (agent)
		hvd_env_set(env, "TORCHELASTIC_USE_AGENT_STORE", "1");
	/* For hosts where look-ups of names are too slow (name_service.h). */
	hvd_env_set(env, "RES_OPTIONS?", "timeout:1 attempts:1");
}

void hvd_emit_torch(const struct hvd_emit *in, struct hvd_strv *env)
{
	const struct hvd_rank_slot *slot = in->slot;

	emit_store(in, env);
	/* All ranks have the same role. */
	hvd_env_set(env, "ROLE_NAME", "default");
	hvd_env_setf(env, "ROLE_RANK", "%d", slot->rank);
	hvd_env_setf(env, "ROLE_WORLD_SIZE", "%d", slot->size);
	/* Read up to PyTorch 2.5 where the store is an agent's, so it is there in a job that never restarts too. */
	hvd_env_setf(env, "TORCHELASTIC_RESTART_COUNT", "%d", in->restarts);
	hvd_env_setf(env, "TORCHELASTIC_MAX_RESTARTS", "%d", in->max_restarts > 0 ? in->max_restarts : 0);
	hvd_env_set(env, "OMP_NUM_THREADS?", "");
	/* NCCL: a rank whose peer has failed ends, in place of waiting. */
	hvd_env_set(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING?", "1");
}
