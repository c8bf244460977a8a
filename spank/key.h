/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.h - the launch's key from srun to its tasks where Slurm does not use munge.
 */
#ifndef HVD_SPANK_KEY_H
#define HVD_SPANK_KEY_H

#include "plugin.h"

/* In srun: is this a cluster without munge, where the launch needs a key of its own? */
bool hvd_launch_key_wanted(void);

/* In slurmstepd, among the options: take the key from the launch message into hvd_plugin.launch_key. */
int hvd_launch_key_expect(spank_t sp);

/* In srun, in local_user_init: make a key and put it into the launch message. Returns a close-on-exec descriptor with
 * its bytes for the driver, the caller's to close; -1 with err set, e.g. when this Slurm has no place for it. */
int hvd_launch_key_send(spank_t sp, struct hvd_err *err);

/* In a task: the same for the shim. -1 with err set when no key came. */
int hvd_launch_key_take(const struct hvd_plugin *pl, struct hvd_err *err);

#endif
