/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worlds.h - the number of a world in messages. Ranks of different worlds (launcher/world/world.h) have the same numbers,
 * and rendezvous at different stores.
 *
 * A message about ranks or a store says in "world" which world it is about. It is world 0 if that is left out. A message
 * about a host has a part for each world that the host takes part in. The message itself is the part of world 0; the others
 * are "worlds":[{"world":N,…},…]. So the messages of a launch with one world have neither.
 */
#ifndef HVD_WORLDS_H
#define HVD_WORLDS_H

#include "lib/base/err.h"
#include "lib/base/size.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A rank, and the world in which it has this number. */
struct hvd_world_rank {
	unsigned world;
	uint32_t rank;
};

static inline bool hvd_world_rank_same(struct hvd_world_rank a, struct hvd_world_rank b)
{
	return a.world == b.world && a.rank == b.rank;
}

/* Set the world of a message, which is returned. */
json_t *hvd_world_mark(json_t *msg, unsigned world);
/* Read it. -1 with err set; *world is then 0. Untrusted input is fine. */
int hvd_world_of(const json_t *msg, unsigned *world, struct hvd_err *err);

/* The part of this world, which is added if there is none. The message owns it. */
json_t *hvd_world_add_part(json_t *msg, unsigned world);
/* The same; NULL: there is none. Untrusted input is fine. */
json_t *hvd_world_part(const json_t *msg, unsigned world);
/* How many parts there are, if none is left out: those of the worlds 0, 1, … Untrusted input is fine. */
unsigned hvd_world_parts(const json_t *msg);

#endif
