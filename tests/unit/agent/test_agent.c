/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real agent in a process of its own, with a source that starts no ranks: it registers its host, opens the sockets of
 * its relay, and gets its plan, or says why it cannot.
 */
#include "agent/agent.h"

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

static int take_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct hvd_agent *agent = arg;
	const json_t *env = json_array_get(json_object_get(plan, "ranks"), 0);
	const char *port = json_string_value(json_object_get(env, "HOROVOD_GLOO_RENDEZVOUS_PORT"));
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)atoi(port ? port : ""))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	agent->status = connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 ? SERVED : NO_RELAY;
	close(fd);
	return 0;
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

	hvd_agent_rank_ended(agent, 0, &exit);
	hvd_agent_done(agent, false);
	hvd_agent_done(agent, false);
	hvd_agent_quit(agent);
}

static void close_nothing(void *arg)
{
}

static int agent_of(const struct launch *l)
{
	static const struct hvd_rank_source source = {
		.plan = take_plan, .refused = refused, .failed = failed, .end = end, .close = close_nothing};
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

RUN_TESTS(.setup = launch_setup, .teardown = launch_teardown)
