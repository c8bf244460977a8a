/* SPDX-License-Identifier: Apache-2.0 */
/* A real node agent that opens the sockets of its host's relay and registers them, or says why it cannot. */
#include "agent/relay.h"

#include "lib/net/listen.h"

#include "launch_agents.h"

struct world {
	struct launch *l;
	struct hvd_taskinfo info;
	uint32_t rank;
	struct hvd_driver_client *agent;
	struct hvd_relay_sockets sockets;
	json_t *plan;
	bool failed;
	struct hvd_err why;
	int taken; /* listens at the only port of the range */
};

static void on_plan(const json_t *plan, void *arg)
{
	((struct world *)arg)->plan = json_deep_copy(plan);
}

static void on_message(json_t *msg, void *arg)
{
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct world *w = arg;

	w->failed = true;
	w->why = *why;
}

static void on_bytes(const void *data, size_t len, void *arg)
{
}

SETUP(setup, struct world, w)
{
	launch_setup((void **)&w->l);
	w->taken = -1;
}

static int teardown(void **state)
{
	struct world *w = *state;
	void *l = w->l;
	int rc;

	hvd_driver_client_destroy(w->agent);
	hvd_relay_sockets_close(&w->sockets);
	json_decref(w->plan);
	if (w->taken >= 0)
		close(w->taken);
	rc = launch_teardown(&l);
	free(w);
	return rc;
}

/* The only host of a job with one rank. */
static void offer(struct world *w)
{
	static const struct hvd_driver_client_ops ops = {
		.plan = on_plan, .message = on_message, .failed = on_failed, .bytes = on_bytes};
	struct hvd_session session = {.identity = {.kind = HVD_ID_KEY, .key = w->l->key}};
	struct hvd_err err = {0};

	w->info = (struct hvd_taskinfo){.name = "here", .nodes = 1, .size = 1, .local_size = 1, .ranks = &w->rank};
	memcpy(session.id, w->l->boot.session, sizeof(session.id));
	hvd_session_bind_key(&session);
	w->agent =
		hvd_driver_client_create(w->l->base, NULL, &w->l->boot, &session, &w->info, &ops, w, &w->l->log, &err);
	if (!w->agent)
		print_error("%s\n", err.msg);
	assert_non_null(w->agent);
	hvd_relay_offer(w->agent, &w->l->boot, &w->info, &w->sockets);
}

TEST_IN(its_ranks_meet_there, struct world *w)
{
	const json_t *env;

	launch_start(w->l);
	offer(w);
	assert_int_equal(w->sockets.refusal.code, HVD_OK);
	assert_true(w->sockets.port > 0);
	until(w->l, w->plan && w->l->started);
	env = json_array_get(json_object_get(w->plan, "ranks"), 0);
	assert_string_equal(json_string_value(json_object_get(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR")), "127.0.0.1");
	assert_int_equal(atoi(json_string_value(json_object_get(env, "HOROVOD_GLOO_RENDEZVOUS_PORT"))),
			 w->sockets.port);
	assert_false(w->failed);
}

/* No plan is made with it, although it is the last host that is waited for. */
TEST_IN(a_range_that_is_full, struct world *w)
{
	in_port_t port;

	launch_start(w->l);
	w->taken = hvd_listen_any(true, 0, 0, &port, NULL);
	assert_true(w->taken >= 0);
	w->l->boot.port_lo = w->l->boot.port_hi = port;
	offer(w);
	assert_int_equal(w->sockets.port, 0);
	until(w->l, w->l->failed && w->failed);
	assert_string_equal(w->l->why.host, "here");
	assert_in(w->l->why.msg, "cannot open the port of the rendezvous relay: ");
	assert_in(w->l->why.msg, "in use");
	assert_in(w->l->why.hint, "SrunPortRange");
	assert_int_equal(w->why.code, HVD_E_FAILED); /* the driver tells the user */
	assert_int_equal(w->l->started, 0);
	assert_null(w->plan);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
