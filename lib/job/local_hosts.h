/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_hosts.h - which of a job's hosts are this one, by whatever name or address they are listed. What was found is
 * kept, so that each name is looked up once.
 *
 * These are this host: its own name, localhost, every address of its interfaces, the loopback addresses, and a name all
 * of whose addresses are among these. A name without any address, or whose name server does not answer in time, is this
 * host only if it is the short form of this host's own name. To take a host for another one costs an ssh to it; to take
 * another one for this host would start its ranks in the wrong place.
 */
#ifndef HVD_LOCAL_HOSTS_H
#define HVD_LOCAL_HOSTS_H

#include "alloc.h"

#include <stdbool.h>

/* How long name servers are waited for, each time that new names are looked up. */
#define HVD_LOCAL_HOSTS_SECONDS 2.0

struct hvd_local_hosts;

struct hvd_local_hosts *hvd_local_hosts_create(void);
void hvd_local_hosts_destroy(struct hvd_local_hosts *lh); /* NULL is fine */

/* Look up all of these at once, but for those that were looked up before. */
void hvd_local_hosts_find(struct hvd_local_hosts *lh, const struct hvd_alloc *hosts);
/* Is it this host? Looks it up, if that was not done. */
bool hvd_local_hosts_has(struct hvd_local_hosts *lh, const char *name);

#endif
