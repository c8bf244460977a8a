/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts use, as events: of each host, and of many hosts in turn. */
#include "launcher/world/usage_log.h"

#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

#define MAX_HOSTS 1000

struct seen {
	uint32_t hosts[MAX_HOSTS];
	size_t n;
	struct hvd_event last;
	char host[64];
};

static void on_event(const struct hvd_event *event, void *arg)
{
	struct seen *seen = arg;

	if (event->name != HVD_EV_HOST_USAGE)
		return;
	seen->n++;
	seen->hosts[event->index]++;
	seen->last = *event;
	snprintf(seen->host, sizeof(seen->host), "%s", event->host);
}

/* Two ranks on each host. */
static void layout_make(struct hvd_layout *layout, int n)
{
	char **names = hvd_xcalloc((size_t)n, sizeof(*names));
	int *tasks = hvd_xcalloc((size_t)n, sizeof(*tasks));

	for (int i = 0; i < n; i++) {
		names[i] = hvd_xasprintf("n%d", i);
		tasks[i] = 2;
	}
	assert_int_equal(hvd_layout_from_tasks(layout, names, tasks, NULL, n, NULL), 0);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(tasks);
}

static void with_hosts(int n, unsigned looks, struct seen *seen)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	struct hvd_usage *usage = hvd_usage_create(0, events);
	struct hvd_layout layout = {0};

	layout_make(&layout, n);
	hvd_event_log_listen(events, on_event, seen);
	assert_int_equal(hvd_usage_log_look(usage, 0, events), 0);
	hvd_usage_begin(usage, &layout);
	assert_int_equal(hvd_usage_log_look(usage, 0, events), 0);
	for (uint32_t r = 0; r < 2 * (uint32_t)n; r++) {
		const struct hvd_rank_usage uses = {
			.rank = r, .cpu = 900, .memory = 1000, .gpu = r < 4 ? 500 : HVD_USAGE_UNKNOWN};

		hvd_usage_take(usage, r / 2, &uses, hvd_now());
	}
	for (unsigned look = 0; look < looks; look++) {
		const size_t before = seen->n, logged = hvd_usage_log_look(usage, look, events);

		assert_int_equal(logged, seen->n - before);
		assert_int_in_range(logged, 1, HVD_USAGE_LOG_HOSTS);
	}
	hvd_usage_destroy(usage);
	hvd_event_log_destroy(events);
	hvd_layout_clear(&layout);
}

TEST(each_host_has_the_sum_of_its_ranks)
{
	struct seen seen = {0};

	with_hosts(2, 3, &seen);
	assert_int_equal(seen.hosts[0], 3);
	assert_int_equal(seen.hosts[1], 3);
	assert_string_equal(seen.host, "n1");
	assert_int_equal(seen.last.ranks, 2);
	assert_int_equal(seen.last.cpu, 1800);
	assert_int_equal(seen.last.memory, 2000);
	assert_int_equal(seen.last.gpu, 1000);
	with_hosts(3, 1, &seen);
	assert_int_equal(seen.last.gpu, HVD_USAGE_UNKNOWN);
}

TEST(many_hosts_take_turns)
{
	struct seen seen = {0};

	with_hosts(1000, 34, &seen);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(seen.hosts[i], 2);
}

RUN_TESTS()
