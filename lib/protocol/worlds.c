/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds.h"

#include "wire.h"

#define KEY   "world"
#define PARTS "worlds"

json_t *hvd_world_mark(json_t *msg, unsigned world)
{
	if (world > 0)
		json_object_set_new(msg, KEY, json_integer(world));
	return msg;
}

int hvd_world_of(const json_t *msg, unsigned *world, struct hvd_err *err)
{
	int64_t number = 0;
	int rc = json_object_get(msg, KEY) ? hvd_get_int(msg, KEY, 0, HVD_MAX_WORLDS - 1, &number, err) : 0;

	*world = (unsigned)number;
	return rc;
}

json_t *hvd_world_part(const json_t *msg, unsigned world)
{
	json_t *parts, *part;
	unsigned number;
	size_t i;

	if (world == 0)
		return (json_t *)msg;
	if (hvd_get_array(msg, PARTS, HVD_MAX_WORLDS, &parts, NULL) != 0)
		return NULL;
	json_array_foreach(parts, i, part)
	{
		if (json_is_object(part) && hvd_world_of(part, &number, NULL) == 0 && number == world)
			return part;
	}
	return NULL;
}

json_t *hvd_world_add_part(json_t *msg, unsigned world)
{
	json_t *part = hvd_world_part(msg, world);

	if (part)
		return part;
	if (!json_object_get(msg, PARTS))
		json_object_set_new(msg, PARTS, json_array());
	part = hvd_world_mark(json_object(), world);
	json_array_append_new(json_object_get(msg, PARTS), part);
	return part;
}

unsigned hvd_world_parts(const json_t *msg)
{
	unsigned n = 1;

	while (n < HVD_MAX_WORLDS && hvd_world_part(msg, n))
		n++;
	return n;
}
