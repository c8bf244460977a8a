/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.h - an allocation: the hosts and slots that a launch may use, in order.
 *
 * It comes from the scheduler or from the user. Every host is named once: what
 * names a host twice (`-H a:2,b:2,a:1`, a hostfile, an arbitrary distribution)
 * adds up on the first mention. (horovodrun lets both entries stand, and then
 * gives two ranks the same local rank.)
 *
 * Texts and files are untrusted input. Nothing here reads the environment of
 * the process: it is passed in.
 */
#ifndef HVD_ALLOC_H
#define HVD_ALLOC_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct hvd_alloc_host {
	char *name; /* an IPv6 literal has no brackets */
	int slots;
	uint32_t slurm_job; /* the Slurm job that has it, where hosts of several jobs are used; 0 = ours, or none */
};

/* A zeroed struct is an empty allocation. */
struct hvd_alloc {
	struct hvd_alloc_host *hosts;
	int n_hosts;
	int slots;       /* of all hosts */
	char source[96]; /* where hosts and slots come from, for messages: "job 12: SLURM_NTASKS_PER_NODE" */
};

void hvd_alloc_clear(struct hvd_alloc *a); /* leaves an empty allocation; NULL is fine */

/* Building one by hand: append hosts, then merge those named twice (stable). add refuses names that
 * are neither a host name nor an address, more than HVD_MAX_HOSTS hosts and more than HVD_MAX_RANKS slots. */
int hvd_alloc_add(struct hvd_alloc *a, const char *name, int slots, struct hvd_err *err);
void hvd_alloc_merge(struct hvd_alloc *a);
/* Make an empty allocation a copy of another one, with the Slurm job of each host. */
void hvd_alloc_copy(const struct hvd_alloc *from, struct hvd_alloc *to);

/* All from_… functions: after an error *out is empty. */

/* `-H h:4,h2:2,[fd00::1]:2`. A host without a number gets default_slots (0 = 1). */
int hvd_alloc_from_hosts(struct hvd_alloc *out, const char *text, int default_slots, struct hvd_err *err);

/* A hostfile: `h slots=4` a line, also `h:4` and `h`; `#` starts a comment, blank lines are skipped,
 * `max_slots=` as Open MPI has it is accepted and not used. Errors name file and line. */
int hvd_alloc_from_hostfile(struct hvd_alloc *out, const char *path, int default_slots, struct hvd_err *err);
/* The same on text that has been read already; `path` is for messages only. */
int hvd_alloc_parse_hostfile(struct hvd_alloc *out, const char *text, size_t len, const char *path, int default_slots,
			     struct hvd_err *err);

/* One `host[:slots]`, as in -H and as a discovery script prints it; slots of 0 are passed on, a host
 * without a number gets default_slots. The name is the caller's to free; NULL after an error. */
int hvd_alloc_parse_host(const char *text, size_t len, int default_slots, char **name, int *slots, struct hvd_err *err);

/* This machine as "localhost", with that many slots. */
int hvd_alloc_from_local(struct hvd_alloc *out, int slots, struct hvd_err *err);

/* The first np slots of `a`, in order, as an allocation of its own: hosts that get none are left out.
 * np of 0 takes all. np beyond the slots is HVD_E_USAGE, with the table of hosts and slots in the message. */
int hvd_alloc_take(const struct hvd_alloc *a, int np, struct hvd_alloc *out, struct hvd_err *err);

/* Index of the host of that name, -1 if there is none. */
int hvd_alloc_find(const struct hvd_alloc *a, const char *name);

/* Hosts and slots, one host a line, at most max_hosts of them (0 = all). Caller frees. */
char *hvd_alloc_table(const struct hvd_alloc *a, int max_hosts);

#endif
