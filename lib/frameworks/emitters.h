/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emitters.h - the emitters of frameworks, for the table in emit.c. Each sets the variables that its framework reads.
 */
#ifndef HVD_EMITTERS_H
#define HVD_EMITTERS_H

#include "emit.h"

/* DeepSpeed, accelerate and Lightning read the variables of torch.distributed, whose ranks theirs are. */
#define HVD_EMIT_TORCHS (HVD_FW_TORCH | HVD_FW_DEEPSPEED | HVD_FW_ACCELERATE | HVD_FW_LIGHTNING)

void hvd_emit_horovod(const struct hvd_emit *in, struct hvd_strv *env);
void hvd_emit_torch(const struct hvd_emit *in, struct hvd_strv *env);

#endif
