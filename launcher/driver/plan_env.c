/* SPDX-License-Identifier: Apache-2.0 */
/* plan_env.c - the environment of a rank, from the plan. */
#include "lib/base/xalloc.h"
#include "lib/frameworks/emit.h"
#include "planner.h"

#include <stdlib.h>
#include <string.h>

/* "ib0,eth0": this host's interface in each network that is like the first one; that IPv6 works over an interface says
 * nothing about its IPv4. Caller frees. */
static char *iface_list(const struct hvd_plan *plan, const struct hvd_node *node, uint32_t h)
{
	char *list = hvd_xstrdup("");

	for (int i = 0; i < plan->networks.n; i++) {
		const char *name = node->ifaces[plan->networks.v[i].iface[h]].name;
		bool skip = plan->networks.v[i].family != plan->networks.v[0].family ||
			    plan->networks.v[i].by_name != plan->networks.v[0].by_name;
		char *longer;

		for (int k = 0; k < i; k++)
			skip |= plan->networks.v[k].iface[h] == plan->networks.v[i].iface[h];
		if (skip)
			continue;
		longer = hvd_xasprintf("%s%s%s", list, *list ? "," : "", name);
		free(list);
		list = longer;
	}
	return list;
}

/* The same where all ranks are on one machine: loopback, unless the user wants others. */
static char *local_list(const struct hvd_node *node, const struct hvd_node_agent *state)
{
	char *list = hvd_xstrdup(state->named && !state->loopback ? "" : "lo");

	for (int i = 0; state->named && i < node->n_ifaces; i++) {
		char *longer = hvd_xasprintf("%s%s%s", list, *list ? "," : "", node->ifaces[i].name);

		free(list);
		list = longer;
	}
	return list;
}

json_t *hvd_plan_env(const struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t rank,
		     const struct hvd_strv *extra)
{
	const struct hvd_rank_slot *slot = &plan->layout.rank_slots[rank];
	uint32_t h = (uint32_t)slot->host;
	const struct hvd_node *node = &table->hosts[h].node;
	char *list = plan->local ? local_list(node, &table->hosts[h]) : iface_list(plan, node, h);
	char *first = hvd_xstrndup(list, strcspn(list, ","));
	struct hvd_emit in = {
		.mpi = plan->mpi,
		.one_machine = plan->local,
		.slot = slot,
		.hostname = node->name,
		.iface = first,
		.ifaces = list,
		.rendezvous = plan->endpoints->addrs[plan->endpoint[h]],
		.port = plan->endpoints->port,
	};
	struct hvd_strv env = {0};
	json_t *out = json_object();

	hvd_emit_all(&in, &env);
	for (size_t i = 0; i < env.n; i++) {
		char *value = strchr(env.v[i], '=');

		*value = '\0';
		json_object_set_new(out, env.v[i], json_string(value + 1));
	}
	for (size_t i = 0; extra && i < extra->n; i++) {
		const char *value = strchr(extra->v[i], '=');
		char *name = hvd_xstrndup(extra->v[i], (size_t)(value - extra->v[i]));

		json_object_set_new(out, name, json_string(value + 1));
		free(name);
	}
	hvd_strv_free(&env);
	free(first);
	free(list);
	return out;
}
