/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_name.h - what ps(1) and top(1) show of a process of hvd-agent, so that an administrator sees what each is
 * for.
 */
#ifndef HVD_PROCESS_NAME_H
#define HVD_PROCESS_NAME_H

/* Set the name of this process (ps -o comm), of 15 bytes at most. */
void hvd_process_name(const char *name);

/* For a process that was forked, and so shows the arguments of its parent: the same, and ps(1) shows the name and what
 * the process is for in their place, as far as these arguments left room. Nobody may use argv afterwards. */
void hvd_process_describe(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
