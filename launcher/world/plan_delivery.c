/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_delivery.h"

#include "launcher/hosts/clients.h"
#include "lib/protocol/agent_settings.h"

/* The numbers of the host's ranks, where they are not those that it has registered (rank_numbers.c). */
static void add_numbers(const struct hvd_rank_plan *plan, const struct hvd_host_entry *host, json_t *msg)
{
	json_t *numbers;

	if (plan->networks->elastic || plan->opts->spec->spares == 0)
		return;
	numbers = json_array();
	for (uint32_t r = 0; r < host->node.n_ranks; r++)
		json_array_append_new(numbers, json_integer(host->node.ranks[r]));
	json_object_set_new(msg, "numbers", numbers);
	json_object_set_new(msg, "size", json_integer(plan->layout.size));
}

/* An option that is not given is 0. The driver's kill_wait may be Slurm's. */
static json_t *settings(const struct hvd_driver_opts *opts)
{
	struct hvd_agent_settings values;

#define NUMBER(field, most)  values.field = opts->spec->field > 0 ? (unsigned)opts->spec->field : 0;
#define SECONDS(field, most) values.field = opts->spec->field > 0 ? opts->spec->field : 0;
	HVD_AGENT_SETTINGS(NUMBER, SECONDS)
#undef NUMBER
#undef SECONDS
	values.kill_wait = opts->kill_wait;
	return hvd_agent_settings_json(&values);
}

void hvd_plan_delivery_send(const struct hvd_rank_plan *plan, uint32_t h, struct hvd_rv *rv)
{
	json_t *ranks = json_array(), *relay = hvd_rank_plan_relay(plan, h), *msg;
	const struct hvd_host_entry *host = &plan->table->hosts[h];
	const bool elastic = plan->networks->elastic;

	for (uint32_t r = 0; r < host->node.n_ranks && !elastic; r++)
		json_array_append_new(ranks, hvd_rank_plan_env(plan, host->node.ranks[r]));
	msg = json_pack("{s:s, s:o, s:b}", "t", "plan", "ranks", ranks, "func_key", plan->opts->func_key);
	json_object_set_new(msg, "settings", settings(plan->opts));
	if (elastic)
		json_object_set_new(msg, "stay", json_true());
	if (relay) {
		json_object_set_new(msg, "relay", relay);
		hvd_client_relay(host->client, rv);
	}
	add_numbers(plan, host, msg);
	hvd_conn_send(host->client->conn, msg);
}
