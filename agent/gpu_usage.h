/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_usage.h - what processes of this host use of GPUs: their time and their memory.
 *
 * A process of its own looks (gpu_look.h), because a driver that hangs keeps everybody who asks it. It is started by the
 * first look, stays, and ends with this one. If it does not answer in time it is killed, and nothing is known any
 * more. It is started again after a minute at the earliest, then ever more rarely, and never before the killed one has
 * ended. So a hanging driver keeps one process at most.
 */
#ifndef HVD_GPU_USAGE_H
#define HVD_GPU_USAGE_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How long an answer may take: a driver's first may have to wake the GPUs one by one. */
#define HVD_GPU_USAGE_SECONDS 30.0

struct hvd_gpu_usage;

/* Returns NULL if this host has no GPU of NVIDIA, AMD or Intel. The functions below accept that, know nothing then, and
 * cost nothing. `root` is "", or a folder for tests, with dev, proc and sys below it. An answer has so many `seconds`. */
struct hvd_gpu_usage *hvd_gpu_usage_create(struct event_base *base, const char *root, double seconds);
void hvd_gpu_usage_destroy(struct hvd_gpu_usage *gpu); /* before the event base ends */

/* Begin a look at these processes, some of which may have ended. Does not wait for it: the event loop reads the answer,
 * usually some milliseconds later. Does nothing while a look is under way. */
void hvd_gpu_usage_look(struct hvd_gpu_usage *gpu, const pid_t *pids, size_t n);

/* The process that looks, a child of this one, also after it was given up; 0: there is none. */
pid_t hvd_gpu_usage_pid(const struct hvd_gpu_usage *gpu);

/* Add what the last look has found of a process: to *used the thousandths of a GPU that it used since the look before, and
 * to *memory the bytes. Both are sums that begin as -1, which means not known; they stay so while nothing is known, as for
 * a process without a GPU, and with NVIDIA's MIG. If a driver does not count the time of each process, the time of a GPU
 * that only one process uses counts as its. */
void hvd_gpu_usage_add(const struct hvd_gpu_usage *gpu, pid_t pid, int64_t *used, int64_t *memory);

#endif
