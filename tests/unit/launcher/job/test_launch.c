/* SPDX-License-Identifier: Apache-2.0 */
/* Whole launches without a scheduler: a static job, and agents that the test plays. */
#include "launcher/events/trace.h"
#include "launcher/world/stacks.h"
#include "launcher/world/store_waits.h"
#include "tests/unit/launch_agents.h"

#include <sys/resource.h>

/* A variable of the rank with this local number. */
static const char *env_of(const struct agent *s, size_t local_rank, const char *name)
{
	const json_t *rank = json_array_get(json_object_get(s->plan, "ranks"), local_rank);
	const char *value = json_string_value(json_object_get(rank, name));

	return value ? value : "(not set)";
}

static const char *env(const struct agent *s, const char *name)
{
	return env_of(s, 0, name);
}

static int number(const struct agent *s, size_t local_rank, const char *name)
{
	return atoi(env_of(s, local_rank, name));
}

TEST_IN(every_rank_gets_its_place, struct launch *l)
{
	struct agent *s[3];

	hvd_strv_add(&l->opts.extra_env, "EXTRA=a=b c");
	launch_start(l);
	for (int h = 0; h < 3; h++)
		s[h] = agent_connect(l, registration(h, 3, 2, false));
	until(l, s[0]->plan && s[1]->plan && s[2]->plan);
	for (int r = 0; r < 6; r++) {
		const struct agent *at = s[r / 2];
		size_t i = (size_t)(r % 2);
		char host[16];

		snprintf(host, sizeof(host), "node%d", r / 2);
		assert_int_equal(json_array_size(json_object_get(at->plan, "ranks")), 2);
		assert_int_equal(number(at, i, "HOROVOD_RANK"), r);
		assert_int_equal(number(at, i, "HOROVOD_SIZE"), 6);
		assert_int_equal(number(at, i, "HOROVOD_LOCAL_RANK"), r % 2);
		assert_int_equal(number(at, i, "HOROVOD_LOCAL_SIZE"), 2);
		assert_int_equal(number(at, i, "HOROVOD_CROSS_RANK"), r / 2);
		assert_int_equal(number(at, i, "HOROVOD_CROSS_SIZE"), 3);
		assert_string_equal(env_of(at, i, "HOROVOD_HOSTNAME"), host);
		assert_string_equal(env_of(at, i, "HOROVOD_GLOO_IFACE"), "eth0");
		assert_string_equal(env_of(at, i, "NCCL_SOCKET_IFNAME"), "=eth0");
		assert_string_equal(env_of(at, i, "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
		assert_true(number(at, i, "HOROVOD_GLOO_RENDEZVOUS_PORT") > 0);
		assert_string_equal(env_of(at, i, "EXTRA"), "a=b c");
	}
	assert_int_equal(l->job.started, 1);
	assert_int_equal(l->job.failed, 0);
	/* The one connection of a host lasts as long as its ranks. */
	for (int i = 0; i < 20; i++)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
	assert_false(s[0]->closed || s[1]->closed || s[2]->closed);
	assert_string_equal(static_job_gone_host(&l->job), "");
}

TEST_IN(whom_each_host_is_to_probe, struct launch *l)
{
	struct agent *s[3];

	launch_start(l);
	for (int h = 0; h < 3; h++)
		s[h] = agent_connect(l, registration(h, 3, 1, true));
	until(l, s[0]->probe && s[1]->probe && s[2]->probe);
	for (int h = 0; h < 3; h++) {
		json_t *targets = json_object_get(s[h]->probe, "targets"), *target;
		size_t i;

		assert_int_equal(json_array_size(targets), 2);
		json_array_foreach(targets, i, target)
		{
			json_int_t n = json_integer_value(json_object_get(target, "n"));

			assert_int_not_equal(n, h);
			assert_int_equal(json_integer_value(json_object_get(target, "p")), 4000 + n);
			assert_int_equal(json_array_size(json_object_get(target, "a")), 2);
		}
	}
}

TEST_IN(one_machine_needs_no_probe, struct launch *l)
{
	struct agent *s;

	launch_start(l);
	s = agent_connect(l, registration(0, 1, 1, false));
	until(l, s->plan);
	assert_null(s->probe);
	assert_string_equal(env(s, "HOROVOD_GLOO_IFACE"), "lo");
	assert_string_equal(env(s, "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
	until(l, l->job.started);
}

/* ---- failures ---- */

/* The launch fails, once, and all shims are told. */
static void fails(struct launch *l, enum hvd_errc code, const char *text)
{
	until(l, l->job.failed);
	assert_int_equal(l->job.why.code, code);
	assert_in(l->job.why.msg, text);
	for (int i = 0; i < l->n_agents; i++)
		if (l->agents[i].conn)
			until(l, agent_heard(&l->agents[i], l->job.why.code == HVD_E_USAGE ? "misused" : "failed") ||
					 l->agents[i].closed);
	assert_int_equal(l->job.failed, 1);
	assert_int_equal(l->job.started, 0);
}

TEST_IN(a_host_registers_twice, struct launch *l)
{
	struct agent *first;

	launch_start(l);
	first = agent_connect(l, registration(1, 3, 1, false));
	until(l, first->conn);
	agent_connect(l, registration(1, 3, 1, false));
	fails(l, HVD_E_PROTO, "node1 registers as host 1, but node1 already has this number");
	assert_true(agent_heard(first, "failed"));
}

/* Over the same connection: the second one is ignored, and the host whose number it has can register. */
TEST_IN(an_agent_registers_twice, struct launch *l)
{
	struct agent *s;

	launch_start(l);
	s = agent_connect(l, registration(0, 2, 1, false));
	until(l, s->conn);
	hvd_conn_send(s->conn, registration(1, 2, 1, false));
	agent_connect(l, registration(1, 2, 1, false));
	until(l, agent_heard(s, "probe"));
	assert_int_equal(l->job.failed, 0);
}

TEST_IN(sizes_that_contradict, struct launch *l)
{
	struct agent *s;

	launch_start(l);
	s = agent_connect(l, registration(0, 3, 2, false));
	until(l, s->conn);
	agent_connect(l, registration(1, 4, 2, false));
	fails(l, HVD_E_PROTO, "node1 knows of 4 hosts");
}

TEST_IN(more_hosts_than_the_launcher_asked_for, struct launch *l)
{
	l->opts.hosts = 2;
	l->opts.ranks = 4;
	launch_start(l);
	agent_connect(l, registration(0, 2, 3, false));
	fails(l, HVD_E_PROTO, "the driver knows of 2 and 4");
}

TEST_IN(more_hosts_than_descriptors, struct launch *l)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = l->key};
	struct rlimit before, few;
	struct hvd_err err = {0};

	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = 200;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	l->opts.hosts = 180;
	assert_int_equal(hvd_session_create(&l->session, &id, NULL), 0);
	assert_fails_with(static_job_create(&l->job, l->base, &l->opts, &l->session, &l->log, &err), err, HVD_E_LIMIT,
			  "180 hosts need a connection each, but this process may open only 200 files");
	assert_in(err.hint, "more than 212");
	static_job_destroy(&l->job);
	l->opts.hosts = 150;
	launch_start(l);
	setrlimit(RLIMIT_NOFILE, &before);
}

TEST_IN(a_rank_on_two_hosts, struct launch *l)
{
	json_t *other = registration(1, 2, 2, false);

	launch_start(l);
	json_array_set_new(json_object_get(other, "ranks"), 0, json_integer(1));
	agent_connect(l, registration(0, 2, 2, false));
	agent_connect(l, other);
	until(l, l->job.failed);
	assert_true(l->job.why.code != HVD_OK && l->job.why.msg[0]);
}

TEST_IN(an_agent_that_is_lost, struct launch *l)
{
	struct agent *s;

	launch_start(l);
	s = agent_connect(l, registration(1, 2, 1, false));
	until(l, s->conn);
	hvd_conn_finish(s->conn, hvd_deadline_in(5));
	s->conn = NULL;
	fails(l, HVD_E_FAILED, "node agent ended before the start was complete");
	assert_string_equal(l->job.why.host, "node1");
}

/* As when Slurm cannot start the tasks of a host and ends those of the others, or somebody has cancelled the job. */
TEST_IN(the_agents_of_all_hosts_that_came_are_ended, struct launch *l)
{
	l->opts.hosts = 3;
	for (int i = 0; i < 3; i++)
		hvd_strv_add(&l->opts.names, (const char *[]){"node0", "node1", "node2"}[i]);
	launch_start(l);
	for (int h = 1; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false));
	until(l, l->agents[0].conn && l->agents[1].conn);
	test_clock_pass(l->base, 0.1);
	for (int h = 0; h < 2; h++) {
		hvd_conn_finish(l->agents[h].conn, hvd_deadline_in(5));
		l->agents[h].conn = NULL;
	}
	fails(l, HVD_E_FAILED, "no registration from node0, and the node agents of all other hosts have ended");
}

TEST_IN(the_timeout_names_who_was_being_measured, struct launch *l)
{
	l->spec.deadlines.start = 2;
	l->spec.preflight = HVD_PREFLIGHT_FULL;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false));
	fails(l, HVD_E_TIMEOUT, "2 seconds: no measurement of the network between node[0-1]");
}

TEST_IN(what_a_host_cannot_do, struct launch *l)
{
	struct agent *s;

	launch_start(l);
	s = agent_connect(l, registration(0, 2, 1, false));
	until(l, s->conn);
	hvd_conn_send(s->conn, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", "node0", "why", "no sockets",
					 "hint", "buy some"));
	fails(l, HVD_E_FAILED, "no sockets");
	assert_string_equal(l->job.why.host, "node0");
	assert_string_equal(l->job.why.hint, "buy some");
}

/* Nobody is awaited any longer. */
TEST_IN(all_hosts_are_left_out, struct launch *l)
{
	struct agent *s;

	l->opts.hosts = 1;
	l->spec.spares = 1;
	l->spec.preflight = HVD_PREFLIGHT_QUICK;
	launch_start(l);
	s = agent_connect(l, registration(0, 1, 1, false));
	s->unresponsive = true;
	until(l, agent_heard(s, "probe"));
	hvd_conn_send(s->conn, json_pack("{s:s, s:[], s:{s:s}}", "t", "report", "edges", "preflight", "gpu", "broken"));
	fails(l, HVD_E_FAILED, "with 1 spare host no host is left for the ranks");
}

TEST_IN(the_timeout_names_who_is_missing, struct launch *l)
{
	char name[16];

	l->opts.hosts = 5;
	l->spec.deadlines.start = 0.2;
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "node%d", i);
		hvd_strv_add(&l->opts.names, name);
	}
	launch_start(l);
	agent_connect(l, registration(0, 5, 1, false));
	agent_connect(l, registration(3, 5, 1, false));
	fails(l, HVD_E_TIMEOUT, "0.2 seconds");
	assert_in(l->job.why.msg, "no registration from node[1-2,4]");
	assert_in(l->job.why.hint, "--start-timeout");
}

TEST_IN(the_timeout_names_who_has_not_probed, struct launch *l)
{
	l->spec.deadlines.start = 0.3;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false))->unresponsive = h == 1;
	fails(l, HVD_E_TIMEOUT, "no probe report from node1");
}

TEST_IN(a_timeout_from_the_first_agent, struct launch *l)
{
	l->spec.deadlines.start = 0.05;
	l->opts.mode = HVD_START_RANKS;
	l->opts.queued = true;
	launch_start(l);
	test_clock_pass(l->base, 0.2);
	assert_int_equal(l->job.failed, 0); /* still in the queue */
	agent_connect(l, registration(0, 2, 1, false));
	fails(l, HVD_E_TIMEOUT, "no registration from");
}

/* As when an MPI waits for a host for ever. */
TEST_IN(a_timeout_where_no_agent_comes, struct launch *l)
{
	l->spec.deadlines.start = 0.05;
	l->opts.mode = HVD_START_RANKS;
	launch_start(l);
	fails(l, HVD_E_TIMEOUT, "no registration from any host");
}

/* ---- interfaces ---- */

TEST_IN(nics_that_a_host_lacks, struct launch *l)
{
	hvd_strv_add(&l->spec.interfaces, "eth0");
	hvd_strv_add(&l->spec.interfaces, "mlx5");
	launch_start(l);
	agent_connect(l, registration(0, 2, 1, true));
	fails(l, HVD_E_USAGE, "no usable interface mlx5");
	assert_in(l->job.why.msg, "ib0");
	assert_string_equal(l->job.why.host, "node0");
}

/* The agents go on counting their own interfaces: eth0 is their second. */
TEST_IN(nics_that_all_have, struct launch *l)
{
	struct agent *s[3];

	hvd_strv_add(&l->spec.interfaces, "eth0");
	launch_start(l);
	for (int h = 0; h < 3; h++) {
		s[h] = agent_connect(l, registration(h, 3, 1, true));
		s[h]->from_if = 1;
	}
	until(l, l->job.failed || l->job.started);
	assert_string_equal(l->job.why.msg, "");
	until(l, s[0]->plan && s[1]->plan && s[2]->plan);
	assert_int_equal(
		json_array_size(json_object_get(json_array_get(json_object_get(s[0]->probe, "targets"), 0), "a")), 1);
	for (int h = 0; h < 3; h++)
		assert_string_equal(env(s[h], "NCCL_SOCKET_IFNAME"), "=eth0");
}

TEST_IN(no_network_in_common, struct launch *l)
{
	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false))->to = h == 2 ? HVD_REACH_SILENT : HVD_REACH_OK;
	fails(l, HVD_E_NET, "no network interface connects all 3 hosts");
	assert_in(l->job.why.msg, "eth0: node2 -> ");
	assert_in(l->job.why.msg, "no answer");
}

/* ---- agents that say odd things ---- */

TEST_IN(messages_that_mean_nothing, struct launch *l)
{
	static const char *const texts[] = {
		"{}",
		"{\"t\":7}",
		"{\"t\":\"unheard of\"}",
		"{\"t\":\"report\",\"edges\":[],\"rendezvous\":[]}",
		"{\"t\":\"exit\",\"rank\":0,\"status\":0}",
		"{\"t\":\"serving\",\"port\":1}",
		"{\"t\":\"lost\",\"rank\":0}",
		"{\"t\":\"died\"}",
	};
	struct agent *s;

	launch_start(l);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		agent_connect(l, json_loads(texts[i], 0, NULL));
	s = agent_connect(l, registration(0, 1, 1, false));
	until(l, s->plan);
	until(l, l->job.started);
	assert_int_equal(l->job.failed, 0);
	assert_int_equal(l->exits, 0);
}

TEST_IN(a_report_that_names_what_was_not_asked_for, struct launch *l)
{
	struct agent *s;

	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false))->unresponsive = true;
	s = &l->agents[0];
	until(l, s->probe);
	hvd_conn_send(s->conn, json_pack("{s:s, s:[[i,i,i,i,i]]}", "t", "report", "edges", 1, 77, 0, 0, 5));
	fails(l, HVD_E_PROTO, "not asked for");
	assert_string_equal(l->job.why.host, "node0");
}

TEST_IN(an_agent_with_another_key, struct launch *l)
{
	struct agent *stranger, *s;

	launch_start(l);
	l->key.b[0] ^= 1;
	stranger = agent_connect(l, registration(0, 1, 1, false));
	until(l, stranger->down);
	assert_in(stranger->why.msg, "refuses this process");
	assert_int_equal(l->job.failed, 0);
	l->key.b[0] ^= 1;
	s = agent_connect(l, registration(0, 1, 1, false));
	until(l, s->plan);
}

struct warnings {
	int refused, further;
};

static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	struct warnings *warnings = arg;

	if (level > HVD_LOG_WARN)
		return;
	warnings->refused += strstr(text, "refused a connection") != NULL;
	warnings->further += strstr(text, "further refused connections are not reported") != NULL;
}

TEST_IN(strangers_do_not_fill_the_log, struct launch *l)
{
	struct warnings warnings = {0};

	l->log.sink = on_log;
	l->log.arg = &warnings;
	launch_start(l);
	l->key.b[0] ^= 1;
	for (int i = 0; i < AGENTS; i++) {
		const struct agent *stranger = agent_connect(l, registration(0, 1, 1, false));

		until(l, stranger->down);
	}
	assert_int_equal(warnings.refused, 8);
	assert_int_equal(warnings.further, 1);
	l->log.sink = NULL;
}

/* ---- agents that start the ranks ---- */

TEST_IN(ranks_are_reported_and_ended, struct launch *l)
{
	struct agent *s[2];
	json_t *ranks;

	l->opts.mode = HVD_START_HOSTS;
	launch_start(l);
	for (int h = 0; h < 2; h++)
		s[h] = agent_connect(l, registration(h, 2, 3, false));
	until(l, s[0]->plan && s[1]->plan);
	until(l, l->job.started);
	ranks = json_object_get(s[1]->plan, "ranks");
	assert_int_equal(json_array_size(ranks), 3);
	for (int r = 0; r < 3; r++)
		assert_int_equal(atoi(json_string_value(json_object_get(json_array_get(ranks, r), "HOROVOD_RANK"))),
				 3 + r);
	assert_false(s[0]->closed);
	hvd_agent_registry_signal(l->job.starter.job->agents, 10);
	until(l, agent_heard(s[0], "signal") && agent_heard(s[1], "signal"));
	hvd_conn_send(s[1]->conn, json_pack("{s:s, s:i, s:i}", "t", "exit", "id", 4, "status", 9));
	until(l, l->exits);
	assert_int_equal(l->exit_rank, 4);
	assert_int_equal(l->exit_status, 128 + 9);
	assert_string_equal(l->exit_host, "node1");
	hvd_conn_send(s[1]->conn, json_pack("{s:s, s:i, s:i}", "t", "exit", "id", 6, "status", 9)); /* none */
	hvd_agent_registry_end_ranks(l->job.starter.job->agents);
	until(l, agent_heard(s[0], "end") && agent_heard(s[1], "end"));
	hvd_conn_finish(s[1]->conn, hvd_deadline_in(5));
	s[1]->conn = NULL;
	until(l, strcmp(static_job_gone_host(&l->job), "node1") == 0);
	assert_int_equal(l->exits, 1);
	assert_int_equal(l->job.failed, 0);
}

/* ---- how ranks end ---- */

/* Two hosts with two ranks each, which have their plan. */
static void start_watched(struct launch *l, struct agent *s[2])
{
	l->opts.mode = HVD_START_RANKS;
	launch_start(l);
	for (int h = 0; h < 2; h++)
		s[h] = agent_connect(l, registration(h, 2, 2, false));
	until(l, s[0]->plan && s[1]->plan);
}

static void say(struct agent *s, const char *type, int rank)
{
	hvd_conn_send(s->conn, json_pack("{s:s, s:i, s:i}", "t", type, "id", rank, "status", 0));
}

static void say_done(struct agent *s, bool munge)
{
	hvd_conn_send(s->conn, json_pack("{s:s, s:b}", "t", "done", "munge", munge));
	hvd_conn_finish(s->conn, hvd_deadline_in(5));
	s->conn = NULL;
}

static void hosts_behind(const struct launch *l, const char *expected)
{
	char *hosts = l->job.policy->ops->hosts(l->job.policy, HVD_HOSTS_BEHIND);

	if (expected)
		assert_string_equal(hosts, expected);
	else
		assert_null(hosts);
	free(hosts);
}

TEST_IN(the_end_of_the_last_rank_is_told, struct launch *l)
{
	struct agent *s[2];

	start_watched(l, s);
	hosts_behind(l, NULL);
	say(s[0], "exit", 0);
	say(s[0], "exit", 1);
	say(s[0], "exit", 3); /* of another host */
	say(s[0], "exit", 1); /* no news */
	until(l, l->exits == 2);
	hosts_behind(l, "node1");
	say_done(s[0], true);
	/* One shim is killed, and takes its rank with it. */
	say(s[1], "lost", 2);
	say(s[1], "exit", 3);
	until(l, l->exits == 3);
	assert_int_equal(l->job.all_ended, 0); /* it has not said whether munged is there */
	say_done(s[1], false);
	until(l, l->job.all_ended);
	for (int i = 0; i < 20; i++)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
	assert_int_equal(l->job.all_ended, 1);
	assert_int_equal(l->job.without_munge->n, 1);
	assert_string_equal(l->job.without_munge->v[0], "node1");
	assert_string_equal(static_job_gone_host(&l->job), "");
}

TEST_IN(ranks_that_the_scheduler_has_ended_are_not_reported, struct launch *l)
{
	struct agent *s[2];

	start_watched(l, s);
	hvd_conn_send(s[0]->conn, json_pack("{s:s, s:i, s:i, s:s}", "t", "exit", "id", 0, "status", 15, "cause",
					    hvd_end_cause_name(HVD_END_WITH_ALL)));
	say(s[0], "exit", 1);
	until(l, l->exits);
	assert_int_equal(l->exits, 1);
	assert_int_equal(l->exit_rank, 1);
	hosts_behind(l, "node1");
}

static void all_of_node0_end(struct launch *l, struct agent *s)
{
	say(s, "exit", 0);
	say(s, "exit", 1);
	say_done(s, true);
	until(l, l->exits == 2);
	for (int i = 0; i < 20; i++)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
}

static void node1_is_lost(struct launch *l, struct agent *s)
{
	hvd_conn_free(s->conn);
	s->conn = NULL;
	until(l, strcmp(static_job_gone_host(&l->job), "node1") == 0);
}

TEST_IN(an_agent_that_says_no_goodbye_is_lost_and_its_ranks_have_ended, struct launch *l)
{
	struct agent *s[2];

	start_watched(l, s);
	node1_is_lost(l, s[1]);
	assert_int_equal(l->job.gone_why.code, HVD_OK);
	all_of_node0_end(l, s[0]);
	assert_int_equal(l->job.all_ended, 1);
	assert_int_equal(l->job.without_munge->n, 0);
}

/* The ranks go on, and nobody tells how they end. */
/* ---- hosts that do not answer ---- */

/* Three hosts, of which these are stopped when the ranks run. */
static void start_and_stop(struct launch *l, bool first, bool second, bool third)
{
	const bool stopped[] = {first, second, third};

	l->opts.mode = HVD_START_HOSTS;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false));
	until(l, l->agents[0].plan && l->agents[1].plan && l->agents[2].plan);
	for (int h = 0; h < 3; h++)
		l->agents[h].unresponsive = stopped[h];
}

TEST_IN(an_agent_that_is_stopped_is_lost, struct launch *l)
{
	start_and_stop(l, false, true, false);
	test_clock_pass(l->base, 14);
	assert_string_equal(static_job_gone_host(&l->job), "");
	test_clock_pass(l->base, 5);
	assert_int_equal(l->job.lost, 1);
	assert_string_equal(l->job.lost_host, "node1");
	assert_int_equal(l->job.gone_why.code, HVD_E_TIMEOUT);
	assert_string_equal(l->job.gone_why.msg, "its node agent has not answered for 16 seconds");
	assert_in(l->job.gone_why.hint, "is hvd-agent stopped there?");
	test_clock_pass(l->base, 60);
	assert_int_equal(l->job.lost, 1);
	assert_int_equal(l->job.failed, 0);
}

static void on_stacks(json_t *answers, void *arg)
{
	*(char **)arg = json_dumps(answers, JSON_COMPACT);
}

/* Slurm, or the agent's silence, tells of the loss before the time of the question is over. */
TEST_IN(a_host_that_is_lost_while_it_is_asked_has_not_answered, struct launch *l)
{
	char *said = NULL;

	start_and_stop(l, false, true, false);
	hvd_stacks_ask(hvd_world_stacks(hvd_job_world(l->job.starter.job)), 15, on_stacks, &said);
	until(l, agent_heard(&l->agents[0], "stacks") && agent_heard(&l->agents[2], "stacks"));
	for (int h = 0; h < 3; h += 2)
		hvd_conn_send(l->agents[h].conn, json_pack("{s:s, s:i, s:[]}", "t", "stacks", "id", 1, "ranks"));
	test_clock_pass(l->base, 5);
	assert_null(said);
	l->job.policy->ops->host_lost(l->job.policy, "node1", "");
	test_clock_pass(l->base, 12);
	assert_non_null(said);
	assert_in(said, "\"silent\":[\"node1\"]");
	free(said);
}

/* As when Slurm suspends the job. It goes on host by host. */
TEST_IN(a_job_that_is_paused_loses_no_host, struct launch *l)
{
	start_and_stop(l, true, true, true);
	test_clock_pass(l->base, 100);
	assert_string_equal(static_job_gone_host(&l->job), "");
	for (int h = 0; h < 3; h++) {
		l->agents[h].unresponsive = false;
		hvd_conn_send(l->agents[h].conn, json_pack("{s:s}", "t", "pong"));
		test_clock_pass(l->base, 7);
	}
	test_clock_pass(l->base, 60);
	assert_string_equal(static_job_gone_host(&l->job), "");
}

TEST_IN(a_host_that_does_not_go_on_after_a_pause_is_lost, struct launch *l)
{
	start_and_stop(l, true, true, true);
	test_clock_pass(l->base, 100);
	for (int h = 0; h < 2; h++) {
		l->agents[h].unresponsive = false;
		hvd_conn_send(l->agents[h].conn, json_pack("{s:s}", "t", "pong"));
	}
	test_clock_pass(l->base, 15);
	assert_string_equal(static_job_gone_host(&l->job), "");
	test_clock_pass(l->base, 5);
	assert_int_equal(l->job.lost, 1);
	assert_string_equal(l->job.lost_host, "node2");
}

/* The ranks of all other hosts have ended, and their agents with them. Nobody but Slurm can say whether the last one is
 * late. */
static bool says_paused, was_asked;
static bool ask_paused(uint32_t job, const struct hvd_log *log)
{
	assert_int_equal(job, 7);
	was_asked = true;
	return says_paused;
}

static void the_last_one_is_stopped(struct launch *l, uint32_t job)
{
	json_t *hello[2] = {registration(0, 2, 1, false), registration(1, 2, 1, false)};

	l->opts.mode = HVD_START_HOSTS;
	l->opts.ask_paused = ask_paused;
	launch_start(l);
	for (int h = 0; h < 2; h++) {
		if (job)
			json_object_set_new(hello[h], "job", json_integer(job));
		agent_connect(l, hello[h]);
	}
	until(l, l->agents[0].plan && l->agents[1].plan);
	l->agents[1].unresponsive = true;
	say(&l->agents[0], "exit", 0);
	hvd_conn_finish(l->agents[0].conn, hvd_deadline_in(5));
	l->agents[0].conn = NULL;
}

TEST_IN(the_last_host_of_a_suspended_job_is_not_lost, struct launch *l)
{
	says_paused = true;
	was_asked = false;
	the_last_one_is_stopped(l, 7);
	test_clock_pass(l->base, 100);
	assert_string_equal(static_job_gone_host(&l->job), "");
	assert_true(was_asked);
	says_paused = false;
	test_clock_pass(l->base, 32);
	assert_int_equal(l->job.lost, 1);
	assert_string_equal(l->job.lost_host, "node1");
}

TEST_IN(the_last_host_is_lost_where_there_is_no_slurm, struct launch *l)
{
	was_asked = false;
	the_last_one_is_stopped(l, 0);
	test_clock_pass(l->base, 19);
	assert_int_equal(l->job.lost, 1);
	assert_false(was_asked);
}

TEST_IN(an_agent_whose_watchdog_tells_of_its_end, struct launch *l)
{
	struct agent *s[2];

	start_watched(l, s);
	node1_is_lost(l, s[1]);
	agent_connect(
		l, json_pack("{s:s, s:i, s:i, s:i, s:i}", "t", "died", "node", 1, "pid", 77, "status", 9, "ended", 5));
	until(l, l->job.died_status == 9);
	all_of_node0_end(l, s[0]);
	assert_int_equal(l->job.all_ended, 0);
	hosts_behind(l, "node1");
	/* But for a shim, which says so itself. */
	agent_connect(l, json_pack("{s:s, s:i, s:i}", "t", "exit", "id", 3, "status", 4 << 8));
	until(l, l->exits == 3);
	assert_string_equal(l->exit_host, "node1");
	l->job.policy->ops->host_lost(l->job.policy, "node1", "");
	assert_int_equal(l->job.all_ended, 1);
}

TEST_IN(shims_whose_parent_has_gone, struct launch *l)
{
	struct agent *s[2];

	start_watched(l, s);
	hvd_conn_send(s[1]->conn, json_pack("{s:s, s:s}", "t", "orphan", "parent", "slurmstepd"));
	until(l, l->job.lost);
	assert_string_equal(l->job.lost_host, "node1");
	assert_int_equal(l->job.gone_why.code, HVD_E_FAILED);
	assert_string_equal(l->job.gone_why.msg, "slurmstepd ended before the ranks that it had started");
	assert_int_equal(l->job.all_ended, 0);
}

/* ---- the rendezvous ---- */

/* One of three ranks calls init_process_group(). */
TEST_IN(it_tells_who_has_not_come, struct launch *l)
{
	static const unsigned char hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 13, 77, 0, 0, 0};
	static const unsigned char init[] = {4,   5,   0,   0, 0, 0, 0, 0, 0, 'i', 'n',
					     'i', 't', '/', 1, 0, 0, 0, 0, 0, 0,   0};
	int fd;
	struct agent *s[3];

	l->spec.init_timeout = 0.2;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		s[h] = agent_connect(l, registration(h, 3, 1, false));
	until(l, s[0]->plan && s[1]->plan && s[2]->plan);
	assert_string_equal(env(s[1], "MASTER_ADDR"), "127.0.0.1");
	assert_int_equal(number(s[1], 0, "MASTER_PORT"), 4002); /* its own relay's */
	fd = dial_loopback(agent_begin_relay(l, s[1]));
	assert_int_equal(write(fd, hello, sizeof(hello)), sizeof(hello));
	assert_int_equal(write(fd, init, sizeof(init)), sizeof(init));
	until(l, l->job.failed);
	assert_int_equal(l->job.started, 1);
	assert_int_equal(hvd_err_status(&l->job.why), 1);
	assert_in(l->job.why.msg, "ranks 0, 2 on node[0,2] have not called init_process_group within 0.2 s");
	close(fd);
}

static size_t count_lines(const char *text)
{
	size_t n = text && *text;

	for (const char *p = text; p && (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

static size_t waiting_at(const struct agent *s)
{
	char *text = hvd_rv_tcpstore_waits(s->relay, HVD_RV_WAITS_MOST);
	const size_t n = count_lines(text);

	free(text);
	return n;
}

static void keep_answer(const json_t *answer, void *arg)
{
	*(json_t **)arg = json_incref((json_t *)answer);
}

static void on_stacks_object(json_t *answers, void *arg)
{
	keep_answer(answers, arg);
}

/* Process 77 is a part of rank 1. */
static json_t *make_owners(const json_t *question)
{
	json_t *ranks = json_array(), *pid;
	size_t i;

	json_array_foreach(json_object_get(question, "pids"), i, pid)
	{
		json_array_append_new(ranks, json_integer(json_integer_value(pid) == 77 ? 1 : -1));
	}
	return json_pack("{s:s, s:O, s:o}", "t", "answer", "id", json_object_get(question, "id"), "ranks", ranks);
}

/* The stacks have few lines of those that wait, and the ranks that wait are found among all of them. */
TEST_IN(two_questions_about_waits_at_the_same_time, struct launch *l)
{
	enum {
		CLIENTS = HVD_RV_WAITS_FEW + 2
	};
	unsigned char hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 13, 0, 0, 0, 0};
	static const unsigned char wait[] = {6, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
	json_t *stacks = NULL, *waits = NULL;
	const struct hvd_world *world;
	struct agent *s[3];
	int fd[CLIENTS];
	in_port_t port;

	launch_start(l);
	for (int h = 0; h < 3; h++)
		s[h] = agent_connect(l, registration(h, 3, 1, false));
	until(l, s[0]->plan && s[1]->plan && s[2]->plan);
	world = hvd_job_world(l->job.starter.job);
	port = agent_begin_relay(l, s[1]);
	for (int i = 0; i < CLIENTS; i++) {
		fd[i] = dial_loopback(port);
		hello[6] = (unsigned char)(77 + i);
		assert_int_equal(write(fd[i], hello, sizeof(hello)), sizeof(hello));
		assert_int_equal(write(fd[i], wait, sizeof(wait)), sizeof(wait));
	}
	until(l, waiting_at(s[1]) == CLIENTS);

	hvd_stacks_ask(hvd_world_stacks(world), 5, on_stacks_object, &stacks);
	assert_true(hvd_store_waits_ask(hvd_world_store_waits(world), keep_answer, &waits));
	until(l, agent_heard(s[1], "owners"));
	assert_false(agent_heard(s[0], "owners"));
	hvd_conn_send(s[1]->conn, make_owners(json_object_get(s[1]->said, "owners")));
	until(l, waits);
	assert_string_equal(json_string_value(json_object_get(json_object_get(waits, "ranks"), "1")), "k");
	assert_int_equal(json_object_size(json_object_get(waits, "ranks")), 1);
	assert_int_equal(json_array_size(json_object_get(waits, "lines")), CLIENTS - 1);
	for (int h = 0; h < 3; h++)
		hvd_conn_send(s[h]->conn, json_pack("{s:s, s:i, s:[]}", "t", "stacks", "id", 1, "ranks"));
	until(l, stacks);
	assert_int_equal(count_lines(json_string_value(json_object_get(stacks, "store"))), HVD_RV_WAITS_FEW);
	json_decref(stacks);
	json_decref(waits);
	for (int i = 0; i < CLIENTS; i++)
		close(fd[i]);
}

TEST_IN(a_trace_that_a_browser_can_read, struct launch *l)
{
	char path[] = "/tmp/hvd-test-trace-XXXXXX";
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	struct hvd_trace *made;
	json_t *trace, *event;
	int named = 0, phases = 0, fd = mkstemp(path);
	size_t i;

	assert_true(fd >= 0);
	close(fd);
	l->opts.events = events;
	made = hvd_trace_create(events, path, NULL);
	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 3, 1, false));
	until(l, l->job.started);
	trace = json_load_file(path, 0, NULL);
	unlink(path);
	assert_non_null(trace);
	json_array_foreach(json_object_get(trace, "traceEvents"), i, event)
	{
		const char *ph = json_string_value(json_object_get(event, "ph"));

		assert_int_in_range(json_integer_value(json_object_get(event, "pid")), 0, 3);
		if (strcmp(ph, "M") == 0) {
			named++;
			assert_in(json_string_value(json_object_get(json_object_get(event, "args"), "name")),
				  named <= 3 ? "node" : "launch");
			continue;
		}
		assert_string_equal(ph, "X");
		assert_true(json_is_string(json_object_get(event, "name")));
		assert_true(json_integer_value(json_object_get(event, "ts")) >= 0);
		assert_true(json_integer_value(json_object_get(event, "dur")) >= 0);
		phases++;
	}
	assert_int_equal(named, 4);
	assert_int_equal(phases, 12 + 2);
	json_decref(trace);
	static_job_destroy(&l->job);
	hvd_trace_destroy(made);
	hvd_event_log_destroy(events);
}

TEST_IN(a_launch_that_is_given_up, struct launch *l)
{
	launch_start(l);
	for (int h = 0; h < 3; h++)
		agent_connect(l, registration(h, 4, 1, false));
	until(l, l->agents[0].conn && l->agents[2].conn);
	static_job_destroy(&l->job);
	until(l, l->agents[0].closed && l->agents[1].closed && l->agents[2].closed);
	assert_int_equal(l->job.failed + l->job.started, 0);
}

RUN_TESTS(.setup = launch_setup, .teardown = launch_teardown)
