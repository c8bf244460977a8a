/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.h - checks host list expressions ("n[1-4],gpu07") before libslurm sees them.
 */
#ifndef HVD_HOSTLIST_H
#define HVD_HOSTLIST_H

#include "err.h"

#include <stddef.h>

/* HVD_E_PROTO for what is no expression (letters, digits, -, _, . and [ranges] in names), HVD_E_LIMIT for
 * what stands for more than max_hosts names; else 0 and *count names. Untrusted input is fine. */
int hvd_hostlist_check(const char *expr, size_t max_hosts, size_t *count, struct hvd_err *err);

#endif
