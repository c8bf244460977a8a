/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_drm.h - what processes use of GPUs whose drivers are the kernel's, as AMD's and Intel's: the DRM clients among their
 * open files, as /proc/PID/fdinfo describes them (the kernel's documentation: gpu/drm-usage-stats).
 */
#ifndef HVD_GPU_DRM_H
#define HVD_GPU_DRM_H

#include "gpu_process.h"
#include "lib/base/deadline.h"

#include <stddef.h>
#include <stdint.h>

#define HVD_DRM_ENGINES 16 /* of a client; further ones do not count */

/* A part of a GPU that works by itself, such as that for computing. */
struct hvd_drm_engine {
	char name[24];
	int64_t ns;            /* that it has worked for the client; -1 = the driver counts cycles */
	int64_t cycles, total; /* that it has worked for the client, and that have passed; -1 = not known */
	int64_t capacity;      /* how many such engines there are */
};

struct hvd_drm_client {
	char device[32]; /* the GPU's address on its bus; may be empty */
	int64_t id;
	int64_t memory; /* bytes of the GPU's own memory; -1 = not known, or it has none */
	size_t n;
	struct hvd_drm_engine engines[HVD_DRM_ENGINES];
};

/* Read the text of an fdinfo file. -1: that file is no DRM client, or its driver counts nothing. Untrusted input is
 * fine. */
int hvd_drm_parse(const char *text, struct hvd_drm_client *client);

/* Thousandths of the GPU that the client has used in these nanoseconds: those of its busiest engine. -1 = not known. */
int32_t hvd_drm_used(const struct hvd_drm_client *last, const struct hvd_drm_client *now, int64_t ns);

/* The clients of the last look. */
struct hvd_drm;

/* `root` is "", or a folder for tests with proc below it. */
struct hvd_drm *hvd_drm_create(const char *root);
void hvd_drm_destroy(struct hvd_drm *drm); /* NULL is fine */

/* Look at these processes, whose order may change, and add what they use. A process without a client is looked at ever
 * more rarely. The use of a client that is new is not known. */
void hvd_drm_look(struct hvd_drm *drm, int32_t *pids, size_t n, struct hvd_gpu_processes *found);

#endif
