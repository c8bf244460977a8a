/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emitted.h - the names of all variables that emit.c may set.
 *
 * The SPANK plugin needs the names before there is a plan. A container's image may set some of these variables, and a
 * container plugin keeps the host's values only if it knows the names beforehand. Tunables from a configuration file
 * are not in the list.
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_EMITTED_H
#define HVD_EMITTED_H

#include <stdbool.h>

struct hvd_emitted {
	const char *name;
	bool iface;  /* the value names network interfaces, so it is wrong in another network namespace */
	bool yields; /* it is not set when user or site have set it (lib/host/user_ifname.h) */
	bool keeps;  /* a value that the rank's environment has is kept: the plan has the name with a "?" (emit.h) */
	bool store;  /* it locates PyTorch's store: all of these are set, or none (resolve.h) */
	bool slurm;  /* srun sets it for its tasks, and a launch within a rank reads it as one within a task does */
};

/* Ends with an entry whose name is NULL. */
extern const struct hvd_emitted hvd_emitted[];

/* Does what a rank gets depend on this entry (NAME=VALUE) of the environment that it would have without the launch? So
 * it is for all names above, since what user or site have set may win, and for some others that decide, as those that
 * tell which GPUs it sees, and which PyTorch it finds. */
bool hvd_emitted_reads(const char *entry);

/* The entry of the variable with this name; for other names one whose flags are all false. */
const struct hvd_emitted *hvd_emitted_flags(const char *name);

#endif
