/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prolog.h - hvd-agent in place of the site's TaskProlog, for tasks of srun --hvd (spank/prolog.c explains why).
 *
 * Slurm runs it after the plugin has set the plan's variables in the task. Slurm also sets in the task each "export
 * NAME=value" that it prints.
 */
#ifndef HVD_PROLOG_H
#define HVD_PROLOG_H

#include "lib/base/log.h"

/* Run `program`, the site's TaskProlog, with this process's output. Then print the plan's variables again, with their
 * values of this process's environment, so that they win over the output of `program`. Variables that name interfaces
 * are an exception: there the site may know better. Returns the exit status of `program`. */
int hvd_prolog_run(const char *program, const struct hvd_log *log);

#endif
