/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of stacks of a hang, as events. */
#include "launcher/diagnosis/stack_events.h"

#include "tests/unit/unit.h"

static json_t *at_line(int rank, int line)
{
	return json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:b, s:[[s,s,i],[s,s,i]]}", "rank", rank, "pid", 100 + rank,
			 "state", "sleeping", "how", "py-spy", "why", "", "wchan", "ep_poll", "stopped", 0, "frames",
			 "read", "/work/loader.py", line, "<module>\x1b", "/work/train.py", 60);
}

/* The ranks 0 to n-1 on hosts of two ranks; those from `odd` on are each at a line of their own. */
static json_t *answers(int n, int odd)
{
	json_t *hosts = json_array(), *ranks = NULL;

	for (int r = 0; r < n; r++) {
		char name[16];

		if (r % 2 == 0) {
			snprintf(name, sizeof(name), "n%d", r / 2);
			ranks = json_array();
			json_array_append_new(hosts, json_pack("{s:s, s:o}", "host", name, "ranks", ranks));
		}
		json_array_append_new(ranks, at_line(r, r < odd ? 1 : 1 + r));
	}
	return json_pack("{s:o, s:[], s:s}", "hosts", hosts, "silent", "store", "");
}

struct seen {
	int n;
	int64_t ranks;
	char lines[64][HVD_EVENT_LINE + 1];
};

static void on_event(const struct hvd_event *event, void *arg)
{
	struct seen *seen = arg;

	assert_int_equal(event->name, HVD_EV_STACK_GROUP);
	seen->ranks += event->count;
	hvd_event_line("x", event, seen->lines[seen->n++]);
}

static void look(json_t *said, struct seen *seen)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);

	memset(seen, 0, sizeof(*seen));
	hvd_event_log_listen(events, on_event, seen);
	hvd_stack_events(said, 0, events);
	hvd_event_log_destroy(events);
	json_decref(said);
}

TEST(a_group_is_an_event_the_odd_ones_first)
{
	static struct seen seen;

	look(answers(6, 5), &seen);
	assert_int_equal(seen.n, 2);
	assert_in(seen.lines[0], "\"hosts\":\"n2\",\"members\":\"5\",\"where\":\"read (loader.py:6)\"");
	assert_in(seen.lines[0], "\"stack\":\"read (/work/loader.py:6)\\n<module>\\\\x1b (/work/train.py:60)\"");
	assert_in(seen.lines[1], "\"hosts\":\"n0, n1, n2\",\"members\":\"0-4\"");
	assert_in(seen.lines[1], "\"count\":5");
}

TEST(very_many_groups_are_cut)
{
	static struct seen seen;

	look(answers(50, 2), &seen);
	assert_int_equal(seen.n, 16);
	look(answers(2000, 2000), &seen);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.ranks, 2000);
	assert_in(seen.lines[0], "\"members\":\"0-1999\"");
	look(json_pack("{s:[{s:i}, i, {s:[i]}]}", "hosts", "host", 1, 2, "ranks", 3), &seen);
}

/* What does not fit is cut, whatever it consists of. */
TEST(a_line_has_room)
{
	char long_text[2000], line[HVD_EVENT_LINE + 1];
	const struct hvd_event event = {.name = HVD_EV_STACK_GROUP,
					.at = hvd_now(),
					.hosts = long_text,
					.members = long_text,
					.where = long_text,
					.stack = long_text};
	json_t *json;

	for (int c = 1; c < 256; c++) {
		memset(long_text, c, sizeof(long_text) - 1);
		long_text[sizeof(long_text) - 1] = '\0';
		assert_true(hvd_event_line(long_text, &event, line) <= HVD_EVENT_LINE);
		json = json_loads(line, 0, NULL);
		assert_non_null(json_object_get(json_object_get(json, "context"), "stack"));
		json_decref(json);
	}
}

RUN_TESTS()
