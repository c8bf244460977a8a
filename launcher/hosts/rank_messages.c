/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_messages.h"

#include "agent_registry_internal.h"
#include "lib/base/size.h"

#include <limits.h>

/* Read the id of a rank's process, and find its host. An agent reports the processes of its own host. Where the agent has
 * gone, a shim or a watchdog reports the end of a rank over a connection of its own; this only happens in a job of fixed
 * size. -1: the message is malformed. */
static int read_id(const struct hvd_agent_registry *agents, const struct hvd_client *cl, const json_t *msg,
		   uint32_t *id, uint32_t *host)
{
	const struct hvd_layout *layout = &agents->plan.layout;
	int64_t number;

	if (hvd_get_int(msg, "id", 0, INT_MAX, &number, NULL) != 0)
		return -1;
	*id = (uint32_t)number;
	*host = cl->host;
	if (cl->role != HVD_ROLE_NONE)
		return 0;
	if (agents->plan.elastic || number >= layout->size)
		return -1;
	*host = (uint32_t)layout->rank_slots[number].host;
	return 0;
}

void hvd_rank_message_exit(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_rank_end end = {0};
	uint32_t host;

	if (read_id(agents, cl, msg, &end.rank, &host) == 0 && hvd_rank_end_parse(msg, &end, NULL) == 0) {
		hvd_clock_end(&agents->table.hosts[host].clock, &end, hvd_now());
		if (agents->ops->ranks.ended)
			agents->ops->ranks.ended(host, &end, agents->arg);
	}
	hvd_rank_end_clear(&end);
}

void hvd_rank_message_lost(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	uint32_t id, host;

	if (read_id(agents, cl, msg, &id, &host) == 0 && agents->ops->ranks.shim_lost)
		agents->ops->ranks.shim_lost(host, id, agents->arg);
}

void hvd_rank_message_unkillable(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_unkillable what;
	uint32_t id, host;
	int64_t rank;

	if (read_id(agents, cl, msg, &id, &host) == 0 &&
	    hvd_get_int(msg, "rank", 0, HVD_MAX_RANKS - 1, &rank, NULL) == 0 &&
	    hvd_unkillable_parse(msg, &what, NULL) == 0 && agents->ops->ranks.unkillable)
		agents->ops->ranks.unkillable(host, id, (uint32_t)rank, &what, agents->arg);
}

void hvd_rank_message_done(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	bool told = cl->role == HVD_ROLE_FORMER;

	if (!told)
		agents->table.hosts[cl->host].leaving = HVD_LEAVING_DONE;
	if (agents->ops->ranks.done)
		agents->ops->ranks.done(cl->host, !json_is_false(json_object_get(msg, "munge")), told, agents->arg);
}

void hvd_rank_message_orphan(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	const char *parent;
	char buf[32];

	if (hvd_get_str(msg, "parent", 31, &parent, NULL) != 0)
		return;
	hvd_err_set(&why, HVD_E_FAILED, "%s ended before the ranks that it had started", parent);
	hvd_err_hint(&why, "was it killed, or is the host out of memory? (dmesg and the scheduler's log there)");
	hvd_err_host(&why, hvd_host_table_name(&agents->table, cl->host, buf));
	hvd_agent_registry_lose(agents, cl->host, &why, false);
}

void hvd_rank_message_output_lost(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	(void)cl;
	(void)msg;
	if (agents->ops->ranks.output_lost)
		agents->ops->ranks.output_lost(agents->arg);
}

void hvd_rank_message_died(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_host_entry *entry;
	struct hvd_loss loss;
	char buf[32];
	int64_t host;

	if (hvd_loss_parse(msg, &loss, NULL) != 0 || agents->table.n == 0 ||
	    hvd_get_int(msg, "node", 0, agents->table.n - 1, &host, NULL) != 0) {
		hvd_client_finish(cl);
		return;
	}
	entry = &agents->table.hosts[host];
	if (entry->leaving == HVD_LEAVING_NOT)
		entry->leaving = HVD_LEAVING_AGENT_DIED;
	loss.of = HVD_LOSS_AGENT;
	loss.host = hvd_host_table_name(&agents->table, (uint32_t)host, buf);
	hvd_clock_came(&entry->clock, loss.at, hvd_now());
	loss.at = hvd_clock_here(&entry->clock, loss.at);
	if (agents->ops->ranks.agent_died)
		agents->ops->ranks.agent_died((uint32_t)host, &loss, agents->arg);
}
