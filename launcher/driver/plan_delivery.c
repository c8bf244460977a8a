/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_delivery.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

/* One connection of each rank is held open while it runs, up to so many ranks; beyond, one of each host. */
#define KEEP_MAX 8192

void hvd_plan_delivery_begin(struct hvd_plan_delivery *ho, const struct hvd_driver_opts *opts,
			     const struct hvd_plan *plan, struct hvd_node_table *table, const struct hvd_log *log)
{
	*ho = (struct hvd_plan_delivery){.opts = opts, .plan = plan, .table = table, .log = log};
	ho->has_plan = hvd_xcalloc((size_t)plan->layout.size, sizeof(*ho->has_plan));
}

void hvd_plan_delivery_clear(struct hvd_plan_delivery *ho)
{
	free(ho->has_plan);
	ho->has_plan = NULL;
}

/* A rank that asks again, as after a restart of its task, counts once. */
static void count_planned(struct hvd_plan_delivery *ho, uint32_t host, uint32_t rank)
{
	struct hvd_node_agent *state = &ho->table->hosts[host];

	if (ho->has_plan[rank])
		return;
	ho->has_plan[rank] = true;
	hvd_node_table_enter(ho->table, host, HVD_STAGE_ADMITTED);
	state->planned++;
	state->planned_at = hvd_now();
	ho->table->ranks_planned++;
}

static void add_env(json_t *env, const char *prefix, const char *name, json_t *value)
{
	char *full = hvd_xasprintf("%s_%s", prefix, name);

	json_object_set_new(env, full, value);
	free(full);
}

static json_t *rank_plan(struct hvd_plan_delivery *ho, uint32_t rank)
{
	json_t *env = hvd_plan_env(ho->plan, ho->table, rank, &ho->opts->env);
	const struct hvd_endpoints *ep = ho->plan->endpoints;
	const char *prefix = ho->opts->meeting_env;
	int host = ho->plan->layout.rank_slots[rank].host;
	char text[HVD_ADDR_TEXT];

	if (!prefix)
		return env;
	hvd_addr_text(&ep->addrs[ho->plan->endpoint[host]], text);
	add_env(env, prefix, "ADDR", json_string(text));
	add_env(env, prefix, "PORT", json_sprintf("%u", ep->port));
	add_env(env, prefix, "RANK", json_sprintf("%u", (unsigned)rank));
	add_env(env, prefix, "HOST", json_string(ho->plan->layout.hosts[host].name));
	return env;
}

bool hvd_plan_delivery_keeps_all(const struct hvd_plan_delivery *ho)
{
	return ho->opts->mode == HVD_START_SUPERVISED_RANKS ||
	       (ho->opts->mode == HVD_START_RANKS && ho->plan->layout.size <= KEEP_MAX);
}

void hvd_plan_delivery_send(struct hvd_plan_delivery *ho, struct hvd_client *cl)
{
	if (cl->role == HVD_ROLE_RANK && (cl->rank >= (uint32_t)ho->plan->layout.size ||
					  ho->plan->layout.rank_slots[cl->rank].host != (int)cl->host)) {
		hvd_warn(ho->log, "a process asks for the plan of rank %u on host %u, which the job does not have",
			 (unsigned)cl->rank, (unsigned)cl->host);
		hvd_client_finish(cl);
		return;
	}
	if (cl->role == HVD_ROLE_AGENT && cl->all) {
		const struct hvd_node *node = &ho->table->hosts[cl->host].node;
		json_t *ranks = json_array();

		for (uint32_t r = 0; r < node->n_ranks; r++) {
			json_array_append_new(ranks, rank_plan(ho, node->ranks[r]));
			count_planned(ho, cl->host, node->ranks[r]);
		}
		hvd_conn_send(cl->conn, json_pack("{s:s, s:o, s:b}", "t", "plan", "ranks", ranks, "func_key",
						  ho->opts->func_key));
		if (ho->opts->mode != HVD_START_HOSTS)
			hvd_client_finish(cl);
	} else if (cl->role == HVD_ROLE_AGENT || cl->role == HVD_ROLE_RANK) {
		bool keep = hvd_plan_delivery_keeps_all(ho) ||
			    (cl->role == HVD_ROLE_AGENT && ho->opts->mode == HVD_START_RANKS);

		hvd_conn_send(cl->conn, json_pack("{s:s, s:o, s:b, s:b}", "t", "plan", "env", rank_plan(ho, cl->rank),
						  "keep", keep, "func_key", ho->opts->func_key));
		count_planned(ho, cl->host, cl->rank);
		if (keep && !ho->opts->loopback)
			hvd_conn_watch_host(cl->conn);
		if (!keep)
			hvd_client_finish(cl);
	}
}

void hvd_plan_delivery_send_all(struct hvd_plan_delivery *ho, const struct hvd_clients *clients)
{
	struct hvd_client *next;

	for (struct hvd_client *cl = hvd_clients_first(clients); cl; cl = next) {
		next = hvd_clients_next(cl);
		hvd_plan_delivery_send(ho, cl);
	}
}

bool hvd_plan_delivery_complete(const struct hvd_plan_delivery *ho)
{
	return ho->table->ranks_planned >= (uint32_t)ho->plan->layout.size;
}
