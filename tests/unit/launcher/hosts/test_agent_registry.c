/* SPDX-License-Identifier: Apache-2.0 */
/* The shims of an elastic job's hosts: which are let in, and what they are told; with simulated ones over loopback. */
#include "launcher/world/world.h"
#include "lib/rendezvous/server.h"

#include "launcher/world/nccl_ranks.h"
#include "launcher/world/stacks.h"
#include "lib/protocol/worlds.h"
#include "tests/unit/launch_agents.h"
#include "tests/unit/relay_count.h"

#define WORKER 70000 /* ids of workers are no ranks: they grow as long as the job lasts */

struct world {
	struct launch *l;
	struct hvd_agent_registry *agents;
	struct hvd_world *world;
	struct hvd_rv *rv;
	int opened, came, here, gone, left, no_munge, exited, notified, cut, failed, good, bad, unkillable;
	uint32_t last_here, last_gone, last_left, worker;
	int status, broken;
	bool unfit, heard_well, is_here[3];
	char why[1024], cut_why[256];
	int code;
};

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct world *w = arg;

	w->opened++;
	w->rv = rv;
	return 0;
}

static void on_came(uint32_t host, void *arg)
{
	((struct world *)arg)->came++;
}

static void on_here(uint32_t host, void *arg)
{
	struct world *w = arg;

	w->here++;
	w->last_here = host;
	w->is_here[host] = true;
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct world *w = arg;

	w->gone++;
	w->last_gone = host;
	w->is_here[host] = false;
	w->unfit = unfit;
	w->code = why->code;
	snprintf(w->why, sizeof(w->why), "%.200s: %.800s", why->host, why->msg);
}

static void on_left(uint32_t host, bool lost, void *arg)
{
	struct world *w = arg;

	assert_false(lost);
	w->left++;
	w->last_left = host;
}

static void on_ended(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	struct world *w = arg;

	assert_int_equal(host, 1);
	w->exited++;
	w->worker = end->rank;
	w->status = end->status;
}

static void on_notified(uint32_t worker, const char *why, void *arg)
{
	struct world *w = arg;

	w->notified++;
	w->worker = worker;
	w->heard_well = *why == '\0';
}

static void on_cut(uint32_t host, int broken, const char *why, void *arg)
{
	struct world *w = arg;

	w->cut++;
	w->broken = broken;
	snprintf(w->cut_why, sizeof(w->cut_why), "%s", why);
}

static bool on_checked(uint32_t host, const char *bad, void *arg)
{
	struct world *w = arg;

	w->good += bad == NULL;
	w->bad += bad != NULL;
	return bad && host == 1;
}

static void on_unkillable(uint32_t host, uint32_t worker, uint32_t rank, const struct hvd_unkillable *what, void *arg)
{
	struct world *w = arg;

	assert_true(host == 1 && rank == 2 && what->pid == 77 && what->state == 'D' && what->gpus && !what->left);
	w->unkillable++;
	w->worker = worker;
}

static void on_done(uint32_t host, bool munge, bool told, void *arg)
{
	struct world *w = arg;

	if (munge || !told)
		return;
	w->no_munge++;
	w->last_left = host;
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct world *w = arg;

	w->failed++;
	w->code = why->code;
	snprintf(w->why, sizeof(w->why), "%s", why->msg);
}

SETUP(setup, struct world, w)
{
	launch_setup((void **)&w->l);
	w->l->opts.loopback = false;
}

static int teardown(void **state)
{
	struct world *w = *state;
	void *l = w->l;

	hvd_agent_registry_destroy(w->agents);
	hvd_world_destroy(w->world);
	free(w);
	return launch_teardown(&l);
}

static void begin(struct world *w)
{
	static const struct hvd_agent_registry_ops ops = {.registered = on_came,
							  .admitted = on_here,
							  .gone = on_gone,
							  .left = on_left,
							  .done = on_done,
							  .checked = on_checked,
							  .failed = on_failed};
	static const struct hvd_world_ops world_ops = {.opened = on_opened,
						       .ended = on_ended,
						       .unkillable = on_unkillable,
						       .notified = on_notified,
						       .connections_killed = on_cut};
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = w->l->key};
	struct hvd_err err = {0};

	assert_int_equal(hvd_session_create(&w->l->session, &id, &err), 0);
	w->agents =
		hvd_agent_registry_create(w->l->base, false, &w->l->opts, &w->l->session, &ops, w, &w->l->log, &err);
	if (!w->agents)
		print_error("%s\n", err.msg);
	assert_non_null(w->agents);
	w->world = hvd_world_create(w->l->base, w->agents, &w->l->opts, &world_ops, w, &w->l->log, &err);
	assert_non_null(w->world);
	hvd_worlds_boot(&w->world, 1, &w->l->boot);
}

static void expect(struct world *w, uint32_t n)
{
	char name[16];

	for (uint32_t h = 0; h < n; h++) {
		snprintf(name, sizeof(name), "node%u", h);
		hvd_agent_registry_expect(w->agents, h, name);
	}
}

/* A shim of host `h`, with no ranks yet. */
static struct agent *come(struct world *w, int h)
{
	return agent_connect(w->l, registration(h, 1, 0, false));
}

/* The first hosts are there. */
static void open_with(struct world *w, int n)
{
	begin(w);
	expect(w, (uint32_t)n);
	for (int h = 0; h < n; h++)
		come(w, h);
	until(w->l, w->here == n);
}

static void say(struct agent *s, json_t *msg)
{
	assert_non_null(msg);
	hvd_conn_send(s->conn, msg);
}

/* A layout of so many ranks on each of these hosts. */
static struct hvd_layout layout_of(const int *slots, int hosts)
{
	char names_of[][8] = {"node0", "node1", "node2"}, *names[] = {names_of[0], names_of[1], names_of[2]};
	struct hvd_layout layout;

	assert_int_equal(hvd_layout_from_tasks(&layout, names, slots, NULL, hosts, NULL), 0);
	return layout;
}

static const char *env_of(const struct agent *s, const char *name)
{
	const json_t *start = json_object_get(s->said, "start");

	return json_string_value(json_object_get(json_object_get(start, "env"), name));
}

static json_int_t number_in(const struct agent *s, const char *type, const char *name)
{
	json_t *number = json_object_get(json_object_get(s->said, type), name);

	assert_true(json_is_integer(number));
	return json_integer_value(number);
}

/* ---- who comes ---- */

TEST_IN(first_hosts_are_one_job, struct world *w)
{
	begin(w);
	expect(w, 2);
	come(w, 0);
	until(w->l, w->came == 1);
	assert_false(agent_heard(&w->l->agents[0], "probe")); /* the other one is waited for */
	come(w, 1);
	until(w->l, w->here == 2);
	assert_int_equal(w->opened, 1);
	assert_true(w->is_here[0] && w->is_here[1]);
	until(w->l, w->l->agents[0].plan && w->l->agents[1].plan);
	assert_true(json_is_true(json_object_get(w->l->agents[1].plan, "stay")));
	assert_int_equal(w->gone + w->failed, 0);
}

TEST_IN(one_does_not_come, struct world *w)
{
	w->l->spec.deadlines.start = 0.3;
	begin(w);
	expect(w, 2);
	come(w, 0);
	until(w->l, w->here == 1);
	assert_int_equal(w->gone, 1);
	assert_int_equal(w->last_gone, 1);
	assert_false(w->unfit);
	assert_int_equal(w->code, HVD_E_TIMEOUT);
	assert_in(w->why, "node1: its node agent did not register within 0.3 seconds");
}

TEST_IN(one_does_not_report, struct world *w)
{
	w->l->spec.deadlines.start = 0.5;
	begin(w);
	expect(w, 2);
	come(w, 0);
	come(w, 1)->unresponsive = true;
	until(w->l, w->here == 1);
	assert_in(w->why, "node1: its node agent did not report which hosts it reaches");
	until(w->l, agent_heard(&w->l->agents[1], "end"));
}

/* The rendezvous knows the hosts that are left, and not that one. */
TEST_IN(relays_of_those_that_report, struct world *w)
{
	static const char put[] = "PUT /s/k HTTP/1.0\r\nContent-Length: 1\r\n\r\nx";
	int fd;
	struct agent *s;

	w->l->spec.deadlines.start = 0.5;
	begin(w);
	expect(w, 2);
	s = come(w, 0);
	come(w, 1)->unresponsive = true;
	until(w->l, w->gone && s->plan);
	fd = dial_loopback(agent_begin_relay(w->l, s));
	assert_int_equal(write(fd, put, sizeof(put) - 1), sizeof(put) - 1);
	until(w->l, hvd_rv_get(w->rv, "s", "k"));
	assert_int_equal(relay_count(w->rv), 1);
	close(fd);
}

TEST_IN(hosts_without_a_network, struct world *w)
{
	begin(w);
	expect(w, 2);
	come(w, 0);
	come(w, 1)->to = HVD_REACH_SILENT;
	until(w->l, w->failed);
	assert_int_equal(w->code, HVD_E_NET);
	assert_in(w->why, "no network interface connects all 2 hosts");
	assert_int_equal(w->here, 0);
}

/* One that knows the key registers a host of which the job has not heard. */
TEST_IN(nobody_is_expected, struct world *w)
{
	begin(w);
	come(w, 0);
	until(w->l, w->l->agents[0].closed);
	assert_int_equal(w->came, 0);
	expect(w, 1);
	agent_connect(w->l, registration(7, 1, 0, false));
	until(w->l, w->l->agents[1].closed);
	come(w, 0);
	until(w->l, w->here == 1);
}

TEST_IN(nobody_was_expected_at_the_end, struct world *w)
{
	begin(w);
	hvd_agent_registry_end(w->agents);
	come(w, 0);
	until(w->l, w->l->agents[0].closed);
	assert_int_equal(w->came + w->left, 0);
}

TEST_IN(one_comes_twice, struct world *w)
{
	open_with(w, 1);
	come(w, 0);
	until(w->l, w->l->agents[1].closed);
	assert_false(w->l->agents[0].closed);
	assert_true(w->is_here[0]);
}

TEST_IN(one_comes_later, struct world *w)
{
	open_with(w, 2);
	hvd_agent_registry_expect(w->agents, 2, "node2");
	come(w, 2);
	until(w->l, w->here == 3);
	assert_int_equal(w->last_here, 2);
	assert_int_equal(w->opened, 1);
}

/* ---- relays of the rendezvous ---- */

/* A host with a relay at this port. */
static struct agent *come_with_relay(struct world *w, int h, int port)
{
	json_t *hello = registration(h, 1, 0, false);

	json_object_set_new(hello, "relay", json_integer(port));
	return agent_connect(w->l, hello);
}

static const json_t *relay_of(const struct world *w, int shim)
{
	return json_object_get(w->l->agents[shim].plan, "relay");
}

/* Each host has a relay of its own, also one that comes later, and another one when it comes again. */
TEST_IN(relays_of_hosts_that_come_and_go, struct world *w)
{
	struct hvd_layout layout;
	json_int_t origin;

	w->l->opts.loopback = false;
	w->l->spec.elastic.on = true;
	w->l->spec.relay_fan_out = 8;
	begin(w);
	assert_int_equal(w->l->boot.relays, 8);
	expect(w, 2);
	come_with_relay(w, 0, 4001);
	come_with_relay(w, 1, 4002);
	until(w->l, w->here == 2);
	until(w->l, w->l->agents[0].plan && w->l->agents[1].plan);
	assert_non_null(relay_of(w, 0)); /* although the rendezvous is on this host */
	assert_int_equal(json_array_size(json_object_get(relay_of(w, 0), "network")), 0); /* nobody is rank 0 yet */
	assert_null(json_object_get(relay_of(w, 1), "up"));
	layout = layout_of((int[]){1, 1}, 2);
	hvd_world_prepare(w->world, &layout);
	hvd_world_start(w->world, WORKER, 1, 1, NULL);
	until(w->l, agent_heard(&w->l->agents[1], "start"));
	assert_string_equal(env_of(&w->l->agents[1], "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
	assert_string_equal(env_of(&w->l->agents[1], "HOROVOD_GLOO_RENDEZVOUS_PORT"), "4002");

	hvd_agent_registry_expect(w->agents, 2, "node2");
	come_with_relay(w, 2, 4003);
	until(w->l, w->here == 3 && w->l->agents[2].plan);
	assert_null(json_object_get(relay_of(w, 2), "up"));
	origin = json_integer_value(json_object_get(relay_of(w, 2), "relay_id"));

	hvd_agent_registry_forget(w->agents, 2);
	hvd_agent_registry_expect(w->agents, 2, "node2");
	come_with_relay(w, 2, 4004);
	until(w->l, w->here == 4 && w->l->agents[3].plan);
	assert_true(json_integer_value(json_object_get(relay_of(w, 3), "relay_id")) != origin);
}

/* Host 1 registers: without a relay, and with this reason in the registration, if there is one. It is given up at once:
 * no host is probed with it. */
static void refuses(struct world *w, json_t *reason)
{
	json_t *hello = registration(1, 1, 0, false);
	struct agent *s;

	open_with(w, 1);
	hvd_agent_registry_expect(w->agents, 1, "node1");
	json_object_set_new(hello, "relay", json_integer(0));
	if (reason)
		json_object_set_new(hello, "cannot", reason);
	s = agent_connect(w->l, hello);
	until(w->l, w->gone);
	assert_int_equal(w->last_gone, 1);
	assert_true(w->unfit);
	until(w->l, agent_heard(s, "end"));
	assert_false(agent_heard(s, "probe"));
	assert_int_equal(w->here, 1);
	assert_int_equal(w->failed, 0);
}

TEST_IN(one_registers_as_unfit, struct world *w)
{
	refuses(w, json_pack("{s:s, s:s}", "why", "cannot open the port of the rendezvous relay: there is no room",
			     "hint", ""));
	assert_string_equal(w->why, "node1: cannot open the port of the rendezvous relay: there is no room");
}

TEST_IN(one_registers_as_unfit_with_a_wrong_reason, struct world *w)
{
	refuses(w, json_integer(1));
	assert_in(w->why, "node1: ");
	assert_in(w->why, "\"why\"");
}

TEST_IN(one_has_no_relay, struct world *w)
{
	refuses(w, NULL);
	assert_string_equal(w->why, "node1: its node agent registered without a relay of the rendezvous");
}

static const json_t *opened_to(const struct world *w, int shim)
{
	return json_object_get(json_object_get(w->l->agents[shim].said, "network"), "addrs");
}

/* The relay of the host that has rank 0 is open to all hosts of the layout, and no other is. */
TEST_IN(the_relay_of_rank_0_is_open, struct world *w)
{
	struct hvd_layout layout;

	w->l->opts.loopback = false;
	w->l->spec.elastic.on = true;
	w->l->spec.max_restarts = 3;
	w->l->spec.relay_fan_out = 8;
	begin(w);
	assert_true(w->l->boot.network);
	expect(w, 2);
	for (int h = 0; h < 2; h++) {
		json_t *hello = registration(h, 1, 0, false);

		json_object_set_new(hello, "relay", json_integer(4001 + h));
		json_object_set_new(hello, "relay_network", json_integer(5001 + h));
		agent_connect(w->l, hello);
	}
	until(w->l, w->here == 2);
	until(w->l, w->l->agents[0].plan && w->l->agents[1].plan);
	assert_int_equal(json_array_size(json_object_get(relay_of(w, 0), "network")), 0);
	assert_true(json_is_array(json_object_get(relay_of(w, 1), "network")));
	layout = layout_of((int[]){1, 1}, 2);
	hvd_world_prepare(w->world, &layout);
	hvd_world_start(w->world, WORKER, 0, 1, NULL);
	hvd_world_start(w->world, WORKER + 1, 1, 1, NULL);
	until(w->l, agent_heard(&w->l->agents[0], "network") && agent_heard(&w->l->agents[1], "start"));
	assert_int_equal(json_array_size(opened_to(w, 0)), 2);
	assert_false(agent_heard(&w->l->agents[1], "network"));
	assert_string_equal(env_of(&w->l->agents[1], "MASTER_PORT"), "5001");
	assert_string_equal(env_of(&w->l->agents[1], "HOROVOD_GLOO_RENDEZVOUS_PORT"), "4002");
	/* Rank 0 moves. */
	layout = layout_of((int[]){0, 1}, 2);
	hvd_world_prepare(w->world, &layout);
	hvd_world_start(w->world, WORKER + 2, 0, 1, NULL);
	until(w->l, agent_heard(&w->l->agents[1], "network") && json_array_size(opened_to(w, 0)) == 0);
	assert_int_equal(json_array_size(opened_to(w, 1)), 1);
}

static void ask_whose(struct world *w, int asker, int id, const char *from)
{
	say(&w->l->agents[asker], json_pack("{s:s, s:i, s:s, s:s, s:i, s:[i, i]}", "t", "whose", "id", id, "from", from,
					    "to", "10.0.0.1", "port", 29500, "ports", 40000, 40001));
}

static json_int_t field(const struct agent *s, const char *type, const char *key)
{
	return json_integer_value(json_object_get(json_object_get(s->said, type), key));
}

/* From the agent of the relay's host to that of the client's host, and back. */
TEST_IN(questions_for_owners_are_passed_on, struct world *w)
{
	struct agent *relay = &w->l->agents[0], *other = &w->l->agents[1];

	open_with(w, 2);
	ask_whose(w, 0, 7, "10.0.0.2");
	until(w->l, agent_heard(other, "whose"));
	assert_int_equal(field(other, "whose", "id"), 7);
	assert_int_equal(field(other, "whose", "asker"), 0);
	assert_int_equal(field(other, "whose", "port"), 29500);
	say(other, json_pack("{s:s, s:i, s:i, s:[i, i]}", "t", "owner", "id", 7, "asker", 0, "owners", 5, -1));
	until(w->l, agent_heard(relay, "owner"));
	assert_int_equal(field(relay, "owner", "id"), 7);
	assert_int_equal(json_array_size(json_object_get(json_object_get(relay->said, "owner"), "owners")), 2);
	/* What is no question, or no answer, or for nobody, goes nowhere. */
	say(relay, json_pack("{s:s, s:i}", "t", "whose", "id", 1));
	say(other, json_pack("{s:s, s:i, s:i, s:[i]}", "t", "owner", "id", 9, "asker", 0, "owners", -9));
	say(other, json_pack("{s:s, s:i, s:i, s:[i]}", "t", "owner", "id", 9, "asker", 77, "owners", 1));
	say(other, json_pack("{s:s, s:i, s:[i]}", "t", "owner", "id", 9, "owners", 1));
	/* No host has this address. */
	ask_whose(w, 0, 8, "10.0.0.9");
	until(w->l, field(relay, "owner", "id") == 8);
	assert_int_equal(json_array_size(json_object_get(json_object_get(relay->said, "owner"), "owners")), 0);
	/* The host has left. */
	hvd_agent_registry_forget(w->agents, 1);
	ask_whose(w, 0, 10, "10.0.0.2");
	until(w->l, field(relay, "owner", "id") == 10);
	assert_int_equal(json_array_size(json_object_get(json_object_get(relay->said, "owner"), "owners")), 0);
	/* From then on it has no say. */
	say(other, json_pack("{s:s, s:i, s:i, s:[i]}", "t", "owner", "id", 11, "asker", 0, "owners", 1));
	ask_whose(w, 0, 12, "10.0.0.9");
	until(w->l, field(relay, "owner", "id") == 12);
}

TEST_IN(one_comes_later_and_reaches_nobody, struct world *w)
{
	open_with(w, 2);
	hvd_agent_registry_expect(w->agents, 2, "node2");
	come(w, 2)->to = HVD_REACH_SILENT;
	until(w->l, w->gone);
	assert_true(w->unfit);
	assert_in(w->why, "node2: it does not reach the other hosts");
	until(w->l, agent_heard(&w->l->agents[2], "end"));
	assert_int_equal(w->here, 2);
	assert_int_equal(w->failed, 0);
}

TEST_IN(one_says_that_it_cannot, struct world *w)
{
	open_with(w, 2);
	say(&w->l->agents[1],
	    json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", "x", "why", "no room", "hint", ""));
	until(w->l, w->gone);
	assert_int_equal(w->last_gone, 1);
	assert_true(w->unfit);
	assert_string_equal(w->why, "node1: no room");
	assert_false(w->is_here[1]);
	assert_true(w->is_here[0]);
}

TEST_IN(connection_is_lost, struct world *w)
{
	open_with(w, 2);
	hvd_conn_free(w->l->agents[1].conn);
	w->l->agents[1].conn = NULL;
	until(w->l, w->gone);
	assert_int_equal(w->last_gone, 1);
	assert_false(w->unfit);
	assert_in(w->why, "node1: the connection to its node agent was lost");
	/* It may come again. */
	hvd_agent_registry_expect(w->agents, 1, "node1");
	come(w, 1);
	until(w->l, w->here == 3);
}

TEST_IN(a_named_interface_is_missing, struct world *w)
{
	hvd_strv_add(&w->l->spec.interfaces, "ib0");
	begin(w);
	expect(w, 2);
	agent_connect(w->l, registration(0, 2, 0, true));
	come(w, 1);
	until(w->l, w->here == 1);
	assert_int_equal(w->last_gone, 1);
	assert_true(w->unfit);
	assert_in(w->why, "ib0");
}

TEST_IN(loopback_is_named, struct world *w)
{
	struct hvd_layout layout = layout_of((int[]){1}, 1);

	hvd_strv_add(&w->l->spec.interfaces, "lo");
	open_with(w, 1);
	hvd_world_prepare(w->world, &layout);
	hvd_world_start(w->world, WORKER, 0, 1, NULL);
	until(w->l, agent_heard(&w->l->agents[0], "start"));
	assert_string_equal(env_of(&w->l->agents[0], "HOROVOD_GLOO_IFACE"), "lo");
	assert_string_equal(env_of(&w->l->agents[0], "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
}

/* Each order to measure is answered: host 2 is slow. */
static void answer_measure(struct agent *s, int h)
{
	json_t *order = json_object_get(s->said, "measure"), *n = json_object_get(order, "n");

	if (order)
		say(s, json_pack("{s:s, s:O, s:i, s:i}", "t", "measured", "n", n, "kbps",
				 h == 2 || json_integer_value(n) == 2 ? 1000 : 1000000, "rtt", 50));
	json_object_del(s->said, "measure");
}

/* With --preflight=full, as in a job of fixed size. */
TEST_IN(the_network_of_the_first_hosts_is_measured, struct world *w)
{
	struct agent *s = w->l->agents;

	w->l->spec.preflight = HVD_PREFLIGHT_FULL;
	begin(w);
	expect(w, 3);
	for (int h = 0; h < 3; h++)
		come(w, h);
	while (w->here < 2) {
		event_base_loop(w->l->base, EVLOOP_ONCE);
		for (int h = 0; h < 3; h++)
			answer_measure(&s[h], h);
	}
	assert_int_equal(w->gone, 1);
	assert_int_equal(w->last_gone, 2);
	assert_true(w->unfit); /* it would not be measured when it comes again */
	assert_in(w->why, "1.0 Mbit/s to its neighbours, median 1.0 Gbit/s");
	assert_true(w->is_here[0] && w->is_here[1]);
	assert_int_equal(w->failed, 0);
}

/* ---- what they are told, and say ---- */

TEST_IN(workers_are_started_and_end, struct world *w)
{
	struct hvd_layout layout = layout_of((int[]){2, 1}, 2);
	struct agent *s;

	open_with(w, 2);
	s = &w->l->agents[1];
	hvd_world_prepare(w->world, &layout);
	hvd_world_start(w->world, WORKER, 2, 4, NULL);
	until(w->l, agent_heard(s, "start"));
	assert_int_equal(number_in(s, "start", "id"), WORKER);
	assert_int_equal(number_in(s, "start", "slot"), 0);
	assert_int_equal(number_in(s, "start", "slots"), 4);
	assert_string_equal(env_of(s, "HOROVOD_RANK"), "2");
	assert_string_equal(env_of(s, "HOROVOD_SIZE"), "3");
	assert_string_equal(env_of(s, "HOROVOD_HOSTNAME"), "node1");
	assert_false(agent_heard(&w->l->agents[0], "start"));
	/* all of the host: no "cpus", "gpus" and "bind" */
	assert_int_equal(json_object_size(json_object_get(s->said, "start")), 6);

	hvd_world_stop(w->world, 1, WORKER, false);
	until(w->l, agent_heard(s, "stop"));
	assert_int_equal(number_in(s, "stop", "id"), WORKER);
	assert_true(json_is_false(json_object_get(json_object_get(s->said, "stop"), "kill")));

	/* Words that are none, before the right one. */
	say(s, json_pack("{s:s, s:i, s:i}", "t", "exit", "rank", 2, "status", 9));
	say(s, json_pack("{s:s, s:s, s:i}", "t", "exit", "id", "2", "status", 9));
	say(s, json_pack("{s:s, s:i, s:i}", "t", "exit", "id", 2, "status", -1));
	say(s, json_pack("{s:s, s:i, s:i}", "t", "exit", "id", WORKER, "status", 9));
	until(w->l, w->exited);
	assert_int_equal(w->exited, 1);
	assert_int_equal(w->worker, WORKER);
	assert_int_equal(w->status, 9);
}

TEST_IN(a_worker_that_cannot_be_killed, struct world *w)
{
	struct agent *s;

	open_with(w, 2);
	s = &w->l->agents[1];
	/* Malformed ones first. */
	say(s, json_pack("{s:s, s:i, s:i, s:i}", "t", "unkillable", "id", WORKER, "rank", 2, "pid", 77));
	say(s, json_pack("{s:s, s:i, s:i, s:s}", "t", "unkillable", "id", WORKER, "pid", 77, "state", "D"));
	say(s, json_pack("{s:s, s:i, s:i, s:i, s:s, s:b}", "t", "unkillable", "id", WORKER, "rank", 2, "pid", 77,
			 "state", "D", "gpus", 1));
	until(w->l, w->unkillable);
	assert_int_equal(w->unkillable, 1);
	assert_int_equal(w->worker, WORKER);
}

/* What is found of a host's limits, and of the memory of its GPUs, stays what it was at first. */
TEST_IN(hosts_are_checked_again, struct world *w)
{
	struct agent *s;

	open_with(w, 2);
	s = &w->l->agents[1];
	hvd_agent_registry_check(w->agents, 1);
	hvd_agent_registry_check(w->agents, 2); /* there is none */
	until(w->l, agent_heard(s, "check"));
	assert_true(number_in(s, "check", "ms") > 0);
	assert_false(agent_heard(&w->l->agents[0], "check"));
	say(s, json_pack("{s:s}", "t", "checked"));
	say(s, json_pack("{s:s, s:{s:I, s:[i]}}", "t", "checked", "preflight", "shm", (json_int_t)1 << 40, "mib", 7));
	until(w->l, w->good + w->bad);
	assert_int_equal(w->good, 1);
	/* The owner may not want to lose a bad host. */
	say(&w->l->agents[0], json_pack("{s:s, s:{s:s}}", "t", "checked", "preflight", "held", "GPU 3 is in use"));
	until(w->l, w->bad);
	assert_int_equal(w->gone, 0);
	say(s, json_pack("{s:s, s:{s:s}}", "t", "checked", "preflight", "hook", "no licence"));
	until(w->l, w->gone);
	assert_int_equal(w->last_gone, 1);
	assert_false(w->unfit);
	assert_in(w->why, "the site's program reports: no licence");
	until(w->l, agent_heard(s, "end"));
	say(s, json_pack("{s:s, s:{}}", "t", "checked", "preflight")); /* it is none of the job's any longer */
	say(&w->l->agents[0], json_pack("{s:s, s:{}}", "t", "checked", "preflight"));
	until(w->l, w->good == 2);
}

/* A host has more ranks than slots when slots were taken away. */
TEST_IN(more_ranks_than_slots, struct world *w)
{
	struct hvd_layout layout = layout_of((int[]){3}, 1);

	open_with(w, 1);
	hvd_world_prepare(w->world, &layout);
	hvd_world_start(w->world, WORKER, 2, 1, NULL);
	until(w->l, agent_heard(&w->l->agents[0], "start"));
	assert_int_equal(number_in(&w->l->agents[0], "start", "slot"), 2);
	assert_int_equal(number_in(&w->l->agents[0], "start", "slots"), 3);
}

TEST_IN(a_worker_is_told_that_hosts_have_changed, struct world *w)
{
	struct agent *s;

	open_with(w, 1);
	s = &w->l->agents[0];
	hvd_world_notify(w->world, 0, WORKER, "where it listens", 1234567890123);
	until(w->l, agent_heard(s, "notify"));
	assert_int_equal(number_in(s, "notify", "id"), WORKER);
	assert_true(number_in(s, "notify", "time") == 1234567890123);
	say(s, json_pack("{s:s, s:i, s:s}", "t", "notified", "id", WORKER, "why", ""));
	until(w->l, w->notified == 1);
	assert_int_equal(w->worker, WORKER);
	assert_true(w->heard_well);
	say(s, json_pack("{s:s, s:i, s:s}", "t", "notified", "id", WORKER + 1, "why", "it is deaf"));
	until(w->l, w->notified == 2);
	assert_int_equal(w->worker, WORKER + 1);
	assert_false(w->heard_well);
}

TEST_IN(connections_are_cut, struct world *w)
{
	struct hvd_gloo_peers *pairs = hvd_gloo_peers_create();

	open_with(w, 1);
	assert_int_equal(hvd_world_kill_connections(w->world, pairs), 0); /* nobody is connected */
	hvd_gloo_peers_destroy(pairs);
	say(&w->l->agents[0], json_pack("{s:s, s:i, s:s}", "t", "kill-connections", "n", 5, "why", "not all"));
	until(w->l, w->cut);
	assert_int_equal(w->broken, 5);
	assert_string_equal(w->cut_why, "not all");
}

TEST_IN(signals_are_passed_on, struct world *w)
{
	open_with(w, 2);
	hvd_agent_registry_signal(w->agents, 10);
	until(w->l, agent_heard(&w->l->agents[0], "signal") && agent_heard(&w->l->agents[1], "signal"));
	assert_int_equal(number_in(&w->l->agents[1], "signal", "sig"), 10);
}

static void put(struct world *w, const char *scope, const char *key)
{
	assert_int_equal(hvd_rv_put(w->rv, scope, key, "x", 1, NULL), 0);
}

TEST_IN(generations_begin, struct world *w)
{
	struct hvd_layout layout;

	open_with(w, 1);
	layout = layout_of((int[]){1}, 1);
	hvd_world_prepare(w->world, &layout);
	layout = layout_of((int[]){1}, 1);
	hvd_world_generation(w->world, &layout, false);
	assert_int_equal(hvd_world_layout(w->world)->size, 1);
	put(w, "global", "0");
	put(w, "local_node0", "0");

	layout = layout_of((int[]){2}, 1);
	hvd_world_prepare(w->world, &layout);
	assert_null(hvd_rv_get(w->rv, "global", "0"));
	assert_int_equal(hvd_world_layout(w->world)->size, 1); /* that of this generation */
	put(w, "global", "1");                                 /* a new rank's first word */
	layout = layout_of((int[]){2}, 1);
	hvd_world_generation(w->world, &layout, true);
	assert_non_null(hvd_rv_get(w->rv, "global", "1"));
	assert_null(hvd_rv_get(w->rv, "local_node0", "0"));
	assert_int_equal(hvd_world_layout(w->world)->size, 2);

	layout = layout_of((int[]){2}, 1);
	hvd_world_generation(w->world, &layout, false);
	assert_null(hvd_rv_get(w->rv, "global", "1"));
}

/* ---- who goes ---- */

TEST_IN(one_is_not_wanted_any_longer, struct world *w)
{
	open_with(w, 2);
	hvd_agent_registry_forget(w->agents, 1);
	hvd_agent_registry_forget(w->agents, 5); /* none */
	until(w->l, agent_heard(&w->l->agents[1], "end"));
	hvd_world_stop(w->world, 1, WORKER, true); /* goes nowhere */
	hvd_conn_free(w->l->agents[1].conn);
	w->l->agents[1].conn = NULL;
	until(w->l, w->left);
	assert_int_equal(w->last_left, 1);
	assert_int_equal(w->gone, 0);
	assert_false(agent_heard(&w->l->agents[0], "end"));
	assert_false(agent_heard(&w->l->agents[1], "stop"));
}

TEST_IN(all_are_told_to_end, struct world *w)
{
	begin(w);
	expect(w, 3);
	come(w, 0);
	come(w, 1);
	until(w->l, w->came == 2);
	hvd_agent_registry_end(w->agents);
	until(w->l, agent_heard(&w->l->agents[0], "end") && agent_heard(&w->l->agents[1], "end"));
	come(w, 2); /* its shim was under way */
	until(w->l, agent_heard(&w->l->agents[2], "end"));
	for (int i = 0; i < 3; i++) {
		hvd_conn_free(w->l->agents[i].conn);
		w->l->agents[i].conn = NULL;
	}
	until(w->l, w->left == 3);
	assert_int_equal(w->gone + w->failed + w->here, 0);
}

/* What it was told is acknowledged by its kernel, and not by the agent. */
TEST_IN(one_does_not_answer, struct world *w)
{
	w->l->spec.deadlines.start = 0.5;
	open_with(w, 2);
	w->l->agents[1].unresponsive = true;
	hvd_world_stop(w->world, 0, WORKER, true);
	hvd_world_stop(w->world, 1, WORKER + 1, false);
	hvd_world_stop(w->world, 1, WORKER + 2, false);
	until(w->l, w->gone == 1);
	assert_int_equal(w->last_gone, 1);
	assert_false(w->unfit);
	assert_int_equal(w->code, HVD_E_TIMEOUT);
	assert_in(w->why, "node1: its node agent has not answered for 0.5 seconds");
	until(w->l, agent_heard(&w->l->agents[1], "end"));
	assert_true(w->is_here[0]);
	hvd_world_stop(w->world, 1, WORKER, true); /* goes nowhere */
	assert_int_equal(w->failed, 0);
}

static void on_stacks(json_t *answers, void *arg)
{
	*(char **)arg = json_dumps(answers, JSON_COMPACT);
}

/* One answers, one is lost meanwhile, and one is told to end, and ends. */
TEST_IN(those_that_leave_while_they_are_asked_for_their_ranks, struct world *w)
{
	char *said = NULL;

	w->l->spec.deadlines.start = 0.5;
	open_with(w, 3);
	hvd_stacks_ask(hvd_world_stacks(w->world), 5, on_stacks, &said);
	until(w->l, agent_heard(&w->l->agents[0], "stacks"));
	say(&w->l->agents[0], json_pack("{s:s, s:i, s:[]}", "t", "stacks", "id", 1, "ranks"));
	w->l->agents[1].unresponsive = true;
	hvd_world_stop(w->world, 1, WORKER, true);
	hvd_agent_registry_forget(w->agents, 2);
	until(w->l, agent_heard(&w->l->agents[2], "end"));
	hvd_conn_finish(w->l->agents[2].conn, hvd_deadline_in(5));
	w->l->agents[2].conn = NULL;
	until(w->l, w->gone == 1);
	test_clock_pass(w->l->base, 7);
	assert_non_null(said);
	assert_in(said, "{\"hosts\":[{\"host\":\"node0\",\"ranks\":[]}],\"silent\":[\"node1\"]");
	free(said);
}

/* The launch's rank and host of the I-th rank that NCCL has named, as "RANK HOST". */
static void nccl_is(const json_t *said, size_t i, const char *expected)
{
	const json_t *comm = json_array_get(json_object_get(json_object_get(said, "nccl"), "odd"), 0);
	const json_t *one = json_array_get(json_object_get(comm, "ranks"), i), *rank = json_object_get(one, "rank");
	const char *host = json_string_value(json_object_get(one, "host"));
	char got[64];

	snprintf(got, sizeof(got), "%lld %s", rank ? (long long)json_integer_value(rank) : -1LL, host ? host : "?");
	assert_string_equal(got, expected);
}

/* Process 7 is a rank on two of the hosts; that of the last one is in a container. */
TEST_IN(ranks_that_nccl_names_are_ranks_of_the_launch, struct world *w)
{
	static const char *const at[] = {"10.0.0.2", "10.0.0.3",  "10.0.0.3", "10.0.0.9",
					 "nonsense", "127.0.0.1", "127.0.0.1"};
	static const int pids[] = {7, 7, 4711, 7, 7, 8, 7};
	json_t *list = json_array();
	json_t *said, *ranks;

	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++)
		json_array_append_new(list,
				      json_pack("{s:i, s:s, s:i}", "number", 9, "address", at[i], "pid", pids[i]));
	json_array_append_new(list, json_integer(3));
	w->l->spec.deadlines.start = 0.5;
	open_with(w, 3);
	said = json_pack("{s:{s:[{s:o}]}}", "nccl", "odd", "ranks", list);
	ranks = json_pack("[n, [{s:i, s:i, s:[{s:i}]}], [{s:i, s:i, s:i}]]", "rank", 1, "pid", 7, "others", "pid", 8,
			  "rank", 2, "pid", 4711, "own_pid", 7);
	hvd_nccl_ranks_find(json_object_get(said, "nccl"), ranks, hvd_agent_registry_table(w->agents));
	nccl_is(said, 0, "1 node1");
	nccl_is(said, 1, "2 node2");
	nccl_is(said, 2, "-1 node2");
	nccl_is(said, 3, "-1 ?");
	nccl_is(said, 4, "-1 ?");
	nccl_is(said, 5, "1 node1"); /* its only process with this number */
	nccl_is(said, 6, "-1 ?");    /* any of two */
	json_decref(said);
	json_decref(ranks);
}

/* This process did not run when the time was over. Meanwhile an answer has come, behind more than is read at once, and
 * something else sets the timer anew. */
TEST_IN(one_has_answered_what_is_not_read_yet, struct world *w)
{
	char *text = calloc(60001, 1);

	memset(text, 'x', 60000);
	w->l->spec.deadlines.start = 0.5;
	open_with(w, 2);
	w->l->agents[1].unresponsive = true;
	hvd_world_stop(w->world, 1, WORKER, true);
	until(w->l, agent_heard(&w->l->agents[1], "ping"));
	for (int i = 0; i < 4; i++)
		say(&w->l->agents[1], json_pack("{s:s, s:i, s:s}", "t", "notified", "id", 1, "why", text));
	say(&w->l->agents[1], json_pack("{s:s}", "t", "pong"));
	w->l->agents[1].unresponsive = false; /* when it is asked again */
	free(text);
	test_clock += 5000000000;
	event_base_loop(w->l->base, EVLOOP_ONCE);
	hvd_agent_registry_doubt(w->agents, 0);
	test_clock_pass(w->l->base, 3);
	assert_int_equal(w->gone, 0);
}

/* Somebody says that both hosts are gone: one of them is there. */
TEST_IN(one_is_said_to_be_gone, struct world *w)
{
	open_with(w, 2);
	w->l->agents[1].unresponsive = true;
	hvd_world_stop(w->world, 1, WORKER, false); /* for this it would have more time */
	hvd_agent_registry_doubt(w->agents, 0);
	hvd_agent_registry_doubt(w->agents, 1);
	hvd_agent_registry_doubt(w->agents, 5); /* none */
	until(w->l, w->gone == 1);
	assert_int_equal(w->last_gone, 1);
	assert_in(w->why, "node1: its node agent has not answered for 3");
	assert_true(w->is_here[0]);
}

TEST_IN(step_daemon_goes, struct world *w)
{
	open_with(w, 2);
	say(&w->l->agents[1], json_pack("{s:s, s:i}", "t", "orphan", "parent", 5));
	say(&w->l->agents[1], json_pack("{s:s, s:s}", "t", "orphan", "parent", "slurmstepd"));
	until(w->l, w->gone == 1);
	assert_int_equal(w->last_gone, 1);
	assert_false(w->unfit); /* another step may do */
	assert_in(w->why, "node1: slurmstepd ended before the ranks that it had started");
	until(w->l, agent_heard(&w->l->agents[1], "end"));
}

TEST_IN(munged_is_gone_at_the_end, struct world *w)
{
	open_with(w, 2);
	say(&w->l->agents[0], json_pack("{s:s, s:b}", "t", "done", "munge", 0)); /* it was not told to end */
	hvd_world_stop(w->world, 0, WORKER, true);
	until(w->l, agent_heard(&w->l->agents[0], "ping"));
	hvd_agent_registry_end(w->agents);
	say(&w->l->agents[0], json_pack("{s:s, s:b}", "t", "done", "munge", 1));
	say(&w->l->agents[1], json_pack("{s:s, s:b}", "t", "done", "munge", 0));
	until(w->l, w->no_munge);
	assert_int_equal(w->last_left, 1);
	assert_int_equal(w->no_munge, 1);
}

/* The last of the first hosts that were waited for goes: the others are a job without it. */
TEST_IN(first_host_goes_before_it_has_come, struct world *w)
{
	begin(w);
	expect(w, 2);
	come(w, 0);
	until(w->l, w->came == 1);
	hvd_agent_registry_forget(w->agents, 1);
	until(w->l, w->here == 1);
	assert_int_equal(w->gone, 0);
}

/* ---- two worlds ---- */

static void on_ended_elsewhere(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	assert_int_equal(host, 0);
	assert_int_equal(end->rank, WORKER);
	assert_int_equal(end->status, 256);
	++*(int *)arg;
}

static void exits(const struct world *w, json_t *world)
{
	say(&w->l->agents[0],
	    json_pack("{s:s, s:i, s:i, s:o}", "t", "exit", "id", WORKER, "status", 256, "world", world));
}

/* The second world has a part of the plan, a relay and messages of its own. */
TEST_IN(two_worlds_on_one_host, struct world *w)
{
	static const struct hvd_world_ops ops = {.ended = on_ended_elsewhere};
	static const struct hvd_host_share share = {.cpus = {4, 2}, .gpus = {0, -1}};
	json_t *hello = registration(0, 1, 0, false), *part;
	struct hvd_host_share told;
	struct hvd_world *second;
	struct hvd_layout layout;
	const struct agent *s;
	char *said = NULL;
	int ended = 0;

	begin(w);
	second = hvd_world_create(w->l->base, w->agents, &w->l->opts, &ops, &ended, &w->l->log, NULL);
	assert_non_null(second);
	hvd_worlds_boot((struct hvd_world *[]){w->world, second}, 2, &w->l->boot);
	assert_int_equal(w->l->boot.worlds, 2);
	expect(w, 1);
	json_object_set_new(hello, "worlds", json_pack("[{s:i, s:i}]", "world", 1, "relay", 5001));
	s = agent_connect(w->l, hello);
	until(w->l, w->here == 1 && s->plan);
	part = hvd_world_part(s->plan, 1);
	assert_true(json_is_object(json_object_get(part, "relay")));
	assert_true(json_is_object(json_object_get(s->plan, "relay")));
	assert_null(json_object_get(part, "settings"));

	layout = layout_of((int[]){1}, 1);
	hvd_world_prepare(second, &layout);
	w->l->spec.binding.ranks = "cores";
	hvd_world_start(second, WORKER, 0, 1, &share);
	until(w->l, agent_heard(s, "start"));
	assert_int_equal(field(s, "start", "world"), 1);
	assert_int_equal(hvd_host_share_parse(json_object_get(s->said, "start"), &told, NULL), 0);
	assert_memory_equal(&told, &share, sizeof(share));
	assert_string_equal(json_string_value(json_object_get(json_object_get(s->said, "start"), "bind")), "cores");
	assert_string_equal(env_of(s, "HOROVOD_GLOO_RENDEZVOUS_PORT"), "5001");
	hvd_world_stop(w->world, 0, WORKER, false);
	until(w->l, agent_heard(s, "stop"));
	assert_null(json_object_get(json_object_get(s->said, "stop"), "world"));

	hvd_stacks_ask(hvd_world_stacks(second), 5, on_stacks, &said);
	until(w->l, agent_heard(s, "stacks"));
	assert_int_equal(field(s, "stacks", "world"), 1);
	say(&w->l->agents[0], json_pack("{s:s, s:i, s:[]}", "t", "stacks", "id", 1, "ranks")); /* of the other one */
	say(&w->l->agents[0], json_pack("{s:s, s:i, s:[s], s:i}", "t", "stacks", "id", 1, "ranks", "r", "world", 1));
	until(w->l, said);
	assert_in(said, "\"ranks\":[\"r\"]");
	free(said);

	/* Numbers that are none, before the right one. The first world would fail: it knows only host 1. */
	exits(w, json_integer(2));
	exits(w, json_integer(-1));
	exits(w, json_string("1"));
	exits(w, json_integer(1));
	until(w->l, ended > 0);
	assert_int_equal(ended, 1);
	hvd_agent_registry_destroy(w->agents);
	w->agents = NULL;
	hvd_world_destroy(second);
}

/* It may be of another release. */
TEST_IN(one_has_no_relay_for_the_second_world, struct world *w)
{
	static const struct hvd_world_ops ops = {.ended = NULL};
	struct hvd_world *second;

	begin(w);
	second = hvd_world_create(w->l->base, w->agents, &w->l->opts, &ops, NULL, &w->l->log, NULL);
	expect(w, 1);
	come(w, 0);
	until(w->l, w->gone);
	assert_string_equal(w->why, "node0: its node agent registered without a relay of the rendezvous");
	hvd_agent_registry_destroy(w->agents);
	w->agents = NULL;
	hvd_world_destroy(second);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
