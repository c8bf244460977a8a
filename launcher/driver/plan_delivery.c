/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_delivery.h"

#include "lib/base/xalloc.h"
#include "spares.h"

#include <stdlib.h>

/* Each rank keeps a connection while it runs, in a job of at most so many ranks; in a larger one each host does. */
#define KEEP_MAX 8192

void hvd_plan_delivery_begin(struct hvd_plan_delivery *delivery, const struct hvd_driver_opts *opts,
			     const struct hvd_plan *plan, struct hvd_node_table *table, const struct hvd_log *log)
{
	*delivery = (struct hvd_plan_delivery){.opts = opts, .plan = plan, .table = table, .log = log};
	delivery->has_plan = hvd_xcalloc((size_t)plan->layout.size, sizeof(*delivery->has_plan));
}

void hvd_plan_delivery_clear(struct hvd_plan_delivery *delivery)
{
	free(delivery->has_plan);
	delivery->has_plan = NULL;
}

/* A rank that asks again, as after a restart of its task, counts once. */
static void count_planned(struct hvd_plan_delivery *delivery, uint32_t host, uint32_t rank)
{
	struct hvd_node_agent *state = &delivery->table->hosts[host];

	if (delivery->has_plan[rank])
		return;
	delivery->has_plan[rank] = true;
	state->planned++;
	state->planned_at = hvd_now();
	delivery->table->ranks_planned++;
}

bool hvd_plan_delivery_keeps_all(const struct hvd_plan_delivery *delivery)
{
	return delivery->opts->mode == HVD_START_SUPERVISED_RANKS ||
	       (delivery->opts->mode == HVD_START_RANKS && delivery->plan->layout.size <= KEEP_MAX);
}

/* The numbers of the host's ranks, where they are not those that it knows (spares.h). */
static void add_numbers(const struct hvd_plan_delivery *delivery, uint32_t host, json_t *msg)
{
	const struct hvd_node_agent *state = &delivery->table->hosts[host];
	json_t *numbers;

	if (!state->told)
		return;
	numbers = json_array();
	for (uint32_t r = 0; r < state->node.n_ranks; r++)
		json_array_append_new(numbers, json_integer(state->node.ranks[r]));
	json_object_set_new(msg, "numbers", numbers);
	json_object_set_new(msg, "size", json_integer(delivery->plan->layout.size));
}

/* Send a plan; a node agent is told of its relay, too. */
static void send_plan(struct hvd_plan_delivery *delivery, struct hvd_client *cl, json_t *msg)
{
	json_t *relay = cl->role == HVD_ROLE_AGENT ? hvd_plan_relay(delivery->plan, delivery->table, cl->host) : NULL;

	if (relay)
		json_object_set_new(msg, "relay", relay);
	add_numbers(delivery, cl->host, msg);
	hvd_conn_send(cl->conn, msg);
}

/* Close a connection that is not needed any longer. */
static void let_go(struct hvd_plan_delivery *delivery, struct hvd_client *cl)
{
	if (cl->role == HVD_ROLE_AGENT)
		delivery->table->hosts[cl->host].client = NULL;
	hvd_client_finish(cl);
}

/* From here on the client's rank is that of the layout. False: it has none. */
static bool told_number(const struct hvd_plan_delivery *delivery, struct hvd_client *cl)
{
	int64_t rank =
		cl->host < delivery->table->n ? hvd_node_table_rank(delivery->table, cl->host, cl->rank) : cl->rank;

	cl->rank = rank < 0 ? 0 : (uint32_t)rank;
	return rank >= 0;
}

void hvd_plan_delivery_send(struct hvd_plan_delivery *delivery, struct hvd_client *cl)
{
	if (cl->role == HVD_ROLE_RANK && !told_number(delivery, cl)) {
		hvd_spares_dismiss(cl);
		return;
	}
	if (cl->role == HVD_ROLE_RANK && (cl->rank >= (uint32_t)delivery->plan->layout.size ||
					  delivery->plan->layout.rank_slots[cl->rank].host != (int)cl->host)) {
		hvd_warn(delivery->log,
			 "a process asks for the plan of rank %u on host %u, which the job does not have",
			 (unsigned)cl->rank, (unsigned)cl->host);
		hvd_client_finish(cl);
		return;
	}
	if (cl->role == HVD_ROLE_AGENT && cl->all) {
		const struct hvd_node *node = &delivery->table->hosts[cl->host].node;
		json_t *ranks = json_array();

		for (uint32_t r = 0; r < node->n_ranks; r++) {
			json_array_append_new(
				ranks, hvd_plan_env(delivery->plan, delivery->table, node->ranks[r], delivery->opts));
			count_planned(delivery, cl->host, node->ranks[r]);
		}
		send_plan(delivery, cl,
			  json_pack("{s:s, s:o, s:b}", "t", "plan", "ranks", ranks, "func_key",
				    delivery->opts->func_key));
		if (delivery->opts->mode != HVD_START_HOSTS)
			let_go(delivery, cl);
	} else if (cl->role == HVD_ROLE_AGENT || cl->role == HVD_ROLE_RANK) {
		bool keep = hvd_plan_delivery_keeps_all(delivery) ||
			    (cl->role == HVD_ROLE_AGENT && delivery->opts->mode == HVD_START_RANKS);

		send_plan(delivery, cl,
			  json_pack("{s:s, s:o, s:b, s:b}", "t", "plan", "env",
				    hvd_plan_env(delivery->plan, delivery->table, cl->rank, delivery->opts), "keep",
				    keep, "func_key", delivery->opts->func_key));
		count_planned(delivery, cl->host, cl->rank);
		if (!keep)
			let_go(delivery, cl);
	}
}

void hvd_plan_delivery_send_all(struct hvd_plan_delivery *delivery, const struct hvd_clients *clients)
{
	struct hvd_client *next;

	for (struct hvd_client *cl = hvd_clients_first(clients); cl; cl = next) {
		next = hvd_clients_next(cl);
		hvd_plan_delivery_send(delivery, cl);
	}
}

bool hvd_plan_delivery_complete(const struct hvd_plan_delivery *delivery)
{
	return delivery->table->ranks_planned >= (uint32_t)delivery->plan->layout.size;
}
