/* SPDX-License-Identifier: Apache-2.0 */
/* recheck.c - an admitted host is checked again, while no rank runs there (agent/recheck.c). */
#include "agent_registry_internal.h"

#include "lib/base/cleanup.h"
#include "preflight.h"

#include <limits.h>

void hvd_agent_registry_check(struct hvd_agent_registry *agents, uint32_t host)
{
	json_t *order = hvd_preflight_order(agents->opts->spec, INT_MAX);

	json_object_set_new(order, "t", json_string("check"));
	if (hvd_agent_registry_admitted(agents, host) && agents->table.hosts[host].check.mib)
		json_object_set(order, "mib", agents->table.hosts[host].check.mib);
	hvd_agent_registry_command(agents, host, order);
}

/* What an agent's processes may use, and the GPUs' memory before the ranks, are known from the first check: since then
 * the agent has raised its limit of open files. */
static void take_check(struct hvd_host_check *check, const struct hvd_host_check *first, const json_t *found)
{
	hvd_host_check_read(found, check);
	json_decref(check->mib);
	check->mib = json_incref(first->mib);
	check->memlock = first->memlock;
	check->nofile = first->nofile;
}

void hvd_recheck_message(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_host_check first;
	struct hvd_err why = {0};
	const char *hint = "";
	hvd_cleanup_free char *bad = NULL;

	if (!hvd_agent_registry_admitted(agents, cl->host) || !json_is_object(json_object_get(msg, "preflight")) ||
	    !agents->ops->checked)
		return;
	first = agents->table.hosts[cl->host].check;
	take_check(&agents->table.hosts[cl->host].check, &first, json_object_get(msg, "preflight"));
	bad = hvd_preflight_worse(&agents->table.hosts[cl->host], &first, &hint);
	hvd_host_check_clear(&first);
	if (!agents->ops->checked(cl->host, bad, agents->arg))
		return;
	hvd_err_set(&why, HVD_E_FAILED, "%s", bad);
	hvd_err_hint(&why, "%s", hint);
	hvd_agent_registry_lose(agents, cl->host, &why, false);
}
