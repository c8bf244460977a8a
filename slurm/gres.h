/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gres.h - the GPUs in Slurm's texts of generic resources (GRES).
 */
#ifndef HVD_GRES_H
#define HVD_GRES_H

/* The number of GPUs in a text as Slurm writes it for a node: "gpu:a100:2(IDX:0-1),shard:3", "gres/gpu:tesla=2",
 * "gpu(IDX:3)". 0 if it has none, -1 if it is malformed. Untrusted input is fine. */
int hvd_gres_gpus(const char *text);

#endif
