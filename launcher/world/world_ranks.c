/* SPDX-License-Identifier: Apache-2.0 */
/* world_ranks.c - the ranks of a world begin, generation by generation, and are started, ended and notified. */
#include "world_internal.h"

#include "lib/rendezvous/server.h"

#include <string.h>

/* ---- generations ---- */

void hvd_world_begin(struct hvd_world *world)
{
	const struct hvd_layout *layout = &world->plan.layout;

	hvd_rv_service_size(&world->service, layout);
	if (world->init_watch)
		hvd_init_watch_begin(world->init_watch, layout, world->table);
	hvd_progress_begin(world->progress, (uint32_t)layout->n_hosts);
}

static void take_layout(struct hvd_layout *to, struct hvd_layout *from)
{
	hvd_layout_clear(to);
	*to = *from;
	memset(from, 0, sizeof(*from));
}

void hvd_world_prepare(struct hvd_world *world, struct hvd_layout *layout)
{
	take_layout(&world->plan.layout, layout);
	hvd_rv_clear_scope(world->service.rv, "global"); /* from ranks that were given up */
}

void hvd_world_generation(struct hvd_world *world, struct hvd_layout *layout, bool prepared)
{
	if (world->init_watch)
		hvd_init_watch_stop(world->init_watch);
	take_layout(&world->layout, layout);
	hvd_rv_clear(world->service.rv, prepared ? "global" : NULL);
	hvd_rv_service_size(&world->service, &world->layout);
}

void hvd_world_renew(struct hvd_world *world, int restarts)
{
	world->plan.restarts = restarts;
	hvd_rv_tcpstore_reset(world->service.rv);
	if (world->init_watch)
		hvd_init_watch_begin(world->init_watch, &world->layout, world->table);
}

void hvd_world_progress(struct hvd_world *world)
{
	hvd_progress_begin(world->progress, 0);
}

/* ---- ranks ---- */

/* From now on all ranks rendezvous through the relay of rank 0's host, and through no other. */
static void open_relay(struct hvd_world *world)
{
	int32_t open = hvd_rank_plan_open_relay(&world->plan);

	if (world->open_relay >= 0 && world->open_relay != open)
		hvd_agent_registry_command(world->agents, (uint32_t)world->open_relay,
					   json_pack("{s:s, s:[]}", "t", "network", "addrs"));
	if (open >= 0)
		hvd_agent_registry_command(
			world->agents, (uint32_t)open,
			json_pack("{s:s, s:o}", "t", "network", "addrs", hvd_rank_plan_host_addrs(&world->plan)));
	world->open_relay = open;
}

void hvd_world_start(struct hvd_world *world, uint32_t id, int rank, int slots)
{
	const struct hvd_rank_slot *slot = &world->plan.layout.rank_slots[rank];
	json_t *env;

	if (!hvd_agent_registry_admitted(world->agents, (uint32_t)slot->host))
		return; /* the plan has no endpoint for the host */
	if (rank == 0)
		open_relay(world);
	env = hvd_rank_plan_env(&world->plan, (uint32_t)rank);
	/* The host has more ranks than slots when slots were taken away from the job. */
	hvd_agent_registry_command(world->agents, (uint32_t)slot->host,
				   json_pack("{s:s, s:I, s:i, s:i, s:i, s:o}", "t", "start", "id", (json_int_t)id,
					     "rank", rank, "slot", slot->local_rank, "slots",
					     slots > slot->local_rank ? slots : slot->local_rank + 1, "env", env));
}

void hvd_world_stop(struct hvd_world *world, uint32_t host, uint32_t id, bool kill)
{
	hvd_agent_registry_command(world->agents, host,
				   json_pack("{s:s, s:I, s:b}", "t", "stop", "id", (json_int_t)id, "kill", kill));
}

void hvd_world_notify(struct hvd_world *world, uint32_t host, uint32_t id, const char *to, int64_t when)
{
	hvd_agent_registry_command(world->agents, host,
				   json_pack("{s:s, s:I, s:s, s:I}", "t", "notify", "id", (json_int_t)id, "to", to,
					     "time", (json_int_t)when));
}

int hvd_world_kill_connections(struct hvd_world *world, const struct hvd_gloo_peers *peers)
{
	int count = 0;

	for (uint32_t h = 0; h < world->table->n; h++) {
		json_t *at = hvd_agent_registry_admitted(world->agents, h)
				     ? hvd_gloo_peers_at(peers, &world->table->hosts[h].node)
				     : NULL;

		if (at)
			hvd_agent_registry_command(world->agents, h,
						   json_pack("{s:s, s:o}", "t", "kill-connections", "at", at));
		count += at != NULL;
	}
	return count;
}
