/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prolog.h - in place of the site's TaskProlog, for tasks of srun --hvd (spank/prolog.c).
 *
 * Slurm sets what a TaskProlog prints as "export NAME=value" in the task, after the plugin has set the launch plan.
 */
#ifndef HVD_PROLOG_H
#define HVD_PROLOG_H

#include "lib/base/log.h"

/* Run `program` with this process's output; then print the launch's facts once more: those variables of the plan that
 * this environment has, but for names of interfaces, on which the site may know better. Returns the program's exit
 * status. */
int hvd_prolog_run(const char *program, const struct hvd_log *log);

#endif
