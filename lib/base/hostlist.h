/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.h - host list expressions such as "n[1-4],gpu07", as Slurm reads and writes them.
 *
 * An expression is a list of elements with commas between them. An element is a name that may have brackets anywhere
 * ("r[1-2]n[1-4]-ib"), each with numbers and ranges. A number has at least as many digits as the first number of its
 * range ("n[08-10]"). Names have letters, digits, '-', '_' and '.'.
 *
 * These functions do not use libslurm, because it ends the process for some expressions. tests/unit/lib/base/test_hostlist.c
 * compares their results with libslurm's.
 */
#ifndef HVD_HOSTLIST_H
#define HVD_HOSTLIST_H

#include "err.h"
#include "strv.h"

#include <stddef.h>

/* Append the names of an expression to *names in Slurm's order, duplicates included: "n[1-3],gpu07" gives n1 n2 n3
 * gpu07. Returns 0, or -1 with HVD_E_PROTO for what is malformed (an empty element too) and HVD_E_LIMIT for more than
 * max_hosts names (at most HVD_MAX_HOSTS); *names is then as it was. Untrusted input is fine. */
int hvd_hostlist_expand(const char *expr, size_t max_hosts, struct hvd_strv *names, struct hvd_err *err);

/* The reverse, for messages: n1 n2 n3 gives "n[1-3]". Keeps the order; neighbours that differ in their last numbers
 * share a bracket. Never NULL; the caller frees it. */
char *hvd_hostlist_compress(char *const *names, size_t n);

#endif
