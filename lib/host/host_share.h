/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_share.h - the part of a host's CPUs and GPUs that a world (launcher/world/world.h) has there, where several share
 * the host.
 *
 * CPUs are the processing units that the host's agent may use, numbered from 0 in hwloc's logical order. So neighbours in
 * a share are the threads of a core, then the cores of a NUMA domain. --cpus-per-task counts the same units.
 *
 * GPUs are numbered from 0 in the order of CUDA_VISIBLE_DEVICES or another such list, else of the devices (gpu.h).
 */
#ifndef HVD_HOST_SHARE_H
#define HVD_HOST_SHARE_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>

struct hvd_share {
	int first;
	int n; /* -1: all from `first` on */
};

struct hvd_host_share {
	struct hvd_share cpus, gpus;
};

#define HVD_SHARE_ALL  ((struct hvd_share){0, -1})
#define HVD_WHOLE_HOST ((struct hvd_host_share){{0, -1}, {0, -1}})

static inline bool hvd_share_is_all(const struct hvd_share *share)
{
	return share->first == 0 && share->n < 0;
}

/* Add "cpus":[FIRST,N] and "gpus":[FIRST,N] to a message, each unless the share is all of the host's. */
void hvd_host_share_add(json_t *msg, const struct hvd_host_share *share);
/* Read them; what is missing is all of the host's. -1 with err set (HVD_E_PROTO); *share is then the whole host. Untrusted
 * input is fine. */
int hvd_host_share_parse(const json_t *msg, struct hvd_host_share *share, struct hvd_err *err);

#endif
