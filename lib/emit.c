/* SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

/* Horovod, Gloo controller: horovod/common/gloo/gloo_context.h names them. */
static void emit_horovod(const struct hvd_emit *in, struct hvd_strv *env)
{
	char addr[HVD_ADDR_TEXT];

	hvd_env_setf(env, "HOROVOD_RANK", "%d", in->place->rank);
	hvd_env_setf(env, "HOROVOD_SIZE", "%d", in->place->size);
	hvd_env_setf(env, "HOROVOD_LOCAL_RANK", "%d", in->place->local_rank);
	hvd_env_setf(env, "HOROVOD_LOCAL_SIZE", "%d", in->place->local_size);
	hvd_env_setf(env, "HOROVOD_CROSS_RANK", "%d", in->place->cross_rank);
	hvd_env_setf(env, "HOROVOD_CROSS_SIZE", "%d", in->place->cross_size);
	hvd_env_set(env, "HOROVOD_HOSTNAME", in->hostname);
	hvd_env_set(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR", hvd_addr_text(&in->rendezvous, addr));
	hvd_env_setf(env, "HOROVOD_GLOO_RENDEZVOUS_PORT", "%u", in->port);
	hvd_env_set(env, "HOROVOD_GLOO_IFACE", in->iface);
	hvd_env_set(env, "HOROVOD_CONTROLLER", "gloo");
	hvd_env_set(env, "HOROVOD_CPU_OPERATIONS", "gloo");
	hvd_env_set(env, "PYTHONUNBUFFERED", "1");
}

static void emit_nccl(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, "NCCL_SOCKET_IFNAME", in->ifaces);
}

/* torch.distributed's Gloo backend. */
static void emit_gloo(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, "GLOO_SOCKET_IFNAME", in->iface);
}

void hvd_emit_all(const struct hvd_emit *in, struct hvd_strv *env)
{
	static void (*const emitters[])(const struct hvd_emit *in, struct hvd_strv *env) = {
		emit_horovod,
		emit_nccl,
		emit_gloo,
	};

	for (size_t i = 0; i < sizeof(emitters) / sizeof(emitters[0]); i++)
		emitters[i](in, env);
}
