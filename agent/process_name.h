/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_name.h - the name that ps(1) and top(1) show for a process of hvd-agent, so that an administrator sees its
 * purpose.
 */
#ifndef HVD_PROCESS_NAME_H
#define HVD_PROCESS_NAME_H

/* Set the name of this process (ps -o comm), of 15 bytes at most. */
void hvd_process_name(const char *name);

/* The same for a forked process, which otherwise shows the arguments of its parent. ps(1) then shows the name and the
 * purpose of the process in their place, as far as the arguments left room. Nobody may use argv afterwards. */
void hvd_process_describe(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
