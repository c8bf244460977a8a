/* SPDX-License-Identifier: Apache-2.0 */
#include "hw_topology.h"

int hvd_hw_topology_init(hwloc_topology_t *t, unsigned long flags, enum hwloc_type_filter_e filter)
{
	if (hwloc_topology_init(t) != 0)
		return -1;
#if HWLOC_API_VERSION >= 0x00020800
	flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
	hwloc_topology_set_flags(*t, flags);
	hwloc_topology_set_all_types_filter(*t, filter);
	hwloc_topology_set_io_types_filter(*t, HWLOC_TYPE_FILTER_KEEP_NONE);
	return 0;
}
