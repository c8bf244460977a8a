/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_nvml.h - what processes use of NVIDIA's GPUs, by NVIDIA's library NVML.
 *
 * Every function may hang with the driver, so this is for a process of its own (gpu_look.h).
 */
#ifndef HVD_GPU_NVML_H
#define HVD_GPU_NVML_H

#include "gpu_process.h"
#include "lib/base/err.h"

#define HVD_NVML_SONAME "libnvidia-ml.so.1"

struct hvd_nvml;

/* Load the library, which is part of the driver and not linked, and begin. NULL with err set: this machine has none that
 * answers. */
struct hvd_nvml *hvd_nvml_open(const char *soname, struct hvd_err *err);
void hvd_nvml_close(struct hvd_nvml *nvml); /* NULL is fine */

/* Add all processes that compute on GPUs. A figure that the driver does not have is not known: with MIG, the time of each
 * process. */
void hvd_nvml_look(struct hvd_nvml *nvml, struct hvd_gpu_processes *found);

#endif
