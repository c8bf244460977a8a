/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main_libraries.c - the libraries that hvd-agent loads when it first calls them.
 *
 * hvdrun starts hvd-agent for each rank, and the dynamic linker took two fifths of such a process's time. hwloc, with
 * its own libraries libudev and libm, is needed if ranks are bound, and zstd by a relay of the rendezvous. So hvd-agent
 * is linked with this file in their place. hvdrun and hvd-driver are linked with the libraries themselves, and packages
 * have all programs, or none: so a missing library is noticed there.
 */
#include <dlfcn.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* These are the names of hwloc 2.x, and of zstd since 1.0. The Makefile links the libraries where it finds others. */
#define HWLOC "libhwloc.so.15"
#define ZSTD  "libzstd.so.1"

/* `function` is the address of a pointer to one. ISO C has no cast to it from dlsym()'s result; POSIX gives both the
 * same representation. */
static void look_up(const char *library, const char *name, void *function)
{
	void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL), *at = opened ? dlsym(opened, name) : NULL;

	if (!at) {
		fprintf(stderr, "hvd-agent: error: %s cannot be loaded: %s\n", library, dlerror());
		exit(1);
	}
	memcpy(function, &at, sizeof(at));
}

/* A function of that name, which calls the library's. */
#define LATE(library, back, result, name, parameters, arguments)                                                       \
	result name parameters                                                                                         \
	{                                                                                                              \
		static __typeof__(name) *function;                                                                     \
                                                                                                                       \
		if (!function)                                                                                         \
			look_up(library, #name, &function);                                                            \
		back function arguments;                                                                               \
	}

LATE(HWLOC, return, hwloc_bitmap_t, hwloc_bitmap_alloc, (void), ())
LATE(HWLOC, return, hwloc_bitmap_t, hwloc_bitmap_dup, (hwloc_const_bitmap_t bitmap), (bitmap))
LATE(HWLOC, return, int, hwloc_bitmap_first, (hwloc_const_bitmap_t bitmap), (bitmap))
LATE(HWLOC, , void, hwloc_bitmap_free, (hwloc_bitmap_t bitmap), (bitmap))
LATE(HWLOC, return, int, hwloc_bitmap_intersects, (hwloc_const_bitmap_t a, hwloc_const_bitmap_t b), (a, b))
LATE(HWLOC, return, int, hwloc_bitmap_isset, (hwloc_const_bitmap_t bitmap, unsigned id), (bitmap, id))
LATE(HWLOC, return, int, hwloc_bitmap_iszero, (hwloc_const_bitmap_t bitmap), (bitmap))
LATE(HWLOC, return, int, hwloc_bitmap_last, (hwloc_const_bitmap_t bitmap), (bitmap))
LATE(HWLOC, return, int, hwloc_bitmap_list_sscanf, (hwloc_bitmap_t bitmap, const char *text), (bitmap, text))
LATE(HWLOC, return, int, hwloc_bitmap_next, (hwloc_const_bitmap_t bitmap, int before), (bitmap, before))
LATE(HWLOC, return, int, hwloc_bitmap_or, (hwloc_bitmap_t to, hwloc_const_bitmap_t a, hwloc_const_bitmap_t b),
     (to, a, b))
LATE(HWLOC, return, int, hwloc_bitmap_set, (hwloc_bitmap_t bitmap, unsigned id), (bitmap, id))
LATE(HWLOC, return, int, hwloc_bitmap_weight, (hwloc_const_bitmap_t bitmap), (bitmap))
LATE(HWLOC, , void, hwloc_bitmap_zero, (hwloc_bitmap_t bitmap), (bitmap))
LATE(HWLOC, return, int, hwloc_get_cpubind, (hwloc_topology_t t, hwloc_cpuset_t set, int flags), (t, set, flags))
LATE(HWLOC, return, unsigned, hwloc_get_nbobjs_by_depth, (hwloc_topology_t t, int depth), (t, depth))
LATE(HWLOC, return, hwloc_obj_t, hwloc_get_obj_by_depth, (hwloc_topology_t t, int depth, unsigned i), (t, depth, i))
LATE(HWLOC, return, int, hwloc_get_type_depth, (hwloc_topology_t t, hwloc_obj_type_t type), (t, type))
LATE(HWLOC, return, int, hwloc_obj_type_is_normal, (hwloc_obj_type_t type), (type))
LATE(HWLOC, , void, hwloc_topology_destroy, (hwloc_topology_t t), (t))
LATE(HWLOC, return, int, hwloc_topology_init, (hwloc_topology_t * t), (t))
LATE(HWLOC, return, int, hwloc_topology_load, (hwloc_topology_t t), (t))
LATE(HWLOC, return, int, hwloc_topology_restrict, (hwloc_topology_t t, hwloc_const_bitmap_t set, unsigned long flags),
     (t, set, flags))
LATE(HWLOC, return, int, hwloc_topology_set_all_types_filter, (hwloc_topology_t t, enum hwloc_type_filter_e filter),
     (t, filter))
LATE(HWLOC, return, int, hwloc_topology_set_flags, (hwloc_topology_t t, unsigned long flags), (t, flags))
LATE(HWLOC, return, int, hwloc_topology_set_io_types_filter, (hwloc_topology_t t, enum hwloc_type_filter_e filter),
     (t, filter))
LATE(HWLOC, return, int, hwloc_topology_set_synthetic, (hwloc_topology_t t, const char *text), (t, text))
LATE(HWLOC, return, int, hwloc_topology_set_xml, (hwloc_topology_t t, const char *path), (t, path))

LATE(ZSTD, return, size_t, ZSTD_compress, (void *to, size_t room, const void *from, size_t n, int level),
     (to, room, from, n, level))
LATE(ZSTD, return, size_t, ZSTD_decompress, (void *to, size_t room, const void *from, size_t n), (to, room, from, n))
LATE(ZSTD, return, unsigned, ZSTD_isError, (size_t code), (code))
