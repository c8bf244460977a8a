/* SPDX-License-Identifier: Apache-2.0 */
/* own_program.h - where the programs of this suite are. */
#ifndef HVD_OWN_PROGRAM_H
#define HVD_OWN_PROGRAM_H

/* The path of a program or script of this suite: `relative` to this program's own directory, as in a build or a moved installation,
 * else `installed`. The caller frees it. */
char *hvd_own_program(const char *relative, const char *installed);

#endif
