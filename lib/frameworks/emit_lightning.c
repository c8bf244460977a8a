/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_lightning.c - which cluster environment Lightning chooses (lightning_fabric/connector.py): that of torchrun if
 * TORCHELASTIC_RUN_ID is set, else that of Slurm, LSF or MPI by their variables.
 *
 * torchrun's is right if the variables of a scheduler are not the rank's own (hvd_resolve() knows), and if all ranks
 * start again after a failure. Otherwise Slurm's is better, because it requeues jobs.
 */
#include "emitters.h"

void hvd_emit_lightning(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, in->max_restarts >= 0 ? "TORCHELASTIC_RUN_ID" : "TORCHELASTIC_RUN_ID?", in->run_id);
}
