/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.h - host list expressions ("n[1-4],gpu07"), as Slurm reads and writes them.
 *
 * libslurm does it where this was built with it (hostlist_slurm.c), without configuration or controller. It ends the
 * process for some expressions and makes any number of names for others, so each is looked at first. Without libslurm
 * hostlist_plain.c does it.
 */
#ifndef HVD_HOSTLIST_H
#define HVD_HOSTLIST_H

#include "err.h"
#include "strv.h"

#include <stddef.h>

/* HVD_E_PROTO for what is no expression (letters, digits, -, _, . and [ranges] in names), HVD_E_LIMIT for
 * what stands for more than max_hosts names; else 0 and *count names. Untrusted input is fine. */
int hvd_hostlist_check(const char *expr, size_t max_hosts, size_t *count, struct hvd_err *err);

/* "n[1-3],gpu07" → n1 n2 n3 gpu07, appended to *names in the order given, duplicates included.
 * More than max_hosts names (at most HVD_MAX_HOSTS), unbalanced brackets and empty expressions are
 * errors; *names is then as it was. Untrusted input is fine. */
int hvd_hostlist_expand(const char *expr, size_t max_hosts, struct hvd_strv *names, struct hvd_err *err);

/* The other way, for messages: n1 n2 n3 → "n[1-3]". Keeps the order. Without libslurm the names are
 * joined with commas. Never NULL; caller frees. */
char *hvd_hostlist_compress(char *const *names, size_t n);

#endif
