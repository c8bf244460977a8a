/* SPDX-License-Identifier: Apache-2.0 */
#include "owner_questions.h"

#include "lib/protocol/conn.h"
#include "lib/protocol/owner_question.h"

/* The connection to the agent of an admitted host; NULL = there is none. */
static struct hvd_conn *agent_of(const struct hvd_host_table *table, uint32_t host)
{
	const struct hvd_host_entry *entry = host < table->n ? &table->hosts[host] : NULL;

	return entry && entry->stage == HVD_STAGE_HERE && entry->client ? entry->client->conn : NULL;
}

static bool has_addr(const struct hvd_host_info *node, const struct hvd_addr *addr)
{
	bool own = hvd_host_info_find_addr(node, addr) >= 0;

	for (uint32_t i = 0; i < node->n_own && !own; i++)
		own = hvd_addr_equal(&node->own[i], addr);
	return own;
}

/* The agent of the host that has this address; NULL = there is none. */
static struct hvd_conn *agent_at(const struct hvd_host_table *table, const struct hvd_addr *addr)
{
	for (uint32_t h = 0; h < table->n; h++)
		if (agent_of(table, h) && has_addr(&table->hosts[h].node, addr))
			return agent_of(table, h);
	return NULL;
}

static bool is_agent(const struct hvd_host_table *table, const struct hvd_client *cl)
{
	return cl->role == HVD_ROLE_AGENT && agent_of(table, cl->host) == cl->conn;
}

void hvd_owner_questions_ask(const struct hvd_host_table *table, const struct hvd_client *cl, const json_t *msg)
{
	struct hvd_owner_question question;
	struct hvd_conn *to;

	if (!is_agent(table, cl) || hvd_owner_question_read(msg, &question, NULL) != 0)
		return;
	to = agent_at(table, &question.from);
	question.asker = cl->host;
	hvd_conn_send(to ? to : cl->conn, to ? hvd_owner_question_to_json(&question)
					     : hvd_owner_answer_to_json(&(struct hvd_owner_answer){
						       .id = question.id, .asker = HVD_OWNER_NO_ASKER}));
}

void hvd_owner_questions_answer(const struct hvd_host_table *table, const struct hvd_client *cl, const json_t *msg)
{
	struct hvd_owner_answer answer;
	struct hvd_conn *to;

	if (!is_agent(table, cl) || hvd_owner_answer_read(msg, &answer, NULL) != 0)
		return;
	to = agent_of(table, answer.asker);
	answer.asker = HVD_OWNER_NO_ASKER;
	if (to)
		hvd_conn_send(to, hvd_owner_answer_to_json(&answer));
}
