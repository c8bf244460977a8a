/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emitters.h - the emitters of frameworks, for the table in emit.c. Each sets the variables that its framework reads.
 */
#ifndef HVD_EMITTERS_H
#define HVD_EMITTERS_H

#include "emit.h"

void hvd_emit_horovod(const struct hvd_emit *in, struct hvd_strv *env);
/* The rank's numbers, by the names that torch.distributed has given them. */
void hvd_emit_ranks(const struct hvd_emit *in, struct hvd_strv *env);
/* DeepSpeed, accelerate and Lightning read these too. */
void hvd_emit_torch(const struct hvd_emit *in, struct hvd_strv *env);
void hvd_emit_torchrun(const struct hvd_emit *in, struct hvd_strv *env);
void hvd_emit_jax(const struct hvd_emit *in, struct hvd_strv *env);
void hvd_emit_deepspeed(const struct hvd_emit *in, struct hvd_strv *env);
void hvd_emit_tensorflow(const struct hvd_emit *in, struct hvd_strv *env);
void hvd_emit_lightning(const struct hvd_emit *in, struct hvd_strv *env);

#endif
