/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prolog.h - what the plugin tells hvd-task when that takes the place of the site's TaskProlog.
 */
#ifndef HVD_LIB_PROLOG_H
#define HVD_LIB_PROLOG_H

#define HVD_PROLOG_ENV       "SLURM_HVD_TASK_PROLOG" /* the site's program */
#define HVD_PROLOG_NAMES_ENV "SLURM_HVD_TASK_NAMES"  /* names of the plan's variables, with blanks between them */

#endif
