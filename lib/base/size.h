/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.h - how large a launch may be: what is read from outside and claims more is refused.
 */
#ifndef HVD_SIZE_H
#define HVD_SIZE_H

/* No allocation has more hosts, and no step more tasks. */
#define HVD_MAX_HOSTS 65536
#define HVD_MAX_RANKS (1 << 20)
/* A shim that starts the ranks of its host gets the environments of all of them in one message (HVD_WIRE_MAX). */
#define HVD_MAX_HOST_RANKS 8192

#endif
