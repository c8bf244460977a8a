/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a job of very many generations is bounded, and valid. test_launch.c has that of a start. */
#include "launcher/events/trace.h"

#include "tests/unit/unit.h"

#include <jansson.h>

#define GENERATIONS 40000

TEST(a_month_of_restarts)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	char path[] = "/tmp/hvd-test-trace-XXXXXX";
	int fd = mkstemp(path);
	struct hvd_trace *trace = hvd_trace_create(events, path, NULL);
	json_t *file, *event;
	bool first = false, last = false, middle = false;
	size_t i;

	assert_true(fd >= 0);
	close(fd);
	for (int g = 1; g <= GENERATIONS; g++) {
		hvd_event(events, HOST_COMING, .host = "node0");
		hvd_event(events, HOST_REGISTERED, .host = "node0");
		hvd_event(events, GENERATION_BEGAN, .generation = g);
		hvd_event(events, INIT_DONE, .index = 0);
		hvd_event(events, GENERATION_FAILED, .rank = 1, .host = "n\xff\n", .how = "exit code 1");
		hvd_event(events, GENERATION_ENDING, .why = "this reason comes later");
		hvd_event(events, HOST_LOST, .index = UINT32_MAX, .host = "node0", .why = "its link is down");
	}
	hvd_event(events, LAUNCH_ENDED, .status = 0);
	hvd_event_log_destroy(events);
	hvd_trace_destroy(trace);
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

RUN_TESTS()
