/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - judges the hosts of a job by what was found on them before the ranks start (--preflight): each by
 * itself, and compared with the others.
 *
 * Pure: what was found in, reasons out.
 */
#ifndef HVD_DRIVER_PREFLIGHT_H
#define HVD_DRIVER_PREFLIGHT_H

#include "host_table.h"

/* What a good host has at least. */
#define HVD_PREFLIGHT_SKEW    1.0                  /* seconds that its clock may differ from the driver's */
#define HVD_PREFLIGHT_TMP     (INT64_C(100) << 20) /* bytes free in /tmp */
#define HVD_PREFLIGHT_SHM     (INT64_C(64) << 20)  /* bytes free in /dev/shm */
#define HVD_PREFLIGHT_SECONDS 6.0 /* for nvidia-smi and the site's program together; they have half of it each */

/* By how many seconds the host's clock is ahead of the driver's, at least, behind it if negative; 0 = not known. */
double hvd_preflight_skew(const struct hvd_host_entry *host);

/* Why the host is a bad one among those that have come to stage `least`; NULL = it is not. `hint` (may be NULL): what
 * to do about it, a string constant. The caller frees the result. */
char *hvd_preflight_bad(const struct hvd_host_table *table, enum hvd_stage least, uint32_t host, const char **hint);

/* What was found, for --verbose: "/tmp 10 GiB free, …". The caller frees it. */
char *hvd_preflight_figures(const struct hvd_host_entry *host);

/* "9.4 Gbit/s", "95 Mbit/s" */
const char *hvd_preflight_rate(double mbps, char text[32]);
/* The median of what was measured (`rtt`: of the latencies, in µs) among hosts that have come to stage `least`; 0 =
 * nothing was. */
double hvd_preflight_median(const struct hvd_host_table *table, enum hvd_stage least, bool rtt);

#endif
