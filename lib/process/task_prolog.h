/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_prolog.h - what the plugin (spank/prolog.c) tells hvd-agent (agent/prolog.c) in a task's environment, when
 * hvd-agent runs in place of the site's TaskProlog.
 */
#ifndef HVD_TASK_PROLOG_H
#define HVD_TASK_PROLOG_H

#define HVD_PROLOG_ENV       "SLURM_HVD_TASK_PROLOG" /* the site's program */
#define HVD_PROLOG_NAMES_ENV "SLURM_HVD_TASK_NAMES"  /* names of the plan's variables, separated by blanks */

#endif
