/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a job of very many generations is bounded, and valid. test_launch.c has that of a start. */
#include "launcher/driver/trace.h"

#include "unit.h"

#include <jansson.h>

#define GENERATIONS 40000

static void a_month_of_restarts(void **state)
{
	struct hvd_trace *trace = hvd_trace_create();
	struct hvd_host_table table;
	char path[] = "/tmp/hvd-test-trace-XXXXXX";
	int fd = mkstemp(path);
	json_t *file, *event;
	bool first = false, last = false, middle = false;
	size_t i;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	hvd_host_table_init(&table, 0, 0);
	hvd_host_table_expect(&table, 0, "node0");
	hvd_trace_registered(trace);
	for (int g = 0; g < GENERATIONS; g++) {
		hvd_trace_generation(trace);
		hvd_trace_init(trace, true);
		hvd_trace_ends(trace, "rank 1 on n\xff\n: exit code 1");
		hvd_trace_ends(trace, "this reason comes later");
		hvd_trace_left(trace, &table, 0, "its link is down");
	}
	assert_int_equal(hvd_trace_write(trace, path, &table, hvd_now(), NULL), 0);
	hvd_trace_destroy(trace);
	hvd_host_table_clear(&table);
	file = json_load_file(path, 0, NULL);
	unlink(path);
	assert_non_null(file);
	assert_int_in_range(json_array_size(json_object_get(file, "traceEvents")), 32768, 32768 + 100);
	json_array_foreach(json_object_get(file, "traceEvents"), i, event)
	{
		const json_t *args = json_object_get(event, "args");
		json_int_t g = json_integer_value(json_object_get(args, "generation"));
		const char *why = json_string_value(json_object_get(args, "why"));

		first = first || g == 1;
		middle = middle || g == GENERATIONS / 2;
		last = last || g == GENERATIONS - 1;
		if (why && g)
			assert_string_equal(why, "rank 1 on n\\xff\n: exit code 1");
		else if (why)
			assert_string_equal(why, "its link is down");
	}
	assert_true(first && last && !middle);
	json_decref(file);
}

static void none_is_wanted(void **state)
{
	(void)state;
	hvd_trace_registered(NULL);
	hvd_trace_generation(NULL);
	hvd_trace_init(NULL, true);
	hvd_trace_ends(NULL, "x");
	hvd_trace_left(NULL, NULL, 0, NULL);
	assert_int_equal(hvd_trace_write(NULL, "/nowhere/trace", NULL, 0, NULL), 0);
	hvd_trace_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_month_of_restarts), cmocka_unit_test(none_is_wanted)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
