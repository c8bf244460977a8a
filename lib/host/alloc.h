/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.h - an allocation: the hosts and slots that a launch may use, in order.
 *
 * The scheduler grants it (slurm/alloc_slurm.h, lsf/lsf.h), or the user writes it down. Every host is in it once: if a
 * text names a host several times (`-H a:2,b:2,a:1`, a hostfile, an arbitrary distribution), its slots are added up
 * where it is named first. (horovodrun keeps both entries, and then gives two ranks the same local rank.)
 *
 * Texts and files are untrusted input. Nothing here reads the environment of the process.
 */
#ifndef HVD_ALLOC_H
#define HVD_ALLOC_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hvd_alloc_host {
	char *name; /* a host name or an address; an IPv6 address has no brackets */
	int slots;
	uint32_t slurm_job; /* which Slurm job has the host, if hosts of several jobs are used; else 0 */
	int component;      /* which component of a heterogeneous Slurm job has it, from 1; 0: the job is no such one */
};

/* A zeroed struct is an empty allocation. */
struct hvd_alloc {
	struct hvd_alloc_host *hosts; /* owned, with their names */
	int n_hosts;
	int slots;       /* of all hosts */
	char source[96]; /* where hosts and slots come from, for messages: "Slurm job 12: SLURM_NTASKS_PER_NODE" */
};

void hvd_alloc_clear(struct hvd_alloc *a); /* leaves an empty allocation; NULL is fine */

/* Append a host. Refuses a name that is neither a host name nor an address, more than HVD_MAX_HOSTS hosts, and more
 * than HVD_MAX_RANKS slots in all; after an error *a is as it was. */
int hvd_alloc_add(struct hvd_alloc *a, const char *name, int slots, struct hvd_err *err);
/* The same with a copy of a host of another allocation. */
int hvd_alloc_append(struct hvd_alloc *a, const struct hvd_alloc_host *host, struct hvd_err *err);
/* Add up the slots of hosts that were appended several times; the order is that in which they were first appended. */
void hvd_alloc_merge(struct hvd_alloc *a);
/* Make `to`, which is empty, a copy of `from`. */
void hvd_alloc_copy(const struct hvd_alloc *from, struct hvd_alloc *to);

/* The functions hvd_alloc_from_…() and hvd_alloc_parse_hostfile() overwrite *out, which is empty after an error. A host
 * without a number of slots gets default_slots, or 1 if default_slots is 0. */

/* From a list as after -H: "h:4,h2:2,[fd00::1]:2". */
int hvd_alloc_from_hosts(struct hvd_alloc *out, const char *text, int default_slots, struct hvd_err *err);

/* From a hostfile. A line is "h slots=4", "h:4" or "h"; "#" begins a comment, blank lines are skipped, and Open MPI's
 * "max_slots=" is accepted and ignored. Errors name file and line. */
int hvd_alloc_from_hostfile(struct hvd_alloc *out, const char *path, int default_slots, struct hvd_err *err);
/* The same for the text of a hostfile; `path` is for messages only. */
int hvd_alloc_parse_hostfile(struct hvd_alloc *out, const char *text, size_t len, const char *path, int default_slots,
			     struct hvd_err *err);

/* From this machine, as "localhost" with that many slots. */
int hvd_alloc_from_local(struct hvd_alloc *out, int slots, struct hvd_err *err);

/* Read one "host[:slots]", as in a list after -H and in the output of a discovery script. A host without a number gets
 * default_slots; 0 slots are no error. The caller frees *name, which is NULL after an error. */
int hvd_alloc_parse_host(const char *text, size_t len, int default_slots, char **name, int *slots, struct hvd_err *err);

/* Make *out the first np slots of `a`, in order, without the hosts that have none of these; np of 0 takes all slots.
 * HVD_E_USAGE if `a` has fewer, with a table of hosts and slots in the message; *out is then empty. */
int hvd_alloc_take(const struct hvd_alloc *a, int np, struct hvd_alloc *out, struct hvd_err *err);

/* Have they the same hosts in the same order, with the same slots and jobs? */
bool hvd_alloc_same(const struct hvd_alloc *a, const struct hvd_alloc *b);

/* The index of the host of that name; -1 if there is none. */
int hvd_alloc_find(const struct hvd_alloc *a, const char *name);

/* The same for each host of `names`, of which the caller frees the list. */
int *hvd_alloc_find_all(const struct hvd_alloc *a, const struct hvd_alloc *names);

/* A table of hosts and slots for messages, with a line for each of the first max_hosts hosts (0: all), and no newline
 * behind the last. The caller frees it. */
char *hvd_alloc_table(const struct hvd_alloc *a, int max_hosts);

#endif
