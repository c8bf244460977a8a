/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a job with restarts: where its time went, why each generation ended, and which failures repeat. */
#include "launcher/elastic/restart_history.h"

#include "idle_machine_ops.h"
#include "unit.h"

#define SECOND 1000000000LL
#define FAILED (1 << 8)

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	(void)why;
	(void)status;
	(void)arg;
	fail();
}

static const struct hvd_machine_ops ops = {do_host,   do_host, do_host,    do_nothing, do_no_generation,
					   do_start,  do_end,  do_nothing, do_host,    do_nothing,
					   do_finish, NULL,    NULL,       NULL,       NULL};

/* A job of two ranks on two hosts, in its first generation at second 3; it began at 1. */
static struct hvd_machine *running(void)
{
	const struct hvd_machine_opts opts = {
		.np = 2, .min_np = 2, .restart = true, .max_restarts = 9, .elastic_timeout = 600, .patience = 600};
	struct hvd_machine *m = hvd_machine_create(&opts, SECOND, &ops, NULL, NULL);
	struct hvd_alloc hosts;

	assert_int_equal(hvd_alloc_from_hosts(&hosts, "n1:1,n2:1", 1, NULL), 0);
	hvd_machine_hosts(m, &hosts, 2 * SECOND);
	hvd_machine_host_here(m, 0, 3 * SECOND);
	hvd_machine_host_here(m, 1, 3 * SECOND);
	hvd_alloc_clear(&hosts);
	assert_int_equal(hvd_machine_generation(m), 1);
	return m;
}

static double number(const json_t *object, const char *key)
{
	return json_real_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void where_the_time_went(void **state)
{
	struct hvd_machine *m = running();
	struct hvd_restart_history history;
	struct hvd_result result = {0};
	const json_t *one;

	(void)state;
	hvd_restart_history_init(&history, SECOND);
	hvd_restart_history_begin(&history, m, 3 * SECOND);
	/* Rank 1 fails at 10, rank 0 ends at 12; the next generation begins at 12, but it is noted only at 15. */
	hvd_restart_history_failed(&history, "exit code 1", "ValueError: x", "n2", 1, 10 * SECOND);
	hvd_restart_history_failed(&history, "exit code 2", NULL, "n1", 0, 11 * SECOND); /* does not count */
	hvd_restart_history_ends(&history, "hosts have changed", NULL, 11 * SECOND);     /* nor this */
	hvd_machine_exited(m, hvd_machine_member(m, 1)->id, FAILED, 10 * SECOND);
	hvd_machine_exited(m, hvd_machine_member(m, 0)->id, FAILED, 12 * SECOND);
	assert_int_equal(hvd_machine_generation(m), 2);
	hvd_restart_history_begin(&history, m, 15 * SECOND);
	hvd_restart_history_end(&history, &result, 21 * SECOND, NULL);

	assert_int_equal(json_array_size(result.history), 2);
	one = json_array_get(result.history, 0);
	assert_string_equal(text(one, "cause"), "exit code 1");
	assert_string_equal(text(one, "error"), "ValueError: x");
	assert_string_equal(text(one, "host"), "n2");
	assert_string_equal(text(one, "hosts"), "n[1-2]");
	assert_int_equal(json_integer_value(json_object_get(one, "rank")), 1);
	assert_true(number(one, "began") == 2 && number(one, "training") == 7 && number(one, "ending") == 2);
	one = json_array_get(result.history, 1);
	assert_null(json_object_get(one, "cause"));
	assert_true(number(one, "training") == 6 && number(one, "ending") == 0);
	assert_true(number(result.goodput, "total") == 20 && number(result.goodput, "start") == 2);
	assert_true(number(result.goodput, "training") == 13 && number(result.goodput, "ending") == 2);
	assert_true(number(result.goodput, "waiting") == 3);
	assert_true(number(result.goodput, "goodput") == 13.0 / 20);
	hvd_result_clear(&result);
	hvd_restart_history_clear(&history);
	hvd_machine_destroy(m);
}

/* Training begins with init_process_group(), as soon as it is known that the program calls it. */
static void imports_are_no_training(void **state)
{
	struct hvd_machine *m = running();
	struct hvd_restart_history history;
	struct hvd_result result = {0};

	(void)state;
	hvd_restart_history_init(&history, SECOND);
	hvd_restart_history_begin(&history, m, 3 * SECOND);
	hvd_restart_history_failed(&history, "exit code 1", NULL, "n2", 1, 10 * SECOND); /* in its imports */
	hvd_restart_history_init_done(&history, 11 * SECOND);                            /* too late to count */
	hvd_machine_exited(m, hvd_machine_member(m, 1)->id, FAILED, 10 * SECOND);
	hvd_machine_exited(m, hvd_machine_member(m, 0)->id, FAILED, 12 * SECOND);
	hvd_restart_history_begin(&history, m, 12 * SECOND);
	hvd_restart_history_init_done(&history, 16 * SECOND);
	hvd_restart_history_init_done(&history, 18 * SECOND); /* a second time */
	hvd_restart_history_failed(&history, "exit code 1", NULL, "n2", 1, 20 * SECOND);
	hvd_restart_history_begin(&history, m, 21 * SECOND);
	hvd_restart_history_end(&history, &result, 26 * SECOND, NULL); /* never initialised, too */

	assert_int_equal(json_array_size(result.history), 3);
	assert_true(number(json_array_get(result.history, 0), "init") == 7);
	assert_true(number(json_array_get(result.history, 0), "training") == 0);
	assert_true(number(json_array_get(result.history, 1), "init") == 4);
	assert_true(number(json_array_get(result.history, 1), "training") == 4);
	assert_true(number(json_array_get(result.history, 2), "init") == 5);
	assert_true(number(json_array_get(result.history, 2), "training") == 0);
	assert_true(number(result.goodput, "init") == 7 + 4 + 5 && number(result.goodput, "training") == 4);
	assert_true(number(result.goodput, "goodput") == 4.0 / 25);
	hvd_result_clear(&result);
	hvd_restart_history_clear(&history);
	hvd_machine_destroy(m);
}

/* The same rank, the same exception, another host; what the loss of a host has ended in between is passed over. */
static void failures_that_repeat(void **state)
{
	static const struct {
		const char *error, *host; /* no host: the generation is ended by the loss of one */
		int rank;
		bool repeats;
	} ends[] = {
		{"ValueError: x", "n1", 3, false}, /* the first */
		{"ValueError: x", "n1", 3, false}, /* the same host */
		{NULL, NULL, 0, false},            /* a host */
		{"ValueError: x", "n2", 3, true},  /* another host */
		{"ValueError: y", "n1", 3, false}, /* another exception */
		{"ValueError: y", "n2", 2, false}, /* another rank */
		{NULL, "n1", 2, false},            /* no exception is known: a signal */
		{NULL, "n2", 2, false},            /* a signal twice is not the same exception */
	};
	struct hvd_machine *m = running();
	struct hvd_restart_history history;

	(void)state;
	hvd_restart_history_init(&history, SECOND);
	assert_false(hvd_restart_history_repeats(&history));
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		hvd_restart_history_begin(&history, m, 3 * SECOND);
		assert_false(hvd_restart_history_repeats(&history));
		if (ends[i].host)
			hvd_restart_history_failed(&history, "exit code 1", ends[i].error, ends[i].host, ends[i].rank,
						   4 * SECOND);
		else
			hvd_restart_history_ends(&history, "n1 was lost", "n1", 4 * SECOND);
		assert_int_equal(hvd_restart_history_repeats(&history), ends[i].repeats);
	}
	hvd_restart_history_clear(&history);
	hvd_machine_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_the_time_went),
		cmocka_unit_test(imports_are_no_training),
		cmocka_unit_test(failures_that_repeat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
