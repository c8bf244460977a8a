/* SPDX-License-Identifier: Apache-2.0 */
#include "emitters.h"

void hvd_emit_ranks(const struct hvd_emit *in, struct hvd_strv *env)
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
