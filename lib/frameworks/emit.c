/* SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

#include "emitted.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/job/user_ifname.h"

#include <string.h>

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
	if (name[len] && (hvd_envp_get(envp, a) || hvd_envp_get(envp, name + len + 1)))
		return NULL;
	return hvd_take_ptr(&a);
}

void hvd_emit_all(const struct hvd_emit *in, struct hvd_strv *env)
{
	static void (*const emitters[])(const struct hvd_emit *in, struct hvd_strv *env) = {
		emit_horovod,
		emit_nccl,
		emit_gloo,
		emit_openmpi,
	};

	for (size_t i = 0; i < sizeof(emitters) / sizeof(emitters[0]); i++)
		emitters[i](in, env);
}
