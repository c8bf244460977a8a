/* SPDX-License-Identifier: Apache-2.0 */
#include "emitted.h"

#include <stddef.h>
#include <string.h>

const struct hvd_emitted hvd_emitted[] = {
	{.name = "HOROVOD_RANK"},
	{.name = "HOROVOD_SIZE"},
	{.name = "HOROVOD_LOCAL_RANK"},
	{.name = "HOROVOD_LOCAL_SIZE"},
	{.name = "HOROVOD_CROSS_RANK"},
	{.name = "HOROVOD_CROSS_SIZE"},
	{.name = "HOROVOD_HOSTNAME"},
	{.name = "HOROVOD_GLOO_RENDEZVOUS_ADDR"},
	{.name = "HOROVOD_GLOO_RENDEZVOUS_PORT"},
	{.name = "HOROVOD_GLOO_IFACE", .iface = true},
	{.name = "HOROVOD_CONTROLLER"},
	{.name = "HOROVOD_CPU_OPERATIONS"},
	{.name = "PYTHONUNBUFFERED"},
	{.name = "NCCL_SOCKET_IFNAME", .iface = true, .yields = true},
	{.name = "NCCL_RAS_ADDR", .keeps = true},
	{.name = "GLOO_SOCKET_IFNAME", .iface = true, .yields = true},
	{.name = "OMPI_MCA_btl_tcp_if_include", .keeps = true, .iface = true},
	{.name = "MASTER_ADDR", .store = true},
	{.name = "MASTER_PORT", .store = true},
	{.name = "TORCHELASTIC_USE_AGENT_STORE", .store = true},
	{.name = "RANK"},
	{.name = "WORLD_SIZE"},
	{.name = "LOCAL_RANK"},
	{.name = "LOCAL_WORLD_SIZE"},
	{.name = "GROUP_RANK"},
	{.name = "GROUP_WORLD_SIZE"},
	{.name = "NODE_RANK"},
	{.name = "ROLE_NAME"},
	{.name = "ROLE_RANK"},
	{.name = "ROLE_WORLD_SIZE"},
	{.name = "TORCHELASTIC_RESTART_COUNT"},
	{.name = "TORCHELASTIC_MAX_RESTARTS"},
	{.name = "TORCH_NCCL_ASYNC_ERROR_HANDLING", .keeps = true},
	{.name = "OMP_NUM_THREADS", .keeps = true},
	{.name = "TORCHELASTIC_RUN_ID", .keeps = true},
	{.name = "RES_OPTIONS", .keeps = true},
	{.name = "PET_RDZV_BACKEND", .keeps = true},
	{.name = "PET_RDZV_ENDPOINT", .keeps = true},
	{.name = "PET_RDZV_ID", .keeps = true},
	{.name = "PET_NNODES", .keeps = true},
	{.name = "PET_LOCAL_ADDR", .keeps = true},
	{.name = "PET_NPROC_PER_NODE", .keeps = true},
	{.name = "PET_RDZV_CONF", .keeps = true},
	{.name = "JAX_COORDINATOR_ADDRESS", .keeps = true},
	{.name = "JAX_LOCAL_DEVICE_IDS", .keeps = true},
	{.name = "LOCAL_SIZE"},
	{.name = "TF_CONFIG", .keeps = true},
	{.name = "TF_GRPC_REUSE_PORT", .keeps = true},
	{.name = "HVD_JOB_STORE"},
	{.name = "HVD_PORTS"},
	{.name = "HVD_ROLE"},
	{.name = "HVD_ROLE_REPLICA"},
	{.name = "HVD_ROLES"},
	{.name = "SLURM_PROCID", .slurm = true},
	{.name = "SLURM_LOCALID", .slurm = true},
	{.name = "SLURM_NODEID", .slurm = true},
	{.name = "SLURM_NTASKS", .slurm = true},
	{.name = "SLURM_NPROCS", .slurm = true},
	{.name = "SLURM_STEP_NUM_TASKS", .slurm = true},
	{.name = "SLURM_NNODES", .slurm = true},
	{.name = "SLURM_STEP_NUM_NODES", .slurm = true},
	{.name = NULL},
};

/* The entry whose name is the first `len` bytes of `name`; NULL: there is none. */
static const struct hvd_emitted *find(const char *name, size_t len)
{
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		if (strncmp(e->name, name, len) == 0 && !e->name[len])
			return e;
	return NULL;
}

const struct hvd_emitted *hvd_emitted_flags(const char *name)
{
	static const struct hvd_emitted none;
	const struct hvd_emitted *e = find(name, strlen(name));

	return e ? e : &none;
}

bool hvd_emitted_reads(const char *entry)
{
	static const char *const others[] = {"CUDA_VISIBLE_DEVICES=",
					     "ROCR_VISIBLE_DEVICES=",
					     "HIP_VISIBLE_DEVICES=",
					     "JAX_COORDINATOR_PORT=",
					     "JSM_NAMESPACE_RANK=",
					     "PATH=",
					     "TORCHELASTIC_ERROR_FILE=",
					     "VIRTUAL_ENV=",
					     "CONDA_PREFIX=",
					     "PYTHONPATH=",
					     "PYTHONUSERBASE=",
					     "PYTHONNOUSERSITE="};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strncmp(entry, others[i], strlen(others[i])) == 0)
			return true;
	return find(entry, strcspn(entry, "="));
}
