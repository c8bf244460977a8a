/* SPDX-License-Identifier: Apache-2.0 */
/* shared_hosts.h - asks Slurm whether other users may have processes on a job's hosts. */
#ifndef HVD_SHARED_HOSTS_H
#define HVD_SHARED_HOSTS_H

#include "launcher/driver/driver_opts.h"
#include "lib/base/log.h"

#include <stdint.h>

/* Does no other job's process run on the hosts of the job with this number? A process of its own asks, for so many
 * seconds at most: a controller that does not answer must not hold up the launch. Without an answer the hosts count as
 * shared, and verbose says why. */
bool hvd_shared_hosts_own(uint32_t job, double seconds, const struct hvd_log *log);

/* Set opts->hosts_own, if that decides anything. */
void hvd_shared_hosts_ask(uint32_t job, double seconds, struct hvd_driver_opts *opts, const struct hvd_log *log);

#endif
