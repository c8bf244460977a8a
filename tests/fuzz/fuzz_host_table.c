/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch of three hosts as the driver's bookkeeping sees it: the input is a JSON list of their messages, in any
 * order. "register" and "report" are put to the host table; when all have registered a plan is made, and each rank's
 * environment from it.
 */
#include "fuzz.h"
#include "launcher/world/rank_plan.h"
#include "lib/protocol/wire.h"

#define HOSTS 3

static void on_register(struct hvd_host_table *table, const json_t *msg)
{
	char *nics[] = {NULL, NULL};
	const char *wanted;
	uint32_t index;

	if (hvd_host_table_register(table, msg, &index, NULL) != 0)
		return;
	must(index < table->n && table->hosts[index].stage == HVD_STAGE_REGISTERED && table->hosts[index].node.name);
	if (hvd_get_str(msg, "restrict", 64, &wanted, NULL) == 0)
		nics[0] = (char *)wanted;
	if (hvd_host_table_restrict(table, index, nics, NULL) != 0)
		hvd_host_table_restrict(table, index, NULL, NULL);
	must(table->hosts[index].node.n_ifaces <= HVD_MAX_NICS);
}

static void on_report(struct hvd_host_table *table, const json_t *msg)
{
	int64_t node;

	if (hvd_host_table_count(table, HVD_STAGE_REGISTERED) < table->n ||
	    hvd_get_int(msg, "node", 0, HOSTS - 1, &node, NULL) != 0)
		return;
	if (table->hosts[node].stage == HVD_STAGE_REGISTERED)
		hvd_host_table_enter(table, (uint32_t)node, HVD_STAGE_PROBING);
	hvd_host_table_report(table, (uint32_t)node, msg, NULL);
	for (size_t e = 0; e < table->n_edges; e++) {
		const struct hvd_edge *edge = &table->edges[e];

		must(edge->from < table->n && edge->to < table->n && edge->from != edge->to);
		must(edge->to_if < table->hosts[edge->to].node.n_ifaces);
		must(edge->from_if < table->hosts[edge->from].node.n_ifaces || edge->from_if == HVD_NO_IFACE);
	}
}

static void make_plan(struct hvd_host_table *table, bool again)
{
	struct hvd_log log = hvd_log_make("fuzz", HVD_LOG_DEBUG);
	struct hvd_launch_spec spec = {.frameworks = HVD_FW_AUTO};
	struct hvd_driver_opts none = {.spec = &spec};
	struct hvd_network_plan networks = {0};
	struct hvd_rank_plan plan = {.opts = &none, .table = table, .networks = &networks};

	log.fd = -1;
	for (uint32_t h = 0; h < table->n; h++)
		hvd_host_table_enter(table, h, HVD_STAGE_REPORTED);
	if (hvd_network_plan_make(&networks, table, again, &log, NULL) == 0 &&
	    hvd_host_table_layout(table, &plan.layout, NULL) == 0)
		for (int rank = 0; rank < plan.layout.size; rank++) {
			json_t *env = hvd_rank_plan_env(&plan, (uint32_t)rank);

			must(json_is_object(env));
			must(atoi(json_string_value(json_object_get(env, "HOROVOD_RANK"))) == rank);
			json_decref(env);
		}
	hvd_rank_plan_clear(&plan);
	hvd_network_plan_clear(&networks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *list = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *msg;
	struct hvd_host_table table;
	const char *type;
	size_t i;

	hvd_host_table_init(&table, HOSTS, 0);
	json_array_foreach(list, i, msg)
	{
		if (hvd_get_str(msg, "t", 16, &type, NULL) != 0)
			continue;
		if (strcmp(type, "register") == 0)
			on_register(&table, msg);
		else if (strcmp(type, "report") == 0)
			on_report(&table, msg);
	}
	free(hvd_host_table_missing(&table));
	if (hvd_host_table_count(&table, HVD_STAGE_REGISTERED) == table.n) {
		make_plan(&table, true);
		make_plan(&table, false);
	}
	hvd_host_table_clear(&table);
	json_decref(list);
	return 0;
}
