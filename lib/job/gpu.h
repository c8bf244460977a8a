/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - how many GPUs the ranks of this machine can use.
 *
 * hwloc is not asked, because it would load the vendors' libraries, which takes seconds.
 */
#ifndef HVD_GPU_H
#define HVD_GPU_H

/* As many GPUs as the first of CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES in envp lists.
 * Without such a list, as many as there are device nodes <root>/dev/nvidia0 …; if there are none of these, as many as
 * there are GPUs in <root>/sys/class/kfd/kfd/topology/nodes. `root` is "", or a directory for tests; envp may be
 * NULL. */
int hvd_gpu_count(const char *root, char *const *envp);

/* How many GPUs the first of these variables lists: 0 for an empty list, -1 without a list. */
int hvd_gpu_visible(char *const *envp);

#endif
