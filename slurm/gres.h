/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gres.h - Slurm's texts of generic resources, as far as they tell of GPUs.
 */
#ifndef HVD_GRES_H
#define HVD_GRES_H

/* GPUs in a GRES text as Slurm writes it for a node ("gpu:a100:2(IDX:0-1),shard:3", "gres/gpu:tesla=2",
 * "gpu(IDX:3)"); 0 when there are none, -1 when it is malformed. Untrusted input is fine. */
int hvd_gres_gpus(const char *text);

#endif
