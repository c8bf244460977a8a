/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lists.h - LSF's lists of hosts, read.
 *
 * Each is of job slots: in the result a host has as many slots as the list
 * gives it, wherever in the list. After an error *out is empty.
 */
#ifndef HVD_LSF_LISTS_H
#define HVD_LSF_LISTS_H

#include "lib/base/err.h"
#include "lib/job/alloc.h"
#include "lsf.h"

#include <stddef.h>

/* LSB_MCPU_HOSTS: "host slots host slots ". */
int hvd_lsf_parse_mcpu(struct hvd_alloc *out, const char *text, struct hvd_err *err);
/* LSB_HOSTS, and the lines of LSB_DJOB_HOSTFILE: a name per slot, blanks of any kind between. */
int hvd_lsf_parse_names(struct hvd_alloc *out, const char *text, size_t len, struct hvd_err *err);

/* LSB_AFFINITY_HOSTFILE: a line per task, "host cpu,cpu-cpu,… [memory policy …]", CPU ids of the kernel. Fills the
 * `cpus` of facts[i] for host i of `a`; other hosts (a launch node) are passed over. An empty text fills nothing. After
 * an error all of them are empty. */
int hvd_lsf_parse_affinity(struct hvd_lsf_host *facts, const struct hvd_alloc *a, const char *text, size_t len,
			   struct hvd_err *err);

#endif
