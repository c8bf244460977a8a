/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_look.h - the process that looks at what processes use of GPUs, for gpu_usage.h: hvd-agent gpus.
 *
 * Its standard input is a socket of packets (SOCK_SEQPACKET). A question is a number and so many process ids; these
 * processes are searched for DRM clients. NVIDIA's driver and AMD's for ROCm list the processes that use their GPUs. The
 * answer is a struct hvd_gpu_answer with its processes. The process ends with the socket, or if there is no driver that
 * counts anything.
 */
#ifndef HVD_GPU_LOOK_H
#define HVD_GPU_LOOK_H

#include "gpu_process.h"
#include "lib/base/log.h"

#include <stdbool.h>
#include <stdint.h>

#define HVD_GPU_PIDS 4096 /* of a question */

struct hvd_gpu_question {
	uint32_t n;
	int32_t pids[HVD_GPU_PIDS]; /* only n are sent */
};

struct hvd_gpu_answer {
	uint64_t n;
	struct hvd_gpu_process processes[HVD_GPU_PROCESSES]; /* only n are sent */
};

/* Has this host a GPU, as far as its device nodes show? `root` as in gpu_usage.h. */
bool hvd_gpu_look_has_gpus(const char *root);

/* Answer questions until there are no more. Returns the exit status. */
int hvd_gpu_look_run(const char *root, const struct hvd_log *log);

#endif
