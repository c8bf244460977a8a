/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hw_topology.h - hwloc's view of this machine, without the slow parts that nobody here needs.
 */
#ifndef HVD_HW_TOPOLOGY_H
#define HVD_HW_TOPOLOGY_H

#include <hwloc.h>

/* Begin a topology with these flags of hwloc's, and objects of the types that `filter` keeps. Devices, distances,
 * memory attributes and kinds of CPUs are left out. The caller loads and destroys it. After an error (-1 with errno
 * set) there is nothing to destroy. */
int hvd_hw_topology_init(hwloc_topology_t *t, unsigned long flags, enum hwloc_type_filter_e filter);

#endif
