/* SPDX-License-Identifier: Apache-2.0 */
/* Silent ranks of an elastic job: where all ranks are is logged before the silent ones are killed. */
#include "launcher/job/unresponsive_ranks.h"

#include "launcher/hosts/agent_registry.h"
#include "tests/unit/launch_agents.h"

#define WORKER 70000

struct world {
	struct launch *l;
	struct hvd_agent_registry *agents;
	struct hvd_world *world;
	struct hvd_unresponsive_ranks *silent;
	int here;
	char said[4096];
	bool killed_before; /* a host was told to end a rank before the log was written */
};

static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	struct world *w = arg;
	size_t len = strlen(w->said);

	if (level > HVD_LOG_INFO)
		return;
	for (int i = 0; i < w->l->n_agents; i++)
		w->killed_before |= agent_heard(&w->l->agents[i], "stop");
	snprintf(w->said + len, sizeof(w->said) - len, "%s\n", text);
}

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	return 0;
}

static void on_came(uint32_t host, void *arg)
{
}

static void on_here(uint32_t host, void *arg)
{
	((struct world *)arg)->here++;
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
}

static void on_left(uint32_t host, bool lost, void *arg)
{
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	fail_msg("%s", why->msg);
}

/* Two hosts are there, with a worker each. */
SETUP(setup, struct world, w)
{
	static const struct hvd_agent_registry_ops ops = {
		.registered = on_came, .admitted = on_here, .gone = on_gone, .left = on_left, .failed = on_failed};
	static const struct hvd_world_ops world_ops = {.opened = on_opened};
	struct hvd_identity id = {.kind = HVD_ID_KEY};
	char names_of[][8] = {"node0", "node1"}, *names[] = {names_of[0], names_of[1]};
	struct hvd_layout layout;
	struct hvd_err err = {0};

	launch_setup((void **)&w->l);
	w->l->log.sink = on_log;
	w->l->log.arg = w;
	w->l->opts.loopback = false;
	id.key = w->l->key;
	assert_int_equal(hvd_session_create(&w->l->session, &id, &err), 0);
	w->agents =
		hvd_agent_registry_create(w->l->base, false, &w->l->opts, &w->l->session, &ops, w, &w->l->log, &err);
	assert_non_null(w->agents);
	w->world = hvd_world_create(w->l->base, w->agents, &w->l->opts, &world_ops, w, &w->l->log, &err);
	assert_non_null(w->world);
	hvd_worlds_boot(&w->world, 1, &w->l->boot);
	hvd_agent_registry_expect(w->agents, 0, "node0");
	hvd_agent_registry_expect(w->agents, 1, "node1");
	for (int h = 0; h < 2; h++)
		agent_connect(w->l, registration(h, 1, 0, false));
	until(w->l, w->here == 2);
	assert_int_equal(hvd_layout_from_tasks(&layout, names, (int[]){1, 1}, NULL, 2, NULL), 0);
	for (uint32_t rank = 0; rank < 2; rank++)
		layout.rank_slots[rank].id = WORKER + rank;
	hvd_world_prepare(w->world, &layout);
	w->silent = hvd_unresponsive_ranks_create(w->world, &w->l->log);
	*w->said = '\0';
}

static int teardown(void **state)
{
	struct world *w = *state;
	void *l = w->l;

	hvd_unresponsive_ranks_destroy(w->silent);
	hvd_agent_registry_destroy(w->agents);
	hvd_world_destroy(w->world);
	free(w);
	return launch_teardown(&l);
}

/* Agents know processes by their ids. */
static void answer(struct agent *s, int rank)
{
	json_int_t id = json_integer_value(json_object_get(json_object_get(s->said, "stacks"), "id"));

	hvd_conn_send(s->conn, json_pack("{s:s, s:I, s:[{s:i, s:i}]}", "t", "stacks", "id", id, "ranks", "rank",
					 WORKER + rank, "pid", 4711 + rank));
}

static json_int_t killed(const struct agent *s)
{
	const json_t *stop = json_object_get(s->said, "stop");

	assert_true(json_is_true(json_object_get(stop, "kill")));
	return json_integer_value(json_object_get(stop, "id"));
}

TEST_IN(all_are_killed_when_the_hosts_have_answered, struct world *w)
{
	struct agent *s = w->l->agents;

	hvd_unresponsive_ranks_end(w->silent, 0, WORKER);
	hvd_unresponsive_ranks_end(w->silent, 1, WORKER + 1); /* does not ask again */
	until(w->l, agent_heard(&s[0], "stacks") && agent_heard(&s[1], "stacks"));
	answer(&s[0], 0);
	answer(&s[1], 1);
	until(w->l, agent_heard(&s[0], "stop") && agent_heard(&s[1], "stop"));
	assert_int_equal(killed(&s[0]), WORKER);
	assert_int_equal(killed(&s[1]), WORKER + 1);
	assert_false(w->killed_before);
	assert_in(w->said, "2 ranks");
}

TEST_IN(the_next_one_is_asked_for_anew, struct world *w)
{
	struct agent *s = w->l->agents;

	hvd_unresponsive_ranks_end(w->silent, 0, WORKER);
	until(w->l, agent_heard(&s[0], "stacks") && agent_heard(&s[1], "stacks"));
	answer(&s[0], 0);
	answer(&s[1], 1);
	until(w->l, agent_heard(&s[0], "stop"));
	assert_false(agent_heard(&s[1], "stop"));
	json_object_del(s[1].said, "stacks");
	hvd_unresponsive_ranks_end(w->silent, 1, WORKER + 1);
	until(w->l, json_object_get(s[1].said, "stacks"));
	answer(&s[0], 0);
	answer(&s[1], 1);
	until(w->l, agent_heard(&s[1], "stop"));
	assert_int_equal(killed(&s[1]), WORKER + 1);
}

TEST_IN(none_is_killed_after_the_end, struct world *w)
{
	struct agent *s = w->l->agents;

	hvd_unresponsive_ranks_end(w->silent, 0, WORKER);
	until(w->l, agent_heard(&s[0], "stacks") && agent_heard(&s[1], "stacks"));
	hvd_unresponsive_ranks_destroy(w->silent);
	w->silent = NULL;
	answer(&s[0], 0);
	answer(&s[1], 1);
	hvd_agent_registry_end(w->agents);
	until(w->l, agent_heard(&s[0], "end"));
	assert_false(agent_heard(&s[0], "stop"));
	assert_string_equal(w->said, "");
}

RUN_TESTS(.setup = setup, .teardown = teardown)
