/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roles_line.h - the hvdrun command that does with roles what a command line of srun, or of hvdrun, with several components
 * asks for.
 */
#ifndef HVD_ROLES_LINE_H
#define HVD_ROLES_LINE_H

#include <stdbool.h>

/* "hvdrun --role=r0 A : --role=r1 B" for "srun --hvd A : B", as a line for a shell, without secrets. A component with a list
 * of groups (--het-group=0,1) becomes a role for each of them. In place of a command that is not there stands COMMAND, since
 * srun then takes that of the next component. NULL: the command line has one component only. The caller frees it. */
char *hvd_roles_line(char *const *argv);

/* Does it name a group, or several? */
bool hvd_roles_line_has_group(char *const *argv);

#endif
