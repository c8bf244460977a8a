/* SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

#include "emitted.h"
#include "emitters.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/user_ifname.h"

#include <string.h>

/* Frameworks that call torch.distributed. */
#define TORCHS (HVD_FW_TORCH | HVD_FW_DEEPSPEED | HVD_FW_ACCELERATE | HVD_FW_LIGHTNING)

/* "=" in front means whole names. Without it NCCL takes them as beginnings of names, and ib0 would select ib01 too. */
static void emit_nccl(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_setf(env, "NCCL_SOCKET_IFNAME", "=%s", in->ifaces);
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

char *hvd_emit_name(const char *name, char *const *envp)
{
	size_t len = strcspn(name, "?");
	hvd_cleanup_free char *a = hvd_xstrndup(name, len);

	if (!name[len] && hvd_emitted_yields(name) && hvd_user_ifname_find(name, envp, NULL, NULL))
		return NULL;
	if (name[len] && (hvd_envp_get(envp, a) || (name[len + 1] && hvd_envp_get(envp, name + len + 1))))
		return NULL;
	return hvd_take_ptr(&a);
}

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
		{HVD_FW_HOROVOD, hvd_emit_horovod},
		{TORCHS | HVD_FW_JAX | HVD_FW_TENSORFLOW, hvd_emit_ranks},
		{TORCHS, hvd_emit_torch},
		{HVD_FW_TORCHRUN, hvd_emit_torchrun},
		{HVD_FW_JAX, hvd_emit_jax},
		{HVD_FW_DEEPSPEED, hvd_emit_deepspeed},
		{HVD_FW_LIGHTNING, hvd_emit_lightning},
		{HVD_FW_TENSORFLOW, hvd_emit_tensorflow},
		{0, emit_nccl},
		{0, emit_gloo},
		{0, emit_openmpi},
	};

	for (size_t i = 0; i < sizeof(emitters) / sizeof(emitters[0]); i++)
		if (!emitters[i].frameworks || (emitters[i].frameworks & in->frameworks))
			emitters[i].emit(in, env);
}
