/* SPDX-License-Identifier: Apache-2.0 */
/* Whole launches without a scheduler: the driver, and shims that the test plays. */
#include "launch_agents.h"

#include <sys/resource.h>

static const char *env(const struct shim *s, const char *name)
{
	const char *value = json_string_value(json_object_get(json_object_get(s->plan, "env"), name));

	return value ? value : "(not set)";
}

static int number(const struct shim *s, const char *name)
{
	return atoi(env(s, name));
}

static void every_rank_gets_its_place(void **state)
{
	struct launch *l = *state;
	struct shim *s[6];

	hvd_strv_add(&l->opts.extra_env, "EXTRA=a=b c");
	launch_start(l);
	/* Ranks 1 and 3 ask before their host's agent has said a word, rank 5 when all have their plan. */
	s[1] = shim_connect(l, joining(0, 1));
	s[3] = shim_connect(l, joining(1, 3));
	until(l, s[1]->conn && s[3]->conn);
	for (int h = 0; h < 3; h++)
		s[2 * h] = shim_connect(l, registration(h, 3, 2, false));
	until(l, s[0]->plan && s[1]->plan && s[2]->plan && s[3]->plan && s[4]->plan);
	assert_int_equal(l->started, 0); /* one rank has not asked yet */
	s[5] = shim_connect(l, joining(2, 5));
	until(l, s[5]->plan);
	until(l, l->started);
	for (int r = 0; r < 6; r++) {
		char host[16];

		snprintf(host, sizeof(host), "node%d", r / 2);
		assert_int_equal(number(s[r], "HOROVOD_RANK"), r);
		assert_int_equal(number(s[r], "HOROVOD_SIZE"), 6);
		assert_int_equal(number(s[r], "HOROVOD_LOCAL_RANK"), r % 2);
		assert_int_equal(number(s[r], "HOROVOD_LOCAL_SIZE"), 2);
		assert_int_equal(number(s[r], "HOROVOD_CROSS_RANK"), r / 2);
		assert_int_equal(number(s[r], "HOROVOD_CROSS_SIZE"), 3);
		assert_string_equal(env(s[r], "HOROVOD_HOSTNAME"), host);
		assert_string_equal(env(s[r], "HOROVOD_GLOO_IFACE"), "eth0");
		assert_string_equal(env(s[r], "NCCL_SOCKET_IFNAME"), "=eth0");
		assert_string_equal(env(s[r], "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
		assert_true(number(s[r], "HOROVOD_GLOO_RENDEZVOUS_PORT") > 0);
		assert_string_equal(env(s[r], "EXTRA"), "a=b c");
	}
	assert_int_equal(l->started, 1);
	assert_int_equal(l->failed, 0);
	/* Ranks are let go: they are the scheduler's from here on. */
	until(l, s[0]->closed && s[1]->closed && s[5]->closed);
	assert_int_equal(l->gone, 0);
}

static void whom_each_host_is_to_probe(void **state)
{
	struct launch *l = *state;
	struct shim *s[3];

	launch_start(l);
	for (int h = 0; h < 3; h++)
		s[h] = shim_connect(l, registration(h, 3, 1, true));
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
		assert_int_equal(json_array_size(json_object_get(s[h]->probe, "rendezvous")), 1);
	}
}

static void one_machine_needs_no_probe(void **state)
{
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	s = shim_connect(l, registration(0, 1, 1, false));
	until(l, s->plan);
	assert_null(s->probe);
	assert_string_equal(env(s, "HOROVOD_GLOO_IFACE"), "lo");
	assert_string_equal(env(s, "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
	until(l, l->started);
}

/* ---- failures ---- */

/* The launch fails, once, and all shims are told. */
static void fails(struct launch *l, enum hvd_errc code, const char *text)
{
	until(l, l->failed);
	assert_int_equal(l->why.code, code);
	assert_in(l->why.msg, text);
	for (int i = 0; i < l->n_shims; i++)
		if (l->shims[i].conn)
			until(l, shim_heard(&l->shims[i], l->why.code == HVD_E_USAGE ? "misused" : "failed") ||
					 l->shims[i].closed);
	assert_int_equal(l->failed, 1);
	assert_int_equal(l->started, 0);
}

static void a_host_registers_twice(void **state)
{
	struct launch *l = *state;
	struct shim *first;

	launch_start(l);
	first = shim_connect(l, registration(1, 3, 1, false));
	until(l, first->conn);
	shim_connect(l, registration(1, 3, 1, false));
	fails(l, HVD_E_PROTO, "node1 registers as host 1, which node1 is already");
	assert_true(shim_heard(first, "failed"));
}

static void an_agent_registers_twice(void **state)
{
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	s = shim_connect(l, registration(0, 3, 1, false));
	until(l, s->conn);
	hvd_conn_send(s->conn, registration(1, 3, 1, false));
	fails(l, HVD_E_PROTO, "a second time");
	assert_string_equal(l->why.host, "node0");
}

static void sizes_that_contradict(void **state)
{
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	s = shim_connect(l, registration(0, 3, 2, false));
	until(l, s->conn);
	shim_connect(l, registration(1, 4, 2, false));
	fails(l, HVD_E_PROTO, "node1 knows of 4 hosts");
}

static void more_hosts_than_the_launcher_asked_for(void **state)
{
	struct launch *l = *state;

	l->opts.hosts = 2;
	l->opts.ranks = 4;
	launch_start(l);
	shim_connect(l, registration(0, 2, 3, false));
	fails(l, HVD_E_PROTO, "the driver of 2 and 4");
}

static void more_hosts_than_descriptors(void **state)
{
	struct launch *l = *state;
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = l->key};
	static const struct hvd_driver_ops ops = {.failed = launch_on_failed};
	struct rlimit before, few;
	struct hvd_err err = {0};

	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = 200;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	l->opts.hosts = 180;
	assert_int_equal(hvd_session_create(&l->session, &id, NULL), 0);
	assert_null(hvd_driver_create(l->base, &l->opts, &l->session, &ops, l, &l->log, &err));
	assert_int_equal(err.code, HVD_E_LIMIT);
	assert_in(err.msg, "180 hosts need a connection each, and this process may open 200 files");
	assert_in(err.hint, "more than 212");
	l->opts.hosts = 150;
	launch_start(l);
	setrlimit(RLIMIT_NOFILE, &before);
}

static void a_rank_on_two_hosts(void **state)
{
	struct launch *l = *state;
	json_t *other = registration(1, 2, 2, false);

	launch_start(l);
	json_array_set_new(json_object_get(other, "ranks"), 0, json_integer(1));
	shim_connect(l, registration(0, 2, 2, false));
	shim_connect(l, other);
	until(l, l->failed);
	assert_true(l->why.code != HVD_OK && l->why.msg[0]);
}

static void an_agent_that_is_lost(void **state)
{
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	s = shim_connect(l, registration(1, 2, 1, false));
	until(l, s->conn);
	hvd_conn_finish(s->conn, hvd_deadline_in(5));
	s->conn = NULL;
	fails(l, HVD_E_FAILED, "node agent ended before the start was complete");
	assert_string_equal(l->why.host, "node1");
}

static void what_a_host_cannot_do(void **state)
{
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	s = shim_connect(l, registration(0, 2, 1, false));
	until(l, s->conn);
	hvd_conn_send(s->conn, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", "node0", "why", "no sockets",
					 "hint", "buy some"));
	fails(l, HVD_E_FAILED, "no sockets");
	assert_string_equal(l->why.host, "node0");
	assert_string_equal(l->why.hint, "buy some");
}

static void the_timeout_names_who_is_missing(void **state)
{
	struct launch *l = *state;
	char name[16];

	l->opts.hosts = 5;
	l->spec.deadlines.start = 0.2;
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "node%d", i);
		hvd_strv_add(&l->opts.names, name);
	}
	launch_start(l);
	shim_connect(l, registration(0, 5, 1, false));
	shim_connect(l, registration(3, 5, 1, false));
	fails(l, HVD_E_TIMEOUT, "0.2 seconds");
	assert_in(l->why.msg, "no word from node[1-2,4]");
	assert_in(l->why.hint, "--start-timeout");
}

static void the_timeout_names_who_has_not_probed(void **state)
{
	struct launch *l = *state;

	l->spec.deadlines.start = 0.3;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		shim_connect(l, registration(h, 3, 1, false))->deaf = h == 1;
	fails(l, HVD_E_TIMEOUT, "no probe report from node1");
}

static void the_timeout_names_whose_ranks_have_not_asked(void **state)
{
	struct launch *l = *state;

	l->spec.deadlines.start = 0.3;
	launch_start(l);
	for (int h = 0; h < 2; h++)
		shim_connect(l, registration(h, 2, 2, false));
	shim_connect(l, joining(0, 1));
	fails(l, HVD_E_TIMEOUT, "not all ranks have asked for their plan on node1");
}

static void a_timeout_from_the_first_shim(void **state)
{
	struct launch *l = *state;

	l->spec.deadlines.start = 0.05;
	l->opts.mode = HVD_START_RANKS;
	launch_start(l);
	for (hvd_time end = hvd_deadline_in(0.2); hvd_left(end) > 0;)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
	assert_int_equal(l->failed, 0); /* still in the queue */
	shim_connect(l, registration(0, 2, 1, false));
	fails(l, HVD_E_TIMEOUT, "no word from");
}

/* ---- interfaces ---- */

static void nics_that_a_host_lacks(void **state)
{
	struct launch *l = *state;

	hvd_strv_add(&l->spec.interfaces, "eth0");
	hvd_strv_add(&l->spec.interfaces, "mlx5");
	launch_start(l);
	shim_connect(l, registration(0, 2, 1, true));
	fails(l, HVD_E_USAGE, "no usable interface mlx5");
	assert_in(l->why.msg, "ib0");
	assert_string_equal(l->why.host, "node0");
}

/* The agents go on counting their own interfaces: eth0 is their second. */
static void nics_that_all_have(void **state)
{
	struct launch *l = *state;
	struct shim *s[3];

	hvd_strv_add(&l->spec.interfaces, "eth0");
	launch_start(l);
	for (int h = 0; h < 3; h++) {
		s[h] = shim_connect(l, registration(h, 3, 1, true));
		s[h]->from_if = 1;
	}
	until(l, l->failed || l->started);
	assert_string_equal(l->why.msg, "");
	until(l, s[0]->plan && s[1]->plan && s[2]->plan);
	assert_int_equal(
		json_array_size(json_object_get(json_array_get(json_object_get(s[0]->probe, "targets"), 0), "a")), 1);
	for (int h = 0; h < 3; h++)
		assert_string_equal(env(s[h], "NCCL_SOCKET_IFNAME"), "=eth0");
}

static void no_network_in_common(void **state)
{
	struct launch *l = *state;

	launch_start(l);
	for (int h = 0; h < 3; h++)
		shim_connect(l, registration(h, 3, 1, false))->to = h == 2 ? HVD_REACH_SILENT : HVD_REACH_OK;
	fails(l, HVD_E_NET, "no network interface connects all 3 hosts");
	assert_in(l->why.msg, "eth0: node2 -> ");
	assert_in(l->why.msg, "no answer");
}

/* ---- shims that say odd things ---- */

/* Their launch is the right one, but they are not of it: the others are not to suffer. */
static void ranks_that_are_not_of_the_job(void **state)
{
	static const int odd[][2] = {{0, 99}, {7, 0}, {1, 0}, {2000000000, 2000000000}};
	struct launch *l = *state;
	struct shim *s[2], *o[4];

	launch_start(l);
	for (int i = 0; i < 4; i++)
		o[i] = shim_connect(l, joining(odd[i][0], odd[i][1]));
	until(l, o[0]->conn && o[1]->conn && o[2]->conn && o[3]->conn);
	for (int h = 0; h < 2; h++)
		s[h] = shim_connect(l, registration(h, 2, 1, false));
	until(l, s[0]->plan && s[1]->plan);
	until(l, l->started);
	until(l, o[0]->closed && o[1]->closed && o[2]->closed && o[3]->closed);
	for (int i = 0; i < 4; i++)
		assert_null(o[i]->plan);
	/* … and after the plan. */
	o[0] = shim_connect(l, joining(1, 0));
	until(l, o[0]->closed);
	assert_null(o[0]->plan);
	assert_int_equal(l->started, 1);
}

static void messages_that_mean_nothing(void **state)
{
	static const char *const texts[] = {
		"{}",
		"{\"t\":7}",
		"{\"t\":\"unheard of\"}",
		"{\"t\":\"report\",\"edges\":[],\"rendezvous\":[]}",
		"{\"t\":\"exit\",\"rank\":0,\"status\":0}",
		"{\"t\":\"serving\",\"port\":1}",
		"{\"t\":\"join\"}",
	};
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		shim_connect(l, json_loads(texts[i], 0, NULL));
	s = shim_connect(l, registration(0, 1, 1, false));
	until(l, s->plan);
	until(l, l->started);
	assert_int_equal(l->failed, 0);
	assert_int_equal(l->exits, 0);
}

static void a_report_that_names_what_was_not_asked_for(void **state)
{
	struct launch *l = *state;
	struct shim *s;

	launch_start(l);
	for (int h = 0; h < 3; h++)
		shim_connect(l, registration(h, 3, 1, false))->deaf = true;
	s = &l->shims[0];
	until(l, s->probe);
	hvd_conn_send(s->conn,
		      json_pack("{s:s, s:[[i,i,i,i,i]], s:[]}", "t", "report", "edges", 1, 77, 0, 0, 5, "rendezvous"));
	fails(l, HVD_E_PROTO, "not asked for");
	assert_string_equal(l->why.host, "node0");
}

static void a_shim_with_another_key(void **state)
{
	struct launch *l = *state;
	struct shim *stranger, *s;

	launch_start(l);
	l->key.b[0] ^= 1;
	stranger = shim_connect(l, registration(0, 1, 1, false));
	until(l, stranger->down);
	assert_in(stranger->why.msg, "refuses this process");
	assert_int_equal(l->failed, 0);
	l->key.b[0] ^= 1;
	s = shim_connect(l, registration(0, 1, 1, false));
	until(l, s->plan);
}

/* ---- shims that start the ranks ---- */

static void ranks_are_reported_and_ended(void **state)
{
	struct launch *l = *state;
	struct shim *s[2];
	json_t *ranks;

	l->opts.mode = HVD_START_HOSTS;
	launch_start(l);
	for (int h = 0; h < 2; h++)
		s[h] = shim_connect(l, registration(h, 2, 3, false));
	until(l, s[0]->plan && s[1]->plan);
	until(l, l->started);
	ranks = json_object_get(s[1]->plan, "ranks");
	assert_int_equal(json_array_size(ranks), 3);
	for (int r = 0; r < 3; r++)
		assert_int_equal(atoi(json_string_value(json_object_get(json_array_get(ranks, r), "HOROVOD_RANK"))),
				 3 + r);
	assert_false(s[0]->closed);
	hvd_driver_signal_ranks(l->driver, 10);
	until(l, shim_heard(s[0], "signal") && shim_heard(s[1], "signal"));
	hvd_conn_send(s[1]->conn, json_pack("{s:s, s:i, s:i}", "t", "exit", "rank", 4, "status", 9));
	until(l, l->exits);
	assert_int_equal(l->exit_rank, 4);
	assert_int_equal(l->exit_status, 9);
	assert_string_equal(l->exit_host, "node1");
	hvd_conn_send(s[1]->conn, json_pack("{s:s, s:i, s:i}", "t", "exit", "rank", 6, "status", 9)); /* none */
	hvd_driver_end_ranks(l->driver);
	until(l, shim_heard(s[0], "end") && shim_heard(s[1], "end"));
	hvd_conn_finish(s[1]->conn, hvd_deadline_in(5));
	s[1]->conn = NULL;
	until(l, l->gone);
	assert_string_equal(l->gone_host, "node1");
	assert_int_equal(l->exits, 1);
	assert_int_equal(l->failed, 0);
}

/* ---- how ranks end ---- */

/* Two hosts with two ranks each; all of them have their plan. */
static void start_watched(struct launch *l, struct shim *s[4])
{
	l->opts.mode = HVD_START_RANKS;
	launch_start(l);
	for (int h = 0; h < 2; h++) {
		s[2 * h] = shim_connect(l, registration(h, 2, 2, false));
		s[2 * h + 1] = shim_connect(l, joining(h, 2 * h + 1));
	}
	until(l, s[0]->plan && s[1]->plan && s[2]->plan && s[3]->plan);
	until(l, l->started);
}

static void say_done(struct shim *s, bool munge)
{
	hvd_conn_send(s->conn, json_pack("{s:s, s:b}", "t", "done", "munge", munge));
	hvd_conn_finish(s->conn, hvd_deadline_in(5));
	s->conn = NULL;
}

static void the_end_of_the_last_rank_is_told(void **state)
{
	struct launch *l = *state;
	struct shim *s[4];

	start_watched(l, s);
	for (int r = 0; r < 4; r++)
		assert_true(json_is_true(json_object_get(s[r]->plan, "keep")));
	/* Node agents first; one shim is killed, and takes its rank with it. */
	say_done(s[0], true);
	say_done(s[2], true);
	hvd_conn_free(s[1]->conn);
	s[1]->conn = NULL;
	for (int i = 0; i < 20; i++)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
	assert_int_equal(l->all_ended, 0);
	assert_false(s[3]->closed);
	say_done(s[3], false);
	until(l, l->all_ended);
	assert_int_equal(l->all_ended, 1);
	assert_string_equal(l->without_munge, "1 node1");
	assert_int_equal(l->gone, 0);
}

static void an_agent_that_says_no_goodbye_is_lost_and_its_rank_has_ended(void **state)
{
	struct launch *l = *state;
	struct shim *s[4];

	start_watched(l, s);
	hvd_conn_free(s[2]->conn);
	s[2]->conn = NULL;
	until(l, l->gone);
	assert_string_equal(l->gone_host, "node1");
	assert_int_equal(l->gone_why.code, HVD_OK);
	say_done(s[0], true);
	say_done(s[1], true);
	say_done(s[3], true);
	until(l, l->all_ended);
	assert_string_equal(l->without_munge, "0 ");
}

static void a_shim_whose_parent_has_gone(void **state)
{
	struct launch *l = *state;
	struct shim *s[4];

	start_watched(l, s);
	hvd_conn_send(s[3]->conn, json_pack("{s:s, s:s}", "t", "orphan", "parent", "slurmstepd"));
	until(l, l->gone);
	assert_string_equal(l->gone_host, "node1");
	assert_int_equal(l->gone_why.code, HVD_E_FAILED);
	assert_string_equal(l->gone_why.msg, "slurmstepd ended before the ranks that it had started");
	assert_int_equal(l->all_ended, 0);
}

/* ---- the rendezvous on rank 0's host ---- */

/* One of three ranks calls init_process_group(). */
static void it_tells_who_has_not_come(void **state)
{
	static const unsigned char hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 13, 77, 0, 0, 0};
	static const unsigned char init[] = {4,   5,   0,   0, 0, 0, 0, 0, 0, 'i', 'n',
					     'i', 't', '/', 1, 0, 0, 0, 0, 0, 0,   0};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct launch *l = *state;
	struct shim *s[3];

	l->spec.deadlines.init = 0.2;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		s[h] = shim_connect(l, registration(h, 3, 1, false));
	until(l, s[0]->plan && s[1]->plan && s[2]->plan);
	at.sin_port = htons((in_port_t)number(s[1], "MASTER_PORT"));
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(write(fd, hello, sizeof(hello)), sizeof(hello));
	assert_int_equal(write(fd, init, sizeof(init)), sizeof(init));
	until(l, l->failed);
	assert_int_equal(l->started, 1);
	assert_int_equal(hvd_err_status(&l->why), 1);
	assert_in(l->why.msg, "ranks 1, 2 on node[1-2] have not called init_process_group within 0.2 s");
	close(fd);
}

static void a_trace_that_a_browser_can_read(void **state)
{
	char path[] = "/tmp/hvd-test-trace-XXXXXX";
	struct launch *l = *state;
	json_t *trace, *event;
	int named = 0, phases = 0, fd = mkstemp(path);
	size_t i;

	assert_true(fd >= 0);
	close(fd);
	l->spec.trace = path;
	launch_start(l);
	for (int h = 0; h < 3; h++)
		shim_connect(l, registration(h, 3, 1, false));
	until(l, l->started);
	trace = json_load_file(path, 0, NULL);
	unlink(path);
	assert_non_null(trace);
	json_array_foreach(json_object_get(trace, "traceEvents"), i, event)
	{
		const char *ph = json_string_value(json_object_get(event, "ph"));

		assert_int_in_range(json_integer_value(json_object_get(event, "pid")), 0, 2);
		if (strcmp(ph, "M") == 0) {
			named++;
			assert_in(json_string_value(json_object_get(json_object_get(event, "args"), "name")), "node");
			continue;
		}
		assert_string_equal(ph, "X");
		assert_true(json_is_string(json_object_get(event, "name")));
		assert_true(json_integer_value(json_object_get(event, "ts")) >= 0);
		assert_true(json_integer_value(json_object_get(event, "dur")) >= 0);
		phases++;
	}
	assert_int_equal(named, 3);
	assert_int_equal(phases, 12);
	json_decref(trace);
}

static void a_launch_that_is_given_up(void **state)
{
	struct launch *l = *state;

	launch_start(l);
	for (int h = 0; h < 3; h++)
		shim_connect(l, registration(h, 4, 1, false));
	shim_connect(l, joining(0, 0));
	until(l, l->shims[0].conn && l->shims[3].conn);
	hvd_driver_destroy(l->driver);
	l->driver = NULL;
	until(l, l->shims[0].closed && l->shims[1].closed && l->shims[2].closed && l->shims[3].closed);
	assert_int_equal(l->failed + l->started, 0);
}

#define launch(test) cmocka_unit_test_setup_teardown(test, launch_setup, launch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch(every_rank_gets_its_place),
		launch(whom_each_host_is_to_probe),
		launch(one_machine_needs_no_probe),
		launch(a_host_registers_twice),
		launch(an_agent_registers_twice),
		launch(sizes_that_contradict),
		launch(more_hosts_than_the_launcher_asked_for),
		launch(more_hosts_than_descriptors),
		launch(a_rank_on_two_hosts),
		launch(an_agent_that_is_lost),
		launch(what_a_host_cannot_do),
		launch(the_timeout_names_who_is_missing),
		launch(the_timeout_names_who_has_not_probed),
		launch(the_timeout_names_whose_ranks_have_not_asked),
		launch(a_timeout_from_the_first_shim),
		launch(nics_that_a_host_lacks),
		launch(nics_that_all_have),
		launch(no_network_in_common),
		launch(ranks_that_are_not_of_the_job),
		launch(messages_that_mean_nothing),
		launch(a_report_that_names_what_was_not_asked_for),
		launch(a_shim_with_another_key),
		launch(ranks_are_reported_and_ended),
		launch(the_end_of_the_last_rank_is_told),
		launch(an_agent_that_says_no_goodbye_is_lost_and_its_rank_has_ended),
		launch(a_shim_whose_parent_has_gone),
		launch(it_tells_who_has_not_come),
		launch(a_trace_that_a_browser_can_read),
		launch(a_launch_that_is_given_up),
	};

	return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
