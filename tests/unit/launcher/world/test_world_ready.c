/* SPDX-License-Identifier: Apache-2.0 */
/* When the ranks of a world are ready: what agents are asked, and what follows from their answers. The test plays the agents of
 * three hosts, of which the second has no ranks. */
#include "launcher/world/ready.h"
#include "tests/unit/test_clock.h"

#include "tests/unit/conn_pair.h"

#define HOSTS 3

struct world {
	struct hvd_host_table table;
	struct hvd_host_entry entries[HOSTS];
	struct hvd_client clients[HOSTS];
	struct hvd_conn *agents[HOSTS];
	json_t *asked[HOSTS]; /* the last question */
	struct hvd_ready_spec spec;
	struct hvd_layout layout;
	struct hvd_ready *ready;
	struct hvd_log log;
	int n_ready, n_late;
	struct hvd_err why;
	char *logged; /* since the last call */
};

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	json_decref(*(json_t **)arg);
	*(json_t **)arg = json_incref(msg);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	fail_msg("%s", why->msg);
}

static void on_ready(void *arg)
{
	((struct world *)arg)->n_ready++;
}

static void on_late(const struct hvd_err *why, void *arg)
{
	struct world *w = arg;

	w->n_late++;
	w->why = *why;
	assert_null(w->logged); /* lines come after it */
}

static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	struct world *w = arg;

	free(w->logged);
	w->logged = strdup(text);
}

static void begin(struct world *w, const char *how)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	static const struct hvd_ready_ops ready_ops = {on_ready, on_late};
	char a[] = "n0", b[] = "n1", c[] = "n2", *names[] = {a, b, c};
	const int tasks[] = {2, 0, 1};

	w->table = (struct hvd_host_table){.n = HOSTS, .hosts = w->entries};
	w->log = hvd_log_make("test", HVD_LOG_VERBOSE);
	w->log.sink = on_log;
	w->log.arg = w;
	for (int h = 0; h < HOSTS; h++) {
		/* The setup has made the first pair. */
		if (h > 0)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		w->clients[h] = (struct hvd_client){.host = (uint32_t)h,
						    .conn = hvd_conn_new(base, fds[0], true, &ops, &w->asked[h])};
		w->agents[h] = hvd_conn_new(base, fds[1], false, &ops, &w->asked[h]);
		w->entries[h] = (struct hvd_host_entry){.stage = HVD_STAGE_HERE, .client = &w->clients[h]};
	}
	w->spec.timeout = 60;
	assert_int_equal(hvd_ready_spec_parse(how, &w->spec, NULL), 0);
	assert_int_equal(hvd_layout_from_tasks(&w->layout, names, tasks, NULL, HOSTS, NULL), 0);
	for (int r = 0; r < w->layout.size; r++)
		w->layout.rank_slots[r].id = 40 + (uint32_t)r;
	w->ready = hvd_ready_create(base, 5, &w->table, &w->spec, &ready_ops, w, &w->log);
	hvd_ready_begin(w->ready, &w->layout);
}

static void end(struct world *w)
{
	hvd_ready_destroy(w->ready);
	hvd_layout_clear(&w->layout);
	for (int h = 0; h < HOSTS; h++) {
		hvd_conn_free(w->clients[h].conn);
		hvd_conn_free(w->agents[h]);
		json_decref(w->asked[h]);
	}
	free(w->logged);
}

#define until(condition)                                                                                               \
	while (!(condition)) {                                                                                         \
		usleep(20);                                                                                            \
		event_base_loop(base, EVLOOP_NONBLOCK);                                                                \
		assert_false(too_long);                                                                                \
	}

/* An agent answers the question with this number. */
static void up(struct world *w, int host, int n)
{
	json_t *msg = json_pack("{s:s, s:i, s:b}", "t", "ready", "n", n, "up", true);

	hvd_ready_message(w->ready, &w->clients[host], msg);
	json_decref(msg);
}

static void late(struct world *w, int host, int n, int id, const char *lines)
{
	json_t *msg = json_pack("{s:s, s:i, s:b, s:s, s:i, s:s, s:s}", "t", "ready", "n", n, "up", false, "why",
				"it is slow", "id", id, "lines", lines, "of", "stderr");

	hvd_ready_message(w->ready, &w->clients[host], msg);
	json_decref(msg);
}

TEST(started_is_ready_at_once)
{
	struct world w = {.n_ready = 0};

	begin(&w, "started");
	assert_int_equal(w.n_ready, 0); /* from the loop only */
	until(w.n_ready == 1);
	assert_null(w.asked[0]);
	end(&w);
}

TEST(all_hosts_with_ranks_have_to_be_up)
{
	struct world w = {.n_ready = 0};

	begin(&w, "http:80/x");
	until(w.asked[0] && w.asked[2]);
	assert_null(w.asked[1]);
	assert_string_equal(json_string_value(json_object_get(w.asked[0], "how")), "http:80/x");
	assert_int_equal(json_integer_value(json_object_get(w.asked[0], "ranks")), 2);
	assert_int_equal(json_integer_value(json_object_get(w.asked[2], "ranks")), 1);
	assert_int_equal(json_integer_value(json_object_get(w.asked[0], "world")), 5);
	assert_true(json_number_value(json_object_get(w.asked[0], "seconds")) == 60);
	up(&w, 0, 1);
	up(&w, 0, 1);
	up(&w, 1, 1); /* it was not asked */
	up(&w, 2, 0); /* nor for this */
	assert_int_equal(w.n_ready, 0);
	up(&w, 2, 1);
	assert_int_equal(w.n_ready, 1);
	assert_string_equal(w.logged, "all ranks are ready (--ready=http:80/x)");
	test_clock_pass(base, 100);
	assert_int_equal(w.n_late, 0);
	end(&w);
}

TEST(a_host_that_is_late)
{
	struct world w = {.n_ready = 0};

	begin(&w, "tcp:80");
	up(&w, 0, 1);
	late(&w, 2, 1, 42, "one\ntwo\x1b[1m\n");
	assert_int_equal(w.n_late, 1);
	assert_string_equal(w.why.host, "n2");
	assert_string_equal(w.why.msg, "the ranks are not ready after 60 s (--ready=tcp:80): it is slow");
	assert_in(w.why.hint, "--ready-timeout");
	assert_int_equal(w.why.code, HVD_E_TIMEOUT);
	assert_string_equal(w.logged, "the last lines of rank 2 on n2 (stderr):\n| one\n| two\\x1b[1m");
	up(&w, 2, 1);
	late(&w, 0, 1, 40, "");
	assert_int_equal(w.n_late + w.n_ready, 1);
	end(&w);
}

/* Its ranks have ended, or its agent hangs. */
TEST(a_host_that_says_nothing)
{
	struct world w = {.n_ready = 0};

	begin(&w, "notify");
	up(&w, 2, 1);
	test_clock_pass(base, 64);
	assert_int_equal(w.n_late, 0);
	test_clock_pass(base, 2);
	assert_int_equal(w.n_late, 1);
	assert_string_equal(w.why.host, "n0");
	assert_in(w.why.msg, "its ranks there have ended");
	assert_null(w.logged);
	end(&w);
}

TEST(a_generation_is_asked_anew)
{
	struct world w = {.n_ready = 0};

	begin(&w, "file:ready");
	up(&w, 0, 1);
	hvd_ready_stop(w.ready);
	up(&w, 2, 1);
	test_clock_pass(base, 100);
	hvd_ready_begin(w.ready, &w.layout);
	up(&w, 2, 1);
	up(&w, 2, 2);
	assert_int_equal(w.n_ready, 0);
	up(&w, 0, 2);
	assert_int_equal(w.n_ready, 1);
	assert_int_equal(w.n_late, 0);
	end(&w);
}

RUN_TESTS(.setup = open_pair, .teardown = close_pair)
