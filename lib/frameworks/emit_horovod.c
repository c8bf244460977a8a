/* SPDX-License-Identifier: Apache-2.0 */
#include "emitters.h"

/* With the MPI controller Horovod asks MPI for rank and size. Which library moves the data is left to Horovod and the
 * user; if it is Gloo, it needs the interface. */
static void emit_horovod_mpi(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, "HOROVOD_CONTROLLER", "mpi");
	hvd_env_set(env, "HOROVOD_GLOO_IFACE", in->iface);
	hvd_env_set(env, "PYTHONUNBUFFERED", "1");
}

/* Horovod with the Gloo controller. The names are in horovod/common/gloo/gloo_context.h. */
void hvd_emit_horovod(const struct hvd_emit *in, struct hvd_strv *env)
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
