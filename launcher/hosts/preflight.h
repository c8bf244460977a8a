/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - judges the hosts of a job by the checks of --preflight: each by itself, and compared with the others.
 *
 * Pure: results of checks in, reasons out.
 */
#ifndef HVD_DRIVER_PREFLIGHT_H
#define HVD_DRIVER_PREFLIGHT_H

#include "host_table.h"
#include "launcher/options/launch_spec.h"

/* Limits for a good host, and of the time. */
#define HVD_PREFLIGHT_TMP     (INT64_C(100) << 20) /* bytes free in /tmp */
#define HVD_PREFLIGHT_SHM     (INT64_C(64) << 20)  /* bytes free in /dev/shm */
#define HVD_PREFLIGHT_SECONDS 6.0 /* for nvidia-smi and the site's program together; with both, half of it each */

/* The order to check a host, for at most so many milliseconds: {"ms":N, "hook":PATH}. A new reference. */
json_t *hvd_preflight_order(const struct hvd_launch_spec *spec, int most_ms);

/* Why the host is a bad one among those that have reported; NULL = it is not bad. `hint` (may be NULL)
 * gets the remedy, a string constant. The caller frees the result. */
char *hvd_preflight_bad(const struct hvd_host_table *table, uint32_t host, const char **hint);

/* Why a host is bad that was checked again; `first` is what was found at first. It is not compared with others, which may
 * be thousands. As above. */
char *hvd_preflight_worse(const struct hvd_host_entry *host, const struct hvd_host_check *first, const char **hint);

/* The results for --verbose: "/tmp 10 GiB free, …". The caller frees them. */
char *hvd_preflight_figures(const struct hvd_host_entry *host);

/* The median of the measured rates among hosts that have reported; 0 = nothing was measured. */
double hvd_preflight_median(const struct hvd_host_table *table);

#endif
