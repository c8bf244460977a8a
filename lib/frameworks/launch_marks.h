/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_marks.h - which variables of a process's environment a launch has set: HVD_LAUNCH_VARIABLES lists them in each
 * rank's environment, with a hash of each value.
 *
 * A rank may start another launch or submit the next job, whose processes inherit its environment. The list tells the
 * variables of the launch from those of the user: they are for the ranks of that launch only. A variable whose value has
 * changed since is the user's.
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_LAUNCH_MARKS_H
#define HVD_LAUNCH_MARKS_H

#include "lib/base/strv.h"

#define HVD_LAUNCH_MARKS_ENV "HVD_LAUNCH_VARIABLES"

/* Set the list in `env`, a rank's environment or a part of it: of all variables there that emitted.h has. */
void hvd_launch_marks_set(struct hvd_strv *env);

/* Unset the variables of a launch around this process in its environment, and the list. */
void hvd_launch_marks_drop(void);

/* The value of the list for `env`. The caller frees it. */
char *hvd_launch_marks_list(const struct hvd_strv *env);
/* Does the list have the variable, with this value? Untrusted input is fine. */
bool hvd_launch_marks_has(const char *list, const char *name, const char *value);

#endif
