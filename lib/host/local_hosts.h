/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_hosts.h - which of a job's hosts are this host, by whatever name or address they are listed. Results are kept,
 * so that each name is looked up once.
 *
 * This host's names are: its own name, localhost, every address of its interfaces, the loopback addresses, and a name
 * whose addresses are all among these. A name without any address, or whose name server does not answer in time, is
 * this host only if it is the short form of this host's own name. The two possible mistakes differ: taking this host
 * for another one costs an ssh to it, but taking another host for this one would start its ranks in the wrong place.
 */
#ifndef HVD_LOCAL_HOSTS_H
#define HVD_LOCAL_HOSTS_H

#include "alloc.h"

#include <stdbool.h>

struct hvd_local_hosts;

struct hvd_local_hosts *hvd_local_hosts_create(void);
void hvd_local_hosts_destroy(struct hvd_local_hosts *lh); /* NULL is fine */

/* Look up all of these at once, except those that were looked up before. */
void hvd_local_hosts_find(struct hvd_local_hosts *lh, const struct hvd_alloc *hosts);
/* Is it this host? Looks the name up if necessary. */
bool hvd_local_hosts_has(struct hvd_local_hosts *lh, const char *name);

#endif
