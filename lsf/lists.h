/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lists.h - reads LSF's lists of hosts, and what bjobs prints.
 *
 * The lists are of job slots: the result adds up the slots of a host from all of its places in the list. On success the
 * caller clears *out; after an error it is empty. Untrusted input is fine.
 */
#ifndef HVD_LSF_LISTS_H
#define HVD_LSF_LISTS_H

#include "lib/base/err.h"
#include "lib/host/alloc.h"
#include "lsf.h"

#include <stddef.h>

/* LSB_MCPU_HOSTS: "host slots host slots ". */
int hvd_lsf_parse_mcpu(struct hvd_alloc *out, const char *text, struct hvd_err *err);
/* LSB_HOSTS, and the text of LSB_DJOB_HOSTFILE: one name for each slot, with blanks or newlines between them. */
int hvd_lsf_parse_names(struct hvd_alloc *out, const char *text, size_t len, struct hvd_err *err);

/* The text of LSB_AFFINITY_HOSTFILE: one line for each task, "host cpu,cpu-cpu,… [memory policy …]", with the kernel's
 * CPU ids. Fills facts[i].cpus for host i of `a`; lines about other hosts, such as a launch node, are skipped. After an
 * error all `cpus` are empty. */
int hvd_lsf_parse_affinity(struct hvd_lsf_host *facts, const struct hvd_alloc *a, const char *text, size_t len,
			   struct hvd_err *err);

/* Read "H:M", with LSF's letter behind it, as bjobs -o time_left prints it: seconds, or -1 for a job without a limit and
 * for any other text. */
double hvd_lsf_time_left(const char *text);

#endif
