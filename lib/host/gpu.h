/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - how many GPUs the ranks of this machine can use.
 *
 * The count does not use hwloc, because hwloc would load the vendors' libraries, which takes seconds.
 */
#ifndef HVD_GPU_H
#define HVD_GPU_H

#include "host_share.h"
#include "lib/base/err.h"

#include <stdbool.h>

/* Counts the GPUs in the first of CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES that envp lists.
 * Without such a list, counts the device nodes <root>/dev/nvidia0 …; without these, the GPUs in
 * <root>/sys/class/kfd/kfd/topology/nodes. `root` is "", or a directory for tests; envp may be NULL. */
int hvd_gpu_count(const char *root, char *const *envp);

/* How many GPUs the first of these variables lists: 0 for an empty list, -1 without a list. */
int hvd_gpu_visible(char *const *envp);

/* Which GPUs a process sees that has this share of the host's: *name is the variable that lists them, in the caller's
 * envp the one that is set, and *list its value, which the caller frees; NULL: nothing is to be set. HVD_E_USAGE if the
 * host does not have so many. `root` and envp as for hvd_gpu_count(). */
int hvd_gpu_share(const char *root, char *const *envp, const struct hvd_share *share, const char **name, char **list,
		  struct hvd_err *err);

/* Is the first of them an instance of MIG? CUDA shows a process only that one, however many are listed. */
bool hvd_gpu_mig(char *const *envp);

/* The sum of the numbers in a request to Slurm like "4", "a100:4" or "a100:2,v100:1"; -1 if it is malformed or claims
 * too many. Untrusted input is fine. */
int hvd_gpu_asked(const char *text);

#endif
