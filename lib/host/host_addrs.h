/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_addrs.h - looks up the addresses of many hosts at once, in bounded time.
 *
 * glibc's resolver has no limit of its own: if name servers drop queries, each name takes 10 s by default. So a child
 * process looks up all names side by side, and ends when the time is over.
 */
#ifndef HVD_HOST_ADDRS_H
#define HVD_HOST_ADDRS_H

#include "lib/net/addr.h"

#include <stddef.h>

#define HVD_HOST_ADDRS_MAX     16  /* of one host; further addresses are ignored */
#define HVD_HOST_ADDRS_SECONDS 2.0 /* how long a look-up waits for name servers */

/* A zeroed struct is a host whose name has no address, or none that a name server returned in time. */
struct hvd_host_addrs {
	struct hvd_addr v[HVD_HOST_ADDRS_MAX];
	size_t n;
};

/* The addresses of each of n names, in their order. A name that is a literal address has that address. Caller
 * frees. */
struct hvd_host_addrs *hvd_host_addrs_find(const char *const *names, size_t n);

#endif
