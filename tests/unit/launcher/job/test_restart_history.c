/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a job with restarts: where its time went, why each generation ended, and which failures repeat. */
#include "launcher/job/restart_history.h"

#include "tests/unit/unit.h"

#define SECOND 1000000000LL

#define BEGAN(n, when)  hvd_event(events, GENERATION_BEGAN, .at = (when)*SECOND, .generation = n, .hosts = "n[1-2]")
#define INIT_DONE(when) hvd_event(events, INIT_DONE, .at = (when)*SECOND)
#define OVER(when)      hvd_event(events, GENERATION_ENDED, .at = (when)*SECOND)
#define FAILED(what, exception, where, number, when)                                                                   \
	hvd_event(events, GENERATION_FAILED, .at = (when)*SECOND, .how = what, .error = exception, .host = where,      \
		  .rank = number)
#define ENDING(what, where, when) hvd_event(events, GENERATION_ENDING, .at = (when)*SECOND, .why = what, .host = where)

static double number(const json_t *object, const char *key)
{
	return json_real_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

TEST(where_the_time_went)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	struct hvd_restart_history history;
	struct hvd_result result = {0};
	const json_t *one;

	hvd_restart_history_init(&history, events, 0, SECOND);
	BEGAN(1, 3);
	/* Rank 1 fails at 10, rank 0 ends at 12; the next generation begins at 12, but it is noted only at 15. */
	FAILED("exit code 1", "ValueError: x", "n2", 1, 10);
	FAILED("exit code 2", NULL, "n1", 0, 11); /* does not count */
	ENDING("hosts have changed", NULL, 11);   /* nor this */
	OVER(12);
	BEGAN(2, 15);
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
	hvd_event_log_destroy(events);
}

/* Training begins with init_process_group(), as soon as it is known that the program calls it. */
TEST(imports_are_no_training)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	struct hvd_restart_history history;
	struct hvd_result result = {0};

	hvd_restart_history_init(&history, events, 0, SECOND);
	BEGAN(1, 3);
	FAILED("exit code 1", NULL, "n2", 1, 10); /* in its imports */
	INIT_DONE(11);                            /* too late to count */
	OVER(12);
	BEGAN(2, 12);
	INIT_DONE(16);
	INIT_DONE(18); /* a second time */
	FAILED("exit code 1", NULL, "n2", 1, 20);
	BEGAN(3, 21);
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
	hvd_event_log_destroy(events);
}

/* The same rank, the same exception, another host; what the loss of a host has ended in between is passed over. */
TEST(failures_that_repeat)
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
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	struct hvd_restart_history history;

	hvd_restart_history_init(&history, events, 0, SECOND);
	assert_false(hvd_restart_history_repeats(&history));
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		BEGAN((int)i + 1, 3);
		assert_false(hvd_restart_history_repeats(&history));
		if (ends[i].host)
			FAILED("exit code 1", ends[i].error, ends[i].host, ends[i].rank, 4);
		else
			ENDING("n1 was lost", "n1", 4);
		assert_int_equal(hvd_restart_history_repeats(&history), ends[i].repeats);
	}
	hvd_restart_history_clear(&history);
	hvd_event_log_destroy(events);
}

RUN_TESTS()
