/* SPDX-License-Identifier: Apache-2.0 */
#include "uid.h"

#include "file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes. The kernel allows 340 lines in a map; a container's map has one or three. */
#define MAP_MAX 16384

uid_t hvd_uid_map(const char *map, uid_t inside)
{
	while (*map) {
		unsigned first, outside, count;

		if (sscanf(map, " %u %u %u", &first, &outside, &count) != 3)
			break;
		if (inside >= first && inside - first < count)
			return outside + (inside - first);
		map += strcspn(map, "\n");
		map += *map == '\n';
	}
	return inside;
}

uid_t hvd_uid_outside(void)
{
	char map[MAP_MAX];

	hvd_read_start("/proc/self/uid_map", map, sizeof(map) - 1);
	return hvd_uid_map(map, geteuid());
}
