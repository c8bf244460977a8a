/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.h - how large a launch can be. Input from outside that claims more is refused.
 */
#ifndef HVD_SIZE_H
#define HVD_SIZE_H

#define HVD_MAX_HOSTS 65536
#define HVD_MAX_RANKS (1 << 20)
/* Ranks on one host. A node agent that starts them gets all their environments in one message of HVD_WIRE_MAX bytes. */
#define HVD_MAX_HOST_RANKS  8192
#define HVD_MAX_WORLDS      64 /* of a launch (launcher/world/world.h), with the store that all share */
#define HVD_MAX_RANK_WORLDS (HVD_MAX_WORLDS - 1)

#endif
