/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of a launch's events, as the file has it at the end. */
#include "launcher/metrics/metrics.h"

#include "lib/base/file.h"
#include "tests/unit/unit.h"

static char path[64];

/* The file of a launch with these events: the caller frees it. */
static char *file_of(void (*happens)(struct hvd_event_log *events))
{
	struct hvd_event_log *events = hvd_event_log_create("login:42", NULL, NULL, NULL);
	struct hvd_launch_spec spec = {.metrics = path};
	struct hvd_metrics *metrics;
	size_t len;
	char *text;

	snprintf(path, sizeof(path), "file:/tmp/hvd-test-metrics.%d", (int)getpid());
	metrics = hvd_metrics_create(&spec, events, NULL, NULL);
	assert_non_null(metrics);
	happens(events);
	hvd_event_log_destroy(events);
	hvd_metrics_destroy(metrics);
	text = hvd_read_file(path + 5, 65536, "the file", &len, NULL);
	assert_non_null(text);
	unlink(path + 5);
	return text;
}

static void has(const char *text, const char *name, const char *labels, long value)
{
	char line[256];

	snprintf(line, sizeof(line), "\n%s{launch=\"login:42\"%s} %ld\n", name, labels, value);
	assert_in(text, line);
}

static void restarts(struct hvd_event_log *events)
{
	hvd_event(events, LAUNCH_BEGAN, .version = "9", .backend = "ssh", .job = 5);
	hvd_event(events, GENERATION_BEGAN, .generation = 1, .ranks = 4, .hosts = "n[1-2]");
	hvd_event(events, RANK_SLOW, .rank = 2, .host = "n1", .why = "x");
	hvd_event(events, RANK_ENDED, .rank = 1, .host = "n1", .status = 3, .how = "exit code 3");
	hvd_event(events, GENERATION_FAILED, .rank = 1, .host = "n1", .how = "exit code 3");
	hvd_event(events, RANK_ENDED, .rank = 0, .host = "n1", .status = 137, .how = "x", .cause = "oom");
	hvd_event(events, RANK_ENDED, .rank = 2, .host = "n2", .status = 143, .how = "x", .cause = "with-all");
	hvd_event(events, RANK_ENDED, .rank = 3, .host = "n2", .status = 139, .how = "x");
	hvd_event(events, HOST_LOST, .host = "n2", .why = "x");
	hvd_event(events, RESTART, .restarts = 1, .why = "x");
	hvd_event(events, GENERATION_ENDED, .index = 0);
	hvd_event(events, GENERATION_BEGAN, .generation = 2, .ranks = 2, .hosts = "n1");
	hvd_event(events, HANG, .seconds = 10, .why = "x");
	hvd_event(events, RANK_ENDED, .rank = 0, .host = "n1", .status = 0, .how = "exit code 0");
}

static void restarts_and_ends(struct hvd_event_log *events)
{
	restarts(events);
	hvd_event(events, LAUNCH_ENDING, .index = 0);
	hvd_event(events, REQUEUE, .job = 5, .why = "x");
	hvd_event(events, LAUNCH_ENDED, .status = 85);
}

TEST(each_event_is_counted_once)
{
	char *text = file_of(restarts_and_ends);

	has(text, "hvd_launch_info", ",version=\"9\",backend=\"ssh\",job=\"5\"", 1);
	has(text, "hvd_launch_state", ",state=\"ended\"", 1);
	has(text, "hvd_launch_state", ",state=\"running\"", 0);
	has(text, "hvd_launch_exit_status", "", 85);
	has(text, "hvd_generation", "", 2);
	has(text, "hvd_generations_total", "", 2);
	has(text, "hvd_launch_ranks", "", 2);
	has(text, "hvd_failures_total", "", 1);
	has(text, "hvd_restarts_total", "", 1);
	has(text, "hvd_hosts_lost_total", "", 1);
	has(text, "hvd_ranks_found_slow_total", "", 1);
	has(text, "hvd_hangs_total", "", 1);
	has(text, "hvd_requeues_total", "", 1);
	has(text, "hvd_rank_ends_total", ",how=\"ok\"", 1);
	has(text, "hvd_rank_ends_total", ",how=\"exit\"", 1);
	has(text, "hvd_rank_ends_total", ",how=\"signal\"", 1);
	has(text, "hvd_rank_ends_total", ",how=\"oom\"", 1);
	has(text, "hvd_rank_ends_total", ",how=\"with-all\"", 1);
	free(text);
}

static void nothing(struct hvd_event_log *events)
{
}

static void fails(struct hvd_event_log *events)
{
	hvd_event(events, GENERATION_BEGAN, .generation = 1, .ranks = 4, .hosts = "n1");
	hvd_event(events, GENERATION_FAILED, .rank = 1, .host = "n1", .how = "exit code 3");
}

static void waits(struct hvd_event_log *events)
{
	fails(events);
	hvd_event(events, GENERATION_ENDED, .index = 0);
}

TEST(a_launch_is_in_one_state)
{
	static const struct {
		void (*happens)(struct hvd_event_log *events);
		const char *state;
	} launches[] = {{nothing, "starting"},
			{restarts, "running"},
			{fails, "ending"},
			{waits, "starting"},
			{restarts_and_ends, "ended"}};
	char label[64], *text;

	for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		text = file_of(launches[i].happens);
		snprintf(label, sizeof(label), ",state=\"%s\"", launches[i].state);
		has(text, "hvd_launch_state", label, 1);
		free(text);
	}
}

TEST(options_that_cannot_be_obeyed)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	struct hvd_launch_spec spec = {0};
	struct hvd_err err = {0};

	assert_null(hvd_metrics_create(&spec, events, NULL, &err));
	assert_int_equal(err.code, HVD_OK); /* there are none */
	spec.metrics = (char *)"nonsense";
	assert_null(hvd_metrics_create(&spec, events, NULL, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
	spec.metrics = (char *)"0";
	spec.metrics_token_file = (char *)"/nowhere";
	assert_null(hvd_metrics_create(&spec, events, NULL, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
	hvd_event_log_destroy(events);
}

RUN_TESTS()
