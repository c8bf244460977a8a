/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scontrol.h - the output of scontrol: the configuration, nodes, the GPUs and the steps of a job. All parsers here take
 * untrusted input.
 */
#ifndef HVD_SCONTROL_H
#define HVD_SCONTROL_H

#include "slurm.h"

#include <sys/types.h>

/* Fill *site from the output of `scontrol show config`, lines of "Key = value". A key that is missing, or has a
 * malformed value, counts as not set. */
void hvd_scontrol_config_parse(const char *text, struct hvd_slurm_site *site);

/* The GraceTime of a partition in seconds, from `scontrol show partition NAME`; 0 if there is none. */
int hvd_scontrol_grace(const char *text);

/* From `scontrol --oneliner show step JOB`: "7.0 (bash on hvdn1), 7.1 (…)", the steps that srun has started. NULL if
 * there is none, or if one is that of the srun with this process id. The caller frees it. */
char *hvd_scontrol_steps(const char *text, pid_t srun);

/* From the same: the hosts where these srun run, each once. */
void hvd_scontrol_srun_hosts(const char *text, struct hvd_strv *hosts);

/* From `scontrol --details show job JOB`: the GPUs of each of `hosts`, which are those of the job. `name` is that of the
 * job: it comes first in the text, and may hold lines that look like those of hosts. NULL if the text does not have
 * this name, and behind it each host once. The caller frees it. */
int *hvd_scontrol_gpus(const char *text, const char *name, const struct hvd_strv *hosts);

/* Append to *unusable those nodes in the output of `scontrol show node` on which nothing should be started. */
void hvd_scontrol_unusable(const char *text, struct hvd_strv *unusable);

/* From `scontrol show node`, of all nodes: the number of other nodes on which, as far as their records tell, the same
 * can run as on `name`, which can be used and answer, and are not among `excluded`. -1: there is no record of the node.
 */
long hvd_scontrol_nodes_like(const char *text, const char *name, const struct hvd_strv *excluded);

#endif
