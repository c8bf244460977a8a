/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.c - the emitters, in the order in which their variables stand in a rank's plan, and the table of them.
 */
#include "emit.h"

#include "emitted.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/user_ifname.h"

#include <string.h>

static void set_endpoint(struct hvd_strv *env, const char *name, const struct hvd_addr *addr, in_port_t port)
{
	char text[HVD_ADDR_TEXT];

	hvd_env_setf(env, name, addr->family == AF_INET6 ? "[%s]:%u" : "%s:%u", hvd_addr_text(addr, text), port);
}

/* With the MPI controller Horovod asks MPI for rank and size. Which library moves the data is left to Horovod and the
 * user; if it is Gloo, it needs the interface. */
static void emit_horovod_mpi(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, "HOROVOD_CONTROLLER", "mpi");
	hvd_env_set(env, "HOROVOD_GLOO_IFACE", in->iface);
	hvd_env_set(env, "PYTHONUNBUFFERED", "1");
}

/* Horovod with the Gloo controller. The names are in horovod/common/gloo/gloo_context.h. */
static void emit_horovod(const struct hvd_emit *in, struct hvd_strv *env)
{
	char addr[HVD_ADDR_TEXT];

	if (in->mpi) {
		emit_horovod_mpi(in, env);
		return;
	}
	hvd_env_setf(env, "HOROVOD_RANK", "%d", in->slot->rank);
	hvd_env_setf(env, "HOROVOD_SIZE", "%d", in->slot->size);
	hvd_env_setf(env, "HOROVOD_LOCAL_RANK", "%d", in->slot->local_rank);
	hvd_env_setf(env, "HOROVOD_LOCAL_SIZE", "%d", in->slot->local_size);
	hvd_env_setf(env, "HOROVOD_CROSS_RANK", "%d", in->slot->cross_rank);
	hvd_env_setf(env, "HOROVOD_CROSS_SIZE", "%d", in->slot->cross_size);
	hvd_env_set(env, "HOROVOD_HOSTNAME", in->hostname);
	hvd_env_set(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR", hvd_addr_text(&in->rendezvous, addr));
	hvd_env_setf(env, "HOROVOD_GLOO_RENDEZVOUS_PORT", "%u", in->port);
	hvd_env_set(env, "HOROVOD_GLOO_IFACE", in->iface);
	hvd_env_set(env, "HOROVOD_CONTROLLER", "gloo");
	hvd_env_set(env, "HOROVOD_CPU_OPERATIONS", "gloo");
	hvd_env_set(env, "PYTHONUNBUFFERED", "1");
}

/* The rank's numbers, by the names that torch.distributed has given them. */
static void emit_ranks(const struct hvd_emit *in, struct hvd_strv *env)
{
	const struct hvd_rank_slot *slot = in->slot;

	hvd_env_setf(env, "RANK", "%d", slot->rank);
	hvd_env_setf(env, "WORLD_SIZE", "%d", slot->size);
	hvd_env_setf(env, "LOCAL_RANK", "%d", slot->local_rank);
	hvd_env_setf(env, "LOCAL_WORLD_SIZE", "%d", slot->local_size);
	/* torchrun's groups are the workers of one agent, so of one host. */
	hvd_env_setf(env, "GROUP_RANK", "%d", in->host_rank);
	hvd_env_setf(env, "GROUP_WORLD_SIZE", "%d", in->hosts);
	hvd_env_setf(env, "NODE_RANK", "%d", in->host_rank);
}

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

/*
 * The variables that torch.distributed's init_method env:// reads, and further ones of torchrun
 * (torch/distributed/rendezvous.py; _start_workers() of torch/distributed/elastic/agent/server/local_elastic_agent.py).
 * DeepSpeed, accelerate and Lightning read these too.
 *
 * TORCHELASTIC_SIGNALS_TO_HANDLE is not set: it is for torchrun itself. The process that starts a rank sets
 * TORCHELASTIC_ERROR_FILE (lib/host/rank_error.h). For TORCHELASTIC_RUN_ID see emit_lightning().
 */
static void emit_torch(const struct hvd_emit *in, struct hvd_strv *env)
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

/*
 * For a torchrun that each host's one rank starts: the defaults of its options (PET_*; class env in
 * torch/distributed/argparse_util.py), so that torchrun without options starts the workers of one world.
 *
 * The agents of torchrun rendezvous through the launch's store. Each would also serve a store if the endpoint's address
 * were its host's and the port free; the port is not free. PET_RDZV_CONF=is_host=0 prevents that, but also keeps agents
 * from serving at an endpoint that the user gives on torchrun's command line. So it is set only if torchrun would fail
 * to find out whether the address is its host's.
 */
static void emit_torchrun(const struct hvd_emit *in, struct hvd_strv *env)
{
	char addr[HVD_ADDR_TEXT];

	if (in->store != HVD_STORE_AGENT || in->hosts != in->slot->size)
		return;
	hvd_env_set(env, "PET_RDZV_BACKEND?", "c10d");
	set_endpoint(env, "PET_RDZV_ENDPOINT?", &in->store_addr, in->store_port);
	hvd_env_set(env, "PET_RDZV_ID?", in->run_id);
	hvd_env_setf(env, "PET_NNODES?", "%d", in->hosts);
	/* The workers' store is served by the first agent, at the address that it gives here; else at a name. */
	hvd_env_set(env, "PET_LOCAL_ADDR?", hvd_addr_text(&in->here, addr));
	hvd_env_set(env, "PET_RDZV_CONF?", "is_host=0");
	hvd_env_set(env, "PET_NPROC_PER_NODE?", "gpu");
}

/*
 * The variables that jax.distributed.initialize() reads (jax/_src/distributed.py). The coordinator is a server in rank
 * 0's process. JAX gets rank and size from Slurm or Open MPI; elsewhere the program passes WORLD_SIZE and RANK.
 */
static void emit_jax(const struct hvd_emit *in, struct hvd_strv *env)
{
	in_port_t port = in->rank0_ports[HVD_PORT_JAX];

	/* JAX_COORDINATOR_PORT alone is for the host that JAX finds. */
	if (port)
		set_endpoint(env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT", &in->rank0, port);
	hvd_env_set(env, "JAX_LOCAL_DEVICE_IDS?", "");
}

/* Besides torch.distributed's variables, its accelerator "cpu" reads how many ranks the host has. */
static void emit_deepspeed(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_setf(env, "LOCAL_SIZE", "%d", in->slot->local_size);
}

/*
 * Which cluster environment Lightning chooses (lightning_fabric/connector.py): that of torchrun if TORCHELASTIC_RUN_ID
 * is set, else that of Slurm, LSF or MPI by their variables.
 *
 * torchrun's is right if the variables of a scheduler are not the rank's own (hvd_resolve() knows), and if all ranks
 * start again after a failure. Otherwise Slurm's is better, because it requeues jobs.
 */
static void emit_lightning(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, in->max_restarts >= 0 ? "TORCHELASTIC_RUN_ID" : "TORCHELASTIC_RUN_ID?", in->run_id);
}

/* TF_CONFIG, which TensorFlow's strategies read (tensorflow/python/distribute/cluster_resolver/
 * tfconfig_cluster_resolver.py). Each rank serves at an address of its own, and knows those of all others. */
static void emit_tensorflow(const struct hvd_emit *in, struct hvd_strv *env)
{
	if (!in->tf_workers)
		return;
	hvd_env_setf(env, "TF_CONFIG?",
		     "{\"cluster\": {\"worker\": [%s]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
		     in->tf_workers, in->slot->rank);
	/* TensorFlow has gRPC leave SO_REUSEPORT out, by which the ports are reserved (lib/net/reserve.h). */
	hvd_env_set(env, "TF_GRPC_REUSE_PORT?TF_CONFIG", "true");
}

/* A program that reads Slurm's variables finds those of the process that has started it, which may be no rank's. The names
 * are srun's (OUTPUT ENVIRONMENT VARIABLES of its manual). */
static void emit_slurm(const struct hvd_emit *in, struct hvd_strv *env)
{
	static const char *const sizes[] = {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"};
	static const char *const hosts[] = {"SLURM_NNODES", "SLURM_STEP_NUM_NODES"};

	if (!in->slurm)
		return;
	hvd_env_setf(env, "SLURM_PROCID", "%d", in->slot->rank);
	hvd_env_setf(env, "SLURM_LOCALID", "%d", in->slot->local_rank);
	hvd_env_setf(env, "SLURM_NODEID", "%d", in->host_rank);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		hvd_env_setf(env, sizes[i], "%d", in->slot->size);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		hvd_env_setf(env, hosts[i], "%d", in->hosts);
}

/* "=" in front means whole names. Without it NCCL takes them as beginnings of names, and ib0 would select ib01 too. */
static void emit_nccl(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_setf(env, "NCCL_SOCKET_IFNAME", "=%s", in->ifaces);
	/* Without this, only one job of a host serves its RAS. */
	if (in->nccl_ras)
		hvd_env_setf(env, "NCCL_RAS_ADDR?", "127.0.0.1:%u", in->nccl_ras);
}

/* torch.distributed's Gloo backend. */
static void emit_gloo(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, "GLOO_SOCKET_IFNAME", in->iface);
}

/* Open MPI and Spectrum MPI take an MCA parameter from the environment; interface names may differ between hosts, so
 * mpirun's command line cannot hold them. On one machine Open MPI uses no network. It refuses if_include together with
 * if_exclude, hence neither must be set already. */
static void emit_openmpi(const struct hvd_emit *in, struct hvd_strv *env)
{
	if (in->mpi && !in->one_machine)
		hvd_env_set(env, "OMPI_MCA_btl_tcp_if_include?OMPI_MCA_btl_tcp_if_exclude", in->ifaces);
}

/* Frameworks that call torch.distributed. */
#define TORCHS (HVD_FW_TORCH | HVD_FW_DEEPSPEED | HVD_FW_ACCELERATE | HVD_FW_LIGHTNING)

bool hvd_emit_wants_store(unsigned frameworks)
{
	return frameworks & TORCHS;
}

void hvd_emit_all(const struct hvd_emit *in, struct hvd_strv *env)
{
	static const struct {
		unsigned frameworks; /* any of them; 0 = always */
		void (*emit)(const struct hvd_emit *in, struct hvd_strv *env);
	} emitters[] = {
		{HVD_FW_HOROVOD, emit_horovod},
		{TORCHS | HVD_FW_JAX | HVD_FW_TENSORFLOW, emit_ranks},
		{TORCHS, emit_torch},
		{HVD_FW_TORCHRUN, emit_torchrun},
		{HVD_FW_JAX, emit_jax},
		{HVD_FW_DEEPSPEED, emit_deepspeed},
		{HVD_FW_LIGHTNING, emit_lightning},
		{HVD_FW_TENSORFLOW, emit_tensorflow},
		{0, emit_slurm},
		{0, emit_nccl},
		{0, emit_gloo},
		{0, emit_openmpi},
	};

	for (size_t i = 0; i < sizeof(emitters) / sizeof(emitters[0]); i++)
		if (!emitters[i].frameworks || (emitters[i].frameworks & in->frameworks))
			emitters[i].emit(in, env);
}

char *hvd_emit_name(const char *name, char *const *envp)
{
	size_t len = strcspn(name, "?");
	hvd_cleanup_free char *a = hvd_xstrndup(name, len);

	if (!name[len] && hvd_emitted_flags(name)->yields && hvd_user_ifname_find(name, envp, NULL, NULL))
		return NULL;
	if (name[len] && (hvd_envp_get(envp, a) || (name[len + 1] && hvd_envp_get(envp, name + len + 1))))
		return NULL;
	return hvd_take_ptr(&a);
}
