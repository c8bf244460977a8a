/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prolog.h - hvd-agent in place of the site's TaskProlog, for tasks of srun --hvd (spank/prolog.c tells why).
 *
 * Slurm runs it after the plugin has set the plan's variables in the task, and sets what it prints as
 * "export NAME=value" in the task too.
 */
#ifndef HVD_PROLOG_H
#define HVD_PROLOG_H

#include "lib/base/log.h"

/* Run `program`, the site's TaskProlog, with this process's output. Then print the plan's variables once more, with the
 * values that they have in this process's environment, so that they win over what `program` has printed; but not those
 * that name interfaces: there the site may know better. Returns the exit status of `program`. */
int hvd_prolog_run(const char *program, const struct hvd_log *log);

#endif
