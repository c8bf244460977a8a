/* SPDX-License-Identifier: Apache-2.0 */
/*
 * this_host.h - the host that this process runs on: its names, which machine it is, and where other hosts reach it.
 *
 * Reads the kernel's tables; keeps no state. Any thread.
 */
#ifndef HVD_THIS_HOST_H
#define HVD_THIS_HOST_H

#include "lib/base/err.h"
#include "lib/protocol/boot.h"

#include <stdbool.h>
#include <stddef.h>

#define HVD_MACHINE_LEN 32 /* hex digits of a machine id */

struct hvd_this_host {
	char host[256];                            /* from gethostname(2) */
	char machine[HVD_MACHINE_LEN + 1];         /* hvd_machine_id() */
	struct hvd_addr addrs[HVD_BOOT_MAX_ADDRS]; /* addresses of better interfaces first, 127.0.0.1 last */
	size_t n_addrs;
};

/* Fill in *self. The addresses that the list `nics` wants come before the others (nicspec.h; NULL wants all). With
 * `loopback` 127.0.0.1 is the only address. After an error *self is undefined. */
int hvd_this_host_query(struct hvd_this_host *self, bool loopback, char *const *nics, struct hvd_err *err);

/* Write the machine id of this process. Two processes have the same id exactly when they run on one machine and in one
 * network namespace. So several slurmd on one machine count as one host, and containers with networks of their own
 * count as several. HVD_E_SYS if /proc cannot be read. */
int hvd_machine_id(char id[HVD_MACHINE_LEN + 1], struct hvd_err *err);

/* Are these two names of one host? They are when they are equal, or when one is the other's short name: "node1" and
 * "node1.example.org". */
bool hvd_same_host(const char *a, const char *b);

/* May `name` be a name of this host? Compares names only, and asks no name service: "node1.example.org" passes on any
 * node1. "localhost" and the loopback addresses pass everywhere. local_hosts.h makes the decision. */
bool hvd_like_this_host(const char *name);

#endif
