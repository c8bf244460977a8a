/* SPDX-License-Identifier: Apache-2.0 */
/* agent_commands.c - what hosts are told: the ranks to start and to end, and what concerns those that run. */
#include "node_agents_internal.h"

#include "lib/rendezvous/server.h"

#include <string.h>

static void take_layout(struct hvd_layout *to, struct hvd_layout *from)
{
	hvd_layout_clear(to);
	*to = *from;
	memset(from, 0, sizeof(*from));
}

void hvd_crew_prepare(struct hvd_crew *crew, struct hvd_layout *layout)
{
	take_layout(&crew->plan.layout, layout);
	hvd_rv_clear_scope(hvd_meeting_server(crew->venue.meeting), "global"); /* of some that were given up */
}

void hvd_crew_generation(struct hvd_crew *crew, struct hvd_layout *layout, bool prepared)
{
	struct hvd_rv *rv = hvd_meeting_server(crew->venue.meeting);

	take_layout(&crew->layout, layout);
	if (prepared)
		hvd_rv_clear_but(rv, "global");
	else
		hvd_rv_clear(rv);
	hvd_venue_size(&crew->venue, &crew->layout);
}

const struct hvd_layout *hvd_crew_layout(const struct hvd_crew *crew)
{
	return &crew->layout;
}

void hvd_crew_start(struct hvd_crew *crew, uint32_t worker, int rank, int slots)
{
	const struct hvd_place *place = &crew->plan.layout.places[rank];
	struct hvd_crew_place *p = &crew->places[place->host];

	if (!p->here)
		return; /* its end is on its way to whoever asks */
	hvd_conn_send(p->client->conn,
		      json_pack("{s:s, s:I, s:i, s:i, s:o}", "t", "start", "worker", (json_int_t)worker, "slot",
				place->local_rank, "slots", slots > place->local_rank ? slots : place->local_rank + 1,
				"env", hvd_plan_env(&crew->plan, &crew->roster, (uint32_t)rank, &crew->opts->env)));
}

void hvd_crew_stop(struct hvd_crew *crew, uint32_t host, uint32_t worker, bool at_once)
{
	if (host < crew->roster.n && crew->places[host].here)
		hvd_conn_send(crew->places[host].client->conn,
			      json_pack("{s:s, s:I, s:b}", "t", "stop", "worker", (json_int_t)worker, "now", at_once));
}

void hvd_crew_notify(struct hvd_crew *crew, uint32_t host, uint32_t worker, const char *to, int64_t when)
{
	if (host < crew->roster.n && crew->places[host].here)
		hvd_conn_send(crew->places[host].client->conn,
			      json_pack("{s:s, s:I, s:s, s:I}", "t", "notify", "worker", (json_int_t)worker, "to", to,
					"time", (json_int_t)when));
}

int hvd_crew_cut(struct hvd_crew *crew, const struct hvd_pairs *pairs)
{
	int told = 0;

	for (uint32_t h = 0; h < crew->roster.n; h++) {
		json_t *at = crew->places[h].here ? hvd_pairs_at(pairs, &crew->roster.nodes[h]) : NULL;

		if (!at)
			continue;
		hvd_conn_send(crew->places[h].client->conn, json_pack("{s:s, s:o}", "t", "cut", "at", at));
		told++;
	}
	return told;
}

void hvd_crew_end(struct hvd_crew *crew)
{
	hvd_clients_tell(crew->clients, "end");
	crew->ended = true;
	event_del(crew->timer);
	for (uint32_t h = 0; h < crew->roster.n; h++) {
		crew->places[h].expected = crew->places[h].here = false;
		if (crew->places[h].client)
			crew->places[h].client->role = HVD_ROLE_FORMER;
	}
}

void hvd_crew_signal(struct hvd_crew *crew, int sig)
{
	for (uint32_t h = 0; h < crew->roster.n; h++)
		if (crew->places[h].here)
			hvd_conn_send(crew->places[h].client->conn, json_pack("{s:s, s:i}", "t", "signal", "sig", sig));
}
