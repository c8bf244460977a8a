/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nofile.h - how many descriptors a server of thousands of connections may have.
 */
#ifndef HVD_NOFILE_H
#define HVD_NOFILE_H

/* Raise the soft limit of open files to the hard one. Returns the soft limit that was in force, for processes
 * that are started from here and must not see a changed one (hvd_spawn.nofile); 0 when it cannot be told. */
unsigned long hvd_raise_nofile(void);

/* The soft limit that is in force. */
unsigned long hvd_nofile(void);

#endif
