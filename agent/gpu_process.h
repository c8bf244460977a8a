/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_process.h - processes that use GPUs, and what each of them uses.
 */
#ifndef HVD_GPU_PROCESS_H
#define HVD_GPU_PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* A list has so many processes at most; further ones are left out. */
#define HVD_GPU_PROCESSES 2048

struct hvd_gpu_process {
	int32_t pid;
	int32_t used;   /* thousandths of a GPU since the last look, of all GPUs; -1 = not known */
	int64_t memory; /* bytes; -1 = not known */
};

/* Zeroed: empty. The caller frees `v`. */
struct hvd_gpu_processes {
	struct hvd_gpu_process *v;
	size_t n, room;
};

/* The process in the list; it is added if it is not there. NULL: the list is full, or `pid` is no process. The pointer is
 * valid until the next process is added. */
struct hvd_gpu_process *hvd_gpu_process_at(struct hvd_gpu_processes *list, int32_t pid);
/* Add to what the process uses; -1 adds nothing. */
void hvd_gpu_process_add(struct hvd_gpu_processes *list, int32_t pid, int32_t used, int64_t memory);

/* The sum of two values of which -1 means not known; of two such, -1. */
int64_t hvd_gpu_sum(int64_t a, int64_t b);

#endif
