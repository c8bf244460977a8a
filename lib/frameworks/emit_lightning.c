/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_lightning.c - which of Lightning's cluster environments it chooses (lightning_fabric/connector.py): that of
 * torchrun where TORCHELASTIC_RUN_ID is set, else that of Slurm, LSF or MPI by their variables.
 *
 * torchrun's is right wherever others' variables are not the rank's own (hvd_resolve() knows), and where all ranks are
 * started anew after a failure. Elsewhere Slurm's is better: it requeues jobs.
 */
#include "emitters.h"

void hvd_emit_lightning(const struct hvd_emit *in, struct hvd_strv *env)
{
	hvd_env_set(env, in->max_restarts >= 0 ? "TORCHELASTIC_RUN_ID" : "TORCHELASTIC_RUN_ID?", in->run_id);
}
