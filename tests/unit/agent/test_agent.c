/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real agent in a process of its own, with a source that starts no ranks: it registers its host, opens the sockets of
 * its relay, and gets its plan, or says why it cannot.
 */
#include "agent/agent.h"

#include "launcher/world/job_store.h"
#include "lib/net/listen.h"

#include "tests/unit/launch_agents.h"
#include "tests/unit/tcpstore_bytes.h"

#include <signal.h>
#include <sys/resource.h>
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

static const char *env_of(const json_t *env, const char *name)
{
	const char *value = json_string_value(json_object_get(env, name));

	return value ? value : "";
}

/* A connection to this port; -1: there is none. */
static int connect_to(const char *port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Connect to the relay of a rank with these variables, and write the text to it. The connection stays open: the relay reads it
 * later, and asks whose it is. */
static int write_to_relay(struct hvd_agent *agent, const json_t *env, const char *text)
{
	int fd = connect_to(env_of(env, "HOROVOD_GLOO_RENDEZVOUS_PORT"));

	agent->status = fd >= 0 ? SERVED : NO_RELAY;
	dprintf(fd, "%s", text);
	return fd;
}

static int take_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct hvd_agent *agent = arg;

	if (!json_is_true(json_object_get(plan, "stay")))
		close(write_to_relay(agent, json_array_get(json_object_get(plan, "ranks"), 0), ""));
	return 0;
}

/* The next byte that the TCPStore at this port answers to a client which sends these requests; -1: it closes the
 * connection. */
static int ask_store(const char *port, struct bytes *requests)
{
	int fd = connect_to(port);
	unsigned char answer;
	ssize_t n;

	n = write(fd, requests->p, requests->n) == (ssize_t)requests->n ? read(fd, &answer, 1) : -1;
	free(requests->p);
	*requests = (struct bytes){0};
	close(fd);
	return n == 1 ? answer : -1;
}

static int query(const char *port, enum hvd_tcpstore_query query)
{
	static const char *const key = "k";
	struct bytes requests = {0};

	add_validate(&requests);
	if (query == HVD_TCPSTORE_ADD)
		add_count(&requests, query, key, 1);
	else
		add_keys(&requests, query, &key, 1);
	return ask_store(port, &requests);
}

/* A process of another user gets an error of HTTP, whatever it asks. True also where there can be none. */
static bool refuses_nobody(const char *port)
{
	const pid_t pid = geteuid() == 0 ? fork() : -1;
	int ended;

	if (pid == 0)
		_exit(setgid(65534) || setuid(65534) || query(port, HVD_TCPSTORE_CHECK) != 'H' ? 1 : 0);
	return pid < 0 || (waitpid(pid, &ended, 0) == pid && ended == 0);
}

/* That of the first world adds to a key of the job's store. That of the second waits for it, and does not find it in its
 * own store. */
static bool meet(unsigned world, const json_t *env)
{
	const char *job = env_of(env, "HVD_JOB_STORE"), *own = env_of(env, "MASTER_PORT");

	if (strncmp(job, "127.0.0.1:", 10) != 0)
		return false;
	job += 10;
	if (world == 0)
		return query(job, HVD_TCPSTORE_ADD) == 1;
	return query(job, HVD_TCPSTORE_WAIT) == 0 && query(own, HVD_TCPSTORE_CHECK) == 1 && refuses_nobody(job);
}

/* The rank stores the number of its world. Where there is a store of the job, it is a process, which talks to the relays of
 * this one, and it stores another number if it has not met the others. */
static void start(void *arg, unsigned world, const json_t *order)
{
	const json_t *env = json_object_get(order, "env");
	const bool shared = json_object_get(env, "HVD_JOB_STORE");
	struct hvd_agent *agent = arg;
	char text[64];
	int fd;

	agent->status = SERVED;
	signal(SIGCHLD, SIG_IGN); /* nobody waits for it */
	if (shared && fork() > 0)
		return;
	signal(SIGCHLD, SIG_DFL);
	if (shared)
		alarm(20);
	snprintf(text, sizeof(text), "PUT /s/k HTTP/1.0\r\nContent-Length: 1\r\n\r\n%u",
		 shared && !meet(world, env) ? 9 : world);
	fd = write_to_relay(agent, env, text);
	if (shared)
		_exit(read(fd, text, sizeof(text)) > 0 ? 0 : 1);
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

/* Those that the user has asked for, and not those that only some frameworks would like to have. */
TEST_IN(too_few_ports_for_the_ranks, struct launch *l)
{
	struct rlimit files, few;
	pid_t pid;

	launch_start(l);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	few = (struct rlimit){.rlim_cur = 100, .rlim_max = files.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	l->boot.role_ports = 100;
	pid = start_agent(l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	until(l, l->job.failed);
	assert_string_equal(l->job.why.host, "here");
	assert_in(l->job.why.msg, "cannot reserve 100 ports for the ranks (--ports): ");
	ends_with(pid, FAILED);
}

/* ---- two worlds on one host ---- */

struct worlds {
	struct hvd_agent_registry *agents;
	struct hvd_world *v[2];
	struct hvd_rv *rv[2];
	struct hvd_job_store *store;
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

static void begin_worlds(struct worlds *w, struct launch *l, bool shared)
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
	if (shared)
		w->store = hvd_job_store_create(l->base, w->agents, &l->opts, w->v, 2, &l->log, NULL);
	hvd_worlds_boot(w->v, 2, &l->boot);
	assert_int_equal(l->boot.worlds, shared ? 3 : 2);
	hvd_agent_registry_expect(w->agents, 0, "here");
}

static void end_worlds(struct worlds *w, struct launch *l, pid_t pid)
{
	hvd_agent_registry_end(w->agents);
	until(l, w->here == 0);
	ends_with(pid, SERVED);
	hvd_agent_registry_destroy(w->agents);
	for (int i = 0; i < 2; i++)
		hvd_world_destroy(w->v[i]);
	hvd_job_store_destroy(w->store);
}

/* Rank 0 of this world, on the only host. */
static void start_rank(struct hvd_world *world)
{
	char name[] = "here", *names[] = {name};
	const int tasks = 1;
	struct hvd_layout layout;

	assert_int_equal(hvd_layout_from_tasks(&layout, names, &tasks, NULL, 1, NULL), 0);
	hvd_world_prepare(world, &layout);
	hvd_world_start(world, 0, 0, 1, NULL);
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

	begin_worlds(&w, l, false);
	pid = start_agent(l);
	until(l, w.here == 1);
	for (int i = 0; i < 2; i++)
		start_rank(w.v[i]);
	until(l, value_of(w.rv[0]) && value_of(w.rv[1]));
	assert_int_equal(value_of(w.rv[0]), '0');
	assert_int_equal(value_of(w.rv[1]), '1');
	end_worlds(&w, l, pid);
}

/* What binding the port gives: 0, or an error. */
static int bind_to(in_port_t port, bool reuse)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = reuse, rc;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	rc = bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(fd, 1) == 0 ? 0 : errno;
	close(fd);
	return rc;
}

/* They are known before the ranks are there, and only the ranks' programs get them. */
TEST_IN(and_ports_for_the_ranks_of_each, struct launch *l)
{
	struct worlds w = {.here = 0};
	in_port_t ports[4];
	pid_t pid;

	l->opts.role_ports.each = 2;
	l->opts.role_ports.ranks = 1;
	begin_worlds(&w, l, false);
	assert_int_equal(l->boot.role_ports, 4);
	assert_int_equal(hvd_world_rank_port(w.v[0], 0, 0, 0), 0);
	pid = start_agent(l);
	until(l, w.here == 1);
	for (int i = 0; i < 4; i++) {
		ports[i] = hvd_world_rank_port(w.v[i / 2], 0, 0, (unsigned)i % 2);
		assert_int_not_equal(ports[i], 0);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(ports[i], ports[k]);
		assert_int_equal(bind_to(ports[i], false), EADDRINUSE);
		assert_int_equal(bind_to(ports[i], true), 0);
	}
	start_rank(w.v[0]); /* with which the agent has something to end */
	until(l, value_of(w.rv[0]));
	end_worlds(&w, l, pid);
	assert_int_equal(bind_to(ports[0], false), 0);
}

/* Ranks of two worlds meet at the store of the job, and nobody else comes there. */
TEST_IN(and_a_third_that_both_share, struct launch *l)
{
	struct worlds w = {.here = 0};
	pid_t pid;

	begin_worlds(&w, l, true);
	pid = start_agent(l);
	until(l, w.here == 1);
	start_rank(w.v[1]);
	start_rank(w.v[0]);
	until(l, value_of(w.rv[0]) && value_of(w.rv[1]));
	assert_int_equal(value_of(w.rv[0]), '0');
	assert_int_equal(value_of(w.rv[1]), '1');
	/* It keeps its values when all ranks of a world restart. */
	hvd_rv_clear(w.rv[1], NULL);
	hvd_world_renew(w.v[0], 1);
	hvd_world_renew(w.v[1], 1);
	start_rank(w.v[1]);
	until(l, value_of(w.rv[1]));
	assert_int_equal(value_of(w.rv[1]), '1');
	end_worlds(&w, l, pid);
}

RUN_TESTS(.setup = launch_setup, .teardown = launch_teardown)
