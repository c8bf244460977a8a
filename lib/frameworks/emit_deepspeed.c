/* SPDX-License-Identifier: Apache-2.0 */
/* Besides torch.distributed's variables, its accelerator "cpu" reads how many ranks the host has. */
#include "emitters.h"

void hvd_emit_deepspeed(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_setf(env, "LOCAL_SIZE", "%d", in->slot->local_size);
}
