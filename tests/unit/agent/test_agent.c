/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real agent in a process of its own, with a source that starts no ranks: it registers its host, opens the sockets of
 * its relay, and gets its plan, or says why it cannot.
 */
#include "agent/agent.h"

#include "launcher/world/world.h"
#include "lib/net/listen.h"

#include "tests/unit/launch_agents.h"

#include <sys/wait.h>

/* What the process ends with. */
enum {
	SERVED = 40,    /* its relay is where the plan says, and the ranks were ended by order */
	NO_RELAY = 41,  /* there is none */
	REFUSED = 42,   /* by the plan */
	NOT_TOLD = 43,  /* the agent failed, and the user was not told by the driver */
	FAILED = 44,    /* the agent failed, and the driver has told the user */
	RANK_STATUS = 7 /* of the one rank */
};

/* ---- in the process of the agent ---- */

/* Connect to the relay of a rank with these variables, and write the text to it. */
static void write_to_relay(struct hvd_agent *agent, const json_t *env, const char *text)
{
	const char *port = json_string_value(json_object_get(env, "HOROVOD_GLOO_RENDEZVOUS_PORT"));
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)atoi(port ? port : ""))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	agent->status = connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 ? SERVED : NO_RELAY;
	if (*text)
		dprintf(fd, "%s", text); /* it stays open: the relay reads it later, and asks whose it is */
	else
		close(fd);
}

static int take_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct hvd_agent *agent = arg;

	if (!json_is_true(json_object_get(plan, "stay")))
		write_to_relay(agent, json_array_get(json_object_get(plan, "ranks"), 0), "");
	return 0;
}

/* The rank stores the number of its world. */
static void start(void *agent, unsigned world, const json_t *order)
{
	char put[64];

	snprintf(put, sizeof(put), "PUT /s/k HTTP/1.0\r\nContent-Length: 1\r\n\r\n%u", world);
	write_to_relay(agent, json_object_get(order, "env"), put);
}

static void quit_with(struct hvd_agent *agent, int status)
{
	agent->status = status;
	hvd_agent_quit(agent);
}

static void refused(void *arg, const struct hvd_err *why)
{
	quit_with(arg, REFUSED);
}

static void failed(void *arg, const struct hvd_err *why)
{
	quit_with(arg, why->code == HVD_E_FAILED ? FAILED : NOT_TOLD);
}

static void end(void *agent)
{
	const struct hvd_rank_end exit = {.rank = 0, .status = RANK_STATUS << 8};

	hvd_agent_rank_ended(agent, 0, 0, &exit);
	hvd_agent_done(agent, false);
	hvd_agent_done(agent, false);
	hvd_agent_quit(agent);
}

static void close_nothing(void *arg)
{
}

static int agent_of(const struct launch *l)
{
	static const struct hvd_rank_source source = {.plan = take_plan,
						      .refused = refused,
						      .failed = failed,
						      .start = start,
						      .end = end,
						      .close = close_nothing};
	struct hvd_session session = {.identity = {.kind = HVD_ID_KEY, .key = l->key}};
	uint32_t rank = 0;
	struct hvd_taskinfo info = {.name = "here", .nodes = 1, .size = 1, .local_size = 1, .ranks = &rank};
	struct hvd_agent agent = {.base = event_base_new(),
				  .boot = &l->boot,
				  .session = &session,
				  .info = &info,
				  .log = &l->log,
				  .source = &source,
				  .ranks = &agent};

	memcpy(session.id, l->boot.session, sizeof(session.id));
	hvd_session_bind_key(&session);
	hvd_agent_run(&agent);
	return agent.status;
}

/* ---- in the test's process ---- */

/* Start the only host of a job with one rank. */
static pid_t start_agent(const struct launch *l)
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(30); /* whatever happens */
		_exit(agent_of(l));
	}
	assert_true(pid > 0);
	return pid;
}

static void ends_with(pid_t pid, int status)
{
	int ended;

	assert_int_equal(waitpid(pid, &ended, 0), pid);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), status);
}

TEST_IN(a_plan_an_order_and_an_end, struct launch *l)
{
	pid_t pid;

	launch_start(l);
	pid = start_agent(l);
	until(l, l->job.started);
	hvd_agent_registry_end_ranks(l->job.starter.job->agents);
	until(l, l->exits && l->job.all_ended);
	assert_int_equal(l->exit_rank, 0);
	assert_int_equal(l->exit_status, RANK_STATUS);
	assert_string_equal(l->exit_host, "here");
	ends_with(pid, SERVED);
	assert_int_equal(l->exits, 1);
	assert_int_equal(l->job.all_ended, 1);
	assert_string_equal(static_job_gone_host(&l->job), "");
}

/* No plan is made with it, although it is the last host that is waited for. */
TEST_IN(a_range_of_ports_that_is_full, struct launch *l)
{
	in_port_t port;
	int taken;
	pid_t pid;

	launch_start(l);
	taken = hvd_listen_any(true, 0, 0, &port, NULL);
	assert_true(taken >= 0);
	l->boot.port_lo = l->boot.port_hi = port;
	pid = start_agent(l);
	until(l, l->job.failed);
	close(taken);
	assert_string_equal(l->job.why.host, "here");
	assert_in(l->job.why.msg, "cannot open the port of the rendezvous relay: ");
	assert_in(l->job.why.msg, "in use");
	assert_in(l->job.why.hint, "SrunPortRange");
	ends_with(pid, FAILED);
	assert_int_equal(l->job.started, 0);
}

/* ---- two worlds on one host ---- */

struct worlds {
	struct hvd_agent_registry *agents;
	struct hvd_world *v[2];
	struct hvd_rv *rv[2];
	int here;
};

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	*(struct hvd_rv **)arg = rv;
	return 0;
}

static void on_admitted(uint32_t host, void *arg)
{
	((struct worlds *)arg)->here++;
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	fail_msg("%s", why->msg);
}

static void on_left(uint32_t host, bool lost, void *arg)
{
	((struct worlds *)arg)->here--;
}

static void on_start_failed(const struct hvd_err *why, void *arg)
{
	fail_msg("%s", why->msg);
}

static void begin_worlds(struct worlds *w, struct launch *l)
{
	static const struct hvd_agent_registry_ops ops = {
		.admitted = on_admitted, .gone = on_gone, .left = on_left, .failed = on_start_failed};
	static const struct hvd_world_ops world_ops = {.opened = on_opened};
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = l->key};

	assert_int_equal(hvd_session_create(&l->session, &id, NULL), 0);
	w->agents = hvd_agent_registry_create(l->base, false, &l->opts, &l->session, &ops, w, &l->log, NULL);
	assert_non_null(w->agents);
	for (int i = 0; i < 2; i++) {
		w->v[i] = hvd_world_create(l->base, w->agents, &l->opts, &world_ops, &w->rv[i], &l->log, NULL);
		assert_non_null(w->v[i]);
	}
	hvd_worlds_boot(w->v, 2, &l->boot);
	hvd_agent_registry_expect(w->agents, 0, "here");
}

/* Rank 0 of this world, on the only host. */
static void start_rank(struct hvd_world *world)
{
	char name[] = "here", *names[] = {name};
	const int tasks = 1;
	struct hvd_layout layout;

	assert_int_equal(hvd_layout_from_tasks(&layout, names, &tasks, NULL, 1, NULL), 0);
	hvd_world_prepare(world, &layout);
	hvd_world_start(world, 0, 0, 1);
}

static char value_of(struct hvd_rv *rv)
{
	const struct hvd_rv_value *value = hvd_rv_get(rv, "s", "k");

	return value && value->len == 1 ? *(const char *)value->data : '\0';
}

/* Rank 0 of each stores a value under the same key. */
TEST_IN(two_worlds_have_two_stores, struct launch *l)
{
	struct worlds w = {.here = 0};
	pid_t pid;

	begin_worlds(&w, l);
	assert_int_equal(l->boot.worlds, 2);
	pid = start_agent(l);
	until(l, w.here == 1);
	for (int i = 0; i < 2; i++)
		start_rank(w.v[i]);
	until(l, value_of(w.rv[0]) && value_of(w.rv[1]));
	assert_int_equal(value_of(w.rv[0]), '0');
	assert_int_equal(value_of(w.rv[1]), '1');
	hvd_agent_registry_end(w.agents);
	until(l, w.here == 0);
	ends_with(pid, SERVED);
	hvd_agent_registry_destroy(w.agents);
	for (int i = 0; i < 2; i++)
		hvd_world_destroy(w.v[i]);
}

RUN_TESTS(.setup = launch_setup, .teardown = launch_teardown)
