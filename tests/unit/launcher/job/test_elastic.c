/* SPDX-License-Identifier: Apache-2.0 */
/* An elastic job with two worlds on the same two hosts, whose agents the test plays. */
#include "launcher/job/elastic_internal.h"
#include "launcher/job/stacks_question.h"
#include "launcher/job/status.h"
#include "launcher/start/procs.h"
#include "lib/protocol/worlds.h"
#include "tests/unit/launch_agents.h"

#include <signal.h>

#define EXIT(n) ((n) << 8) /* as from waitpid(2) */

struct job {
	struct launch *l;
	struct hvd_starter starter;
	struct hvd_launcher_process launcher;
	struct hvd_procs_opts procs_opts;
	struct hvd_launch launch;
	struct hvd_backend backend;
	struct hvd_result result;
	struct hvd_launch_spec second_spec;
	struct hvd_driver_opts second;
	int begun[2], failed[2]; /* generations of each world, as the events have them */
};

/* ---- a backend whose processes do nothing ---- */

static int add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	struct hvd_proc *proc = hvd_launch_add(launch, launch->alloc.hosts[0].name);

	hvd_strv_add(&proc->argv, "sleep");
	hvd_strv_add(&proc->argv, "600");
	return 0;
}

static int do_start(struct hvd_starter *starter, const struct hvd_boot *boot, struct hvd_err *err)
{
	((struct job *)((char *)starter - offsetof(struct job, starter)))->l->boot = *boot;
	return 0;
}

static void do_end(struct hvd_starter *starter, const struct hvd_ending *how)
{
}

/* ---- the job ---- */

static void on_event(const struct hvd_event *event, void *arg)
{
	struct job *j = arg;

	if (event->name == HVD_EV_GENERATION_BEGAN)
		assert_int_equal(event->generation, ++j->begun[event->world]);
	if (event->name == HVD_EV_GENERATION_FAILED)
		j->failed[event->world]++;
}

SETUP(setup, struct job, j)
{
	void *l;

	assert_int_equal(launch_setup(&l), 0);
	j->l = l;
	j->l->opts.loopback = false;
	j->l->opts.mode = HVD_START_HOSTS;
	j->l->opts.kill_wait = 1;
	j->l->spec.elastic.on = true;
	j->l->spec.elastic.first_np = 4;
	j->l->spec.elastic.min_np = 2;
	j->l->spec.elastic.timeout = 600;
	j->l->spec.max_restarts = 1;
	j->l->spec.discovery.from = HVD_DISCOVER_HOSTS;
	j->l->spec.hosts.list = "node0:2,node1:2";
	j->l->spec.hosts.listed = true;
	j->l->opts.role = "trainer";
	hvd_event_log_listen(j->l->events, on_event, j);
	j->second_spec = j->l->spec;
}

static struct hvd_job *job_of(const struct job *j)
{
	return j->starter.job;
}

/* What a host registers, which has a relay for each world, and for the store that both share. */
static json_t *hello(int host)
{
	json_t *msg = registration(host, 1, 0, false);

	json_object_set_new(msg, "worlds",
			    json_pack("[{s:i, s:i}, {s:i, s:i}]", "world", 1, "relay", 5001 + host, "world", 2, "relay",
				      6001 + host));
	return msg;
}

/* How many messages of this type the hosts have heard about ranks of a world. */
static int heard(const struct job *j, const char *type)
{
	int n = 0;

	for (int h = 0; h < j->l->n_agents; h++) {
		const json_t *entry;
		size_t i;

		json_array_foreach(j->l->agents[h].heard, i, entry) n += strcmp(json_string_value(entry), type) == 0;
	}
	return n;
}

/* The second world's failure ends the first, or not. Both have four ranks, of which hosts 0 and 1 have two each. */
static void begin(struct job *j, bool ends_all)
{
	static const struct hvd_starter_ops starter_ops = {.start = do_start, .end = do_end};
	static const struct hvd_procs_ops procs_ops = {.ended = NULL};
	static char *const envp[] = {NULL};
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = j->l->key};
	struct hvd_job_policy *policy;
	struct hvd_err err = {0};

	assert_int_equal(hvd_session_create(&j->l->session, &id, &err), 0);
	j->backend = (struct hvd_backend){.name = "unit", .mode = HVD_START_HOSTS, .add_host = add_host};
	j->launch = (struct hvd_launch){.spec = &j->l->spec, .envp = envp, .log = &j->l->log};
	j->result.began = hvd_now();
	j->procs_opts = (struct hvd_procs_opts){.boot = j->launcher.boot, .nofile = 1024, .elastic = true};
	j->launcher = (struct hvd_launcher_process){.base = j->l->base,
						    .launch = &j->launch,
						    .backend = &j->backend,
						    .opts = &j->l->opts,
						    .result = &j->result,
						    .log = &j->l->log};
	j->launcher.procs = hvd_procs_create(j->l->base, &j->launch, &j->backend, &j->procs_opts, &procs_ops, j);
	j->second = j->l->opts;
	j->second.spec = &j->second_spec;
	j->second.role = "rollout/1";
	policy = hvd_elastic_create(&j->launcher, &err);
	assert_non_null(policy);
	assert_int_equal(hvd_elastic_add_world(policy, &j->second, ends_all, &err), 0);
	j->starter = (struct hvd_starter){
		.ops = &starter_ops, .procs = j->launcher.procs, .agents_start_ranks = true, .agents_end_ranks = true};
	assert_int_equal(hvd_job_create(&(struct hvd_job_opts){.base = j->l->base,
							       .driver = &j->l->opts,
							       .session = &j->l->session,
							       .starter = &j->starter,
							       .policy = policy,
							       .result = &j->result,
							       .control = "unit",
							       .pid = getpid(),
							       .log = &j->l->log},
					&err),
			 0);
	until(j->l, hvd_procs_running(j->launcher.procs) == 2);
	for (int h = 0; h < 2; h++)
		agent_connect(j->l, hello(h));
	until(j->l, heard(j, "start") == 8);
	assert_string_equal(hvd_world_role(job_of(j)->worlds[0]), "trainer");
	assert_string_equal(hvd_world_role(job_of(j)->worlds[1]), "rollout/1");
	assert_string_equal(json_string_value(json_object_get(json_object_get(j->l->agents[0].said, "start"), "label")),
			    "rollout/1");
	assert_int_equal(j->begun[0], 1);
	assert_int_equal(j->begun[1], 1);
	assert_int_equal(hvd_procs_running(j->launcher.procs), 2); /* one for both worlds */
	assert_int_equal(j->l->boot.worlds, 3);
}

static int teardown(void **state)
{
	struct job *j = *state;
	void *l = j->l;

	hvd_event_log_unlisten(j->l->events, j);
	hvd_procs_destroy(j->launcher.procs);
	job_of(j)->policy->ops->destroy(job_of(j)->policy);
	hvd_job_destroy(job_of(j));
	hvd_requeue_clear(&j->result.requeue);
	hvd_result_clear(&j->result);
	hvd_strv_free(&j->second.extra_env);
	free(j);
	return launch_teardown(&l);
}

/* Rank `rank` of a world's generation ends, which has two on each host. */
static void ends(struct job *j, int world, int generation, int rank, int status)
{
	hvd_conn_send(j->l->agents[rank / 2].conn,
		      json_pack("{s:s, s:i, s:i, s:i}", "t", "exit", "id", 4 * (generation - 1) + rank, "status",
				status, "world", world));
}

static void all_end(struct job *j, int world, int generation, int status)
{
	for (int r = 0; r < 4; r++)
		ends(j, world, generation, r, status);
}

/* Of the rank that a host has started last, of this world. */
static void finds_the_job_store(const struct job *j, int host, int world)
{
	const json_t *order = json_object_get(j->l->agents[host].said, "start");
	char store[32];

	snprintf(store, sizeof(store), "127.0.0.1:%d", 6001 + host);
	assert_int_equal(json_integer_value(json_object_get(order, "world")), world);
	assert_string_equal(json_string_value(json_object_get(json_object_get(order, "env"), "HVD_JOB_STORE")), store);
}

static bool ending(const struct job *j)
{
	return job_of(j)->ending;
}

static bool over(const struct job *j, int world)
{
	return ((struct elastic *)job_of(j)->policy)->parts[world]->over;
}

TEST_IN(one_restarts_and_the_other_is_left_alone, struct job *j)
{
	char *said;

	begin(j, true);
	for (int h = 0; h < 2; h++)
		finds_the_job_store(j, h, 1);
	ends(j, 1, 1, 1, EXIT(3));
	until(j->l, heard(j, "stop") == 3);
	for (int h = 0; h < 2; h++)
		assert_int_equal(
			json_integer_value(json_object_get(json_object_get(j->l->agents[h].said, "stop"), "world")), 1);
	for (int r = 0; r < 4; r++)
		if (r != 1)
			ends(j, 1, 1, r, SIGTERM);
	until(j->l, j->begun[1] == 2 && heard(j, "start") == 12);
	finds_the_job_store(j, 0, 1);
	assert_int_equal(j->begun[0], 1);
	assert_int_equal(j->failed[0], 0);
	assert_int_equal(j->failed[1], 1);
	/* The job is over when both have ended. */
	all_end(j, 0, 1, 0);
	until(j->l, over(j, 0));
	assert_false(ending(j));
	assert_int_equal(heard(j, "stop"), 3);
	all_end(j, 1, 2, 0);
	until(j->l, ending(j));
	assert_int_equal(j->result.status, 0);
	assert_false(job_of(j)->ranks_failed);
	until(j->l, heard(j, "end") == 2);
	hvd_job_report(job_of(j));
	said = json_dumps(j->result.roles, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(said, "[{\"generations\":1,\"name\":\"trainer\",\"ranks\":4,\"replica\":0,\"restarts\":0,"
				  "\"status\":0},{\"generations\":2,\"name\":\"rollout\",\"ranks\":4,\"replica\":1,"
				  "\"restarts\":1,\"status\":0}]");
	free(said);
}

TEST_IN(a_failure_for_good_ends_the_other, struct job *j)
{
	j->second_spec.max_restarts = 0;
	begin(j, true);
	ends(j, 1, 1, 2, EXIT(4));
	until(j->l, ending(j));
	assert_int_equal(j->result.status, 4);
	assert_true(hvd_job_report(job_of(j)));
	assert_int_equal(j->result.status, 4);
	assert_int_equal(j->result.rank, 2);
}

/* A rank has ended with this error, so many ms ago. */
static void fails(struct job *j, int world, int rank, int ago, const char *error)
{
	const hvd_time at = hvd_now() - ago * INT64_C(1000000);

	hvd_conn_send(j->l->agents[rank / 2].conn,
		      json_pack("{s:s, s:i, s:i, s:i, s:I, s:s}", "t", "exit", "id", rank, "status", EXIT(1), "world",
				world, "ended", (json_int_t)at, "error", error));
}

/* The trainer's connection error is heard of first, and ends all. The service has failed before, as its host's clock says. */
TEST_IN(the_first_failure_may_be_that_of_another_world, struct job *j)
{
	j->l->spec.max_restarts = j->second_spec.max_restarts = 0;
	begin(j, true);
	fails(j, 0, 2, 10, "ConnectionRefusedError: [Errno 111] Connection refused");
	until(j->l, ending(j));
	fails(j, 1, 1, 50, "RuntimeError: CUDA out of memory");
	until(j->l, hvd_failure_report_any(hvd_failures_now(&job_of(j)->failures[1])));
	assert_true(hvd_job_report(job_of(j)));
	assert_string_equal(json_string_value(json_object_get(j->result.first_failure, "role")), "rollout/1");
	assert_int_equal(j->result.rank, 1);
	assert_int_equal(j->result.status, 1);
}

/* The status is the highest, and the report is that world's. */
static void one_fails_alone(struct job *j, int first, int expected)
{
	j->l->spec.max_restarts = j->second_spec.max_restarts = 0;
	begin(j, false);
	ends(j, 1, 1, 3, EXIT(4));
	until(j->l, over(j, 1) && heard(j, "stop") == 3);
	assert_false(ending(j));
	if (first)
		ends(j, 0, 1, 1, EXIT(first));
	else
		all_end(j, 0, 1, 0);
	until(j->l, ending(j));
	assert_int_equal(j->result.status, expected);
	assert_true(hvd_job_report(job_of(j)));
	assert_int_equal(j->result.status, expected);
	assert_int_equal(j->result.rank, expected == 4 ? 3 : 1);
}

TEST_IN(or_lets_it_go_on_to_its_end, struct job *j)
{
	one_fails_alone(j, 0, 4);
}

TEST_IN(the_higher_status_is_that_of_the_job, struct job *j)
{
	one_fails_alone(j, 5, 5);
}

/* As by init_watch.h: its machine has not found a failure. */
TEST_IN(one_fails_for_a_reason_outside, struct job *j)
{
	struct hvd_err why = {0};

	begin(j, false);
	hvd_err_set(&why, HVD_E_TIMEOUT, "ranks have not come");
	hvd_machine_fail(((struct elastic *)job_of(j)->policy)->parts[1]->machine, &why, 1);
	until(j->l, over(j, 1) && heard(j, "stop") == 4);
	assert_false(ending(j));
	all_end(j, 0, 1, 0);
	until(j->l, ending(j));
	assert_int_equal(j->result.status, 1);
	assert_false(hvd_job_report(job_of(j)));
}

/* Both worlds go on without it, and its agent is started once for both when it comes back. */
TEST_IN(a_host_is_lost_for_both, struct job *j)
{
	begin(j, true);
	hvd_conn_finish(j->l->agents[1].conn, hvd_deadline_in(5));
	j->l->agents[1].conn = NULL;
	until(j->l, heard(j, "stop") == 4);
	for (int w = 0; w < 2; w++)
		for (int r = 0; r < 2; r++)
			ends(j, w, 1, r, SIGTERM);
	until(j->l, j->begun[0] == 2 && j->begun[1] == 2);
	until(j->l, heard(j, "start") == 12);
	assert_int_equal(((struct elastic *)job_of(j)->policy)->wanted[0], 3);
	assert_int_equal(((struct elastic *)job_of(j)->policy)->wanted[1], 0);
}

static void on_answer(char *answer, void *arg)
{
	*(char **)arg = answer;
}

static void answer_stacks(struct agent *s, int world, int id)
{
	const json_t *question = json_object_get(s->said, "stacks");

	assert_int_equal(json_integer_value(json_object_get(question, "world")), world);
	hvd_conn_send(s->conn, json_pack("{s:s, s:O, s:[{s:i}], s:i}", "t", "stacks", "id",
					 json_object_get(question, "id"), "ranks", "rank", id, "world", world));
}

/* One answer, whose hosts say of which world their ranks are. */
TEST_IN(where_the_ranks_of_both_are, struct job *j)
{
	struct hvd_stacks_question *question;
	char *said = NULL;
	json_t *answer;

	begin(j, true);
	question = hvd_stacks_question_create(job_of(j)->worlds, job_of(j)->n_worlds);
	hvd_stacks_question_ask(question, 5, NULL, on_answer, &said);
	until(j->l, heard(j, "stacks") == 4);
	for (int h = 0; h < 2; h++) {
		answer_stacks(&j->l->agents[h], 1, 2 * h);
		json_object_del(json_object_get(j->l->agents[h].said, "stacks"), "world");
	}
	assert_null(said);
	answer_stacks(&j->l->agents[1], 0, 3);
	until(j->l, said); /* one has not answered */
	answer = json_loads(said, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(answer, "hosts")), 3);
	assert_int_equal(json_array_size(json_object_get(answer, "silent")), 1);
	assert_in(said, "{\"host\":\"node1\",\"ranks\":[{\"rank\":3}],\"role\":\"trainer\"}");
	assert_in(said, "{\"host\":\"node1\",\"ranks\":[{\"rank\":2}],\"role\":\"rollout/1\",\"world\":1}");
	json_decref(answer);
	free(said);
	/* Hosts that answer about neither are silent once. */
	said = NULL;
	hvd_stacks_question_ask(question, 5, NULL, on_answer, &said);
	test_clock_pass(j->l->base, 6);
	until(j->l, said);
	assert_in(said, "\"silent\":[\"node0\",\"node1\"]");
	free(said);
	hvd_stacks_question_destroy(question);
}

/* About a rank, of which its host is asked for the last lines. */
static void asks(struct job *j, const char *name, int host, int rank, const char *role)
{
	const json_t *shown;
	char *said = NULL;
	json_t *answer;

	json_object_del(j->l->agents[host].said, "lines");
	hvd_job_status_ask(job_of(j)->status, name, on_answer, &said);
	until(j->l, json_object_get(j->l->agents[host].said, "lines"));
	test_clock_pass(j->l->base, 2);
	until(j->l, said);
	answer = json_loads(said, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(answer, "ranks")), 1);
	shown = json_array_get(json_object_get(answer, "ranks"), 0);
	assert_int_equal(json_integer_value(json_object_get(shown, "rank")), rank);
	assert_string_equal(json_string_value(json_object_get(shown, "role")), role);
	json_decref(answer);
	free(said);
}

/* The first world is as if it were alone; the second has a part, and its number with each of its ranks. */
TEST_IN(the_status_of_both, struct job *j)
{
	const json_t *part, *rank, *host;
	json_t *answer;
	char *said = NULL;
	size_t i;

	begin(j, true);
	ends(j, 1, 1, 0, EXIT(3));
	until(j->l, heard(j, "stop") == 3);
	hvd_job_status_ask(job_of(j)->status, NULL, on_answer, &said);
	until(j->l, said);
	answer = json_loads(said, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(answer, "state")), "running");
	assert_null(json_object_get(answer, "ended_by"));
	assert_string_equal(json_string_value(json_object_get(answer, "role")), "trainer");
	part = hvd_world_part(answer, 1);
	assert_string_equal(json_string_value(json_object_get(part, "role")), "rollout/1");
	assert_int_equal(json_integer_value(json_object_get(part, "generation")), 1);
	assert_string_equal(json_string_value(json_object_get(part, "ended_by")), "rank 0 on node0: exit code 3");
	json_array_foreach(json_object_get(answer, "hosts"), i, host)
	{
		assert_int_equal(json_integer_value(json_object_get(host, "ranks")), 4);
	}
	assert_int_equal(json_array_size(json_object_get(answer, "ranks")), 8);
	json_array_foreach(json_object_get(answer, "ranks"), i, rank)
	{
		assert_int_equal(json_integer_value(json_object_get(rank, "rank")), i % 4);
		assert_int_equal(json_integer_value(json_object_get(rank, "world")), i / 4);
		assert_string_equal(json_string_value(json_object_get(rank, "role")), i < 4 ? "trainer" : "rollout/1");
		assert_string_equal(json_string_value(json_object_get(rank, "state")), i == 4 ? "failed" : "running");
	}
	json_decref(answer);
	free(said);
	/* One rank is that of the first world, unless its role is named. */
	asks(j, "2", 1, 2, "trainer");
	asks(j, "rollout/1:3", 1, 3, "rollout/1");
	said = NULL;
	hvd_job_status_ask(job_of(j)->status, "rollout/2:3", on_answer, &said);
	until(j->l, said);
	assert_in(said, "\"ranks\":[]");
	free(said);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
