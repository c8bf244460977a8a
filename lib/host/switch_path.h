/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_path.h - where a host is in the network's topology, as Slurm has it: the switches or blocks above it, from the
 * top down, with dots between them, such as "core.leaf3".
 */
#ifndef HVD_SWITCH_PATH_H
#define HVD_SWITCH_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define HVD_SWITCH_PATH_MAX 255 /* bytes of a path */

/* Is it such a path? Names have letters, digits and "_-[],", as a switch may be several: "core[1-2]". */
bool hvd_switch_path_valid(const char *path);

/* The path in Slurm's variables: SLURM_TOPOLOGY_ADDR ("core.leaf3.node7") and SLURM_TOPOLOGY_ADDR_PATTERN
 * ("switch.switch.node"). The caller frees it. NULL: there is none, as where no topology is configured, or where a
 * variable is malformed or missing (NULL). */
char *hvd_switch_path_of(const char *addr, const char *pattern);

/* How many switches both have above them, from the top down. NULL has none. */
size_t hvd_switch_path_shared(const char *a, const char *b);
/* Is the switch right above them the same? */
bool hvd_switch_path_same(const char *a, const char *b);

#endif
