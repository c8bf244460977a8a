/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uid.h - who this process is to what runs outside of its user namespace.
 *
 * In a container geteuid() may say 0 while munged, a process of the host, sees the user's own number.
 */
#ifndef HVD_UID_H
#define HVD_UID_H

#include <sys/types.h>

/* The effective user as the parent user namespace numbers it; geteuid() where there is none or it cannot be told. */
uid_t hvd_uid_outside(void);

/* The same for `inside`, by the text of a /proc/PID/uid_map; `inside` itself when the map does not have it. */
uid_t hvd_uid_map(const char *map, uid_t inside);

#endif
