/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare.h - what comes before a job: hvdrun chooses the backend, which prepares the processes, and checks what would fail
 * later, on other hosts or after a long wait in a queue.
 */
#ifndef HVD_PREPARE_H
#define HVD_PREPARE_H

#include "launcher/hosts/driver_opts.h"
#include "launcher/start/backend.h"

/* The backend that starts the ranks, or for an elastic job the node agents. NULL with err set. */
const struct hvd_backend *hvd_prepare_backend(struct hvd_launch *launch, struct hvd_err *err);

/* --output-filename: create the folder and its parents. The shims create the ranks' folders, on their hosts. */
int hvd_prepare_output_dir(const struct hvd_launch_spec *spec, struct hvd_err *err);

/* Have `backend` prepare the launch, and fill `opts`. What this asks of Slurm may take long. Returns 0, or the exit status if
 * the user was told why nothing can be started; -1 with err set. */
int hvd_prepare(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		struct hvd_err *err);

#endif
