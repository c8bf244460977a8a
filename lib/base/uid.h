/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uid.h - the number of this process's user outside of its user namespace.
 *
 * In a container geteuid() may return 0, while munged, which runs on the host, sees the user's own number.
 */
#ifndef HVD_UID_H
#define HVD_UID_H

#include <sys/types.h>

/* The effective user's number in the parent user namespace. geteuid() if there is no such namespace, or the map of
 * numbers cannot be read. */
uid_t hvd_uid_outside(void);

/* The number outside of the namespace for the number `inside`, by the text of a /proc/PID/uid_map; `inside` if the map
 * lacks it. */
uid_t hvd_uid_map(const char *map, uid_t inside);

#endif
