/* SPDX-License-Identifier: Apache-2.0 */
/* shared_hosts.h - asks Slurm whether other users may have processes on a job's hosts. */
#ifndef HVD_SHARED_HOSTS_H
#define HVD_SHARED_HOSTS_H

#include "launcher/driver/driver_opts.h"
#include "lib/base/log.h"

#include <stdint.h>

/* Set opts->hosts_own for the job with this number. Where that would decide nothing Slurm is not asked. A process of
 * its own asks, for so many seconds at most: a controller that does not answer must not hold up the launch. Without an
 * answer the hosts count as shared, and verbose says why. */
void hvd_shared_hosts_ask(uint32_t job, double seconds, struct hvd_driver_opts *opts, const struct hvd_log *log);

#endif
