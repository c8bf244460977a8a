/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_kfd.h - what processes use of AMD's GPUs by way of ROCm, as the kernel's driver amdkfd has it in sysfs.
 */
#ifndef HVD_GPU_KFD_H
#define HVD_GPU_KFD_H

#include "gpu_process.h"

/* Add what processes of all users use, unless DRM clients (gpu_drm.h), which are in the list already, have more: amdgpu
 * counts the memory there, too, but not the work that ROCm hands to the GPU. The driver does not count the time of each
 * process. The time of a GPU that one process uses is its; otherwise it is not known. `root` is "", or a folder for tests
 * with sys below it. */
void hvd_kfd_look(const char *root, struct hvd_gpu_processes *found);

#endif
