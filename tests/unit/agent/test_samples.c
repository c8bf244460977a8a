/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks use: this process stands for the node agent, and its children are the ranks. */
#include "agent/agent.h"
#include "lib/base/deadline.h"
#include "lib/host/rank_usage.h"

#include "tests/unit/unit.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EVERY 0.3
#define MOST  8
#define OTHER 4 /* rank 0 of world 1, among what was told */

struct world {
	struct hvd_agent agent;
	struct hvd_agent **scan, **samples; /* the features' states, which begin so */
	int messages;
	struct hvd_rank_usage last[MOST];
	int told[MOST];
};

/* In place of the agent's own. */
void hvd_driver_client_send(struct hvd_driver_client *driver, json_t *msg)
{
	struct world *w = (struct world *)driver;
	json_t *ranks = json_object_get(msg, "ranks"), *element;
	struct hvd_rank_usage usage;
	struct hvd_err err = {0};
	unsigned number;
	size_t i;

	assert_string_equal(json_string_value(json_object_get(msg, "t")), "usage");
	assert_int_equal(hvd_world_of(msg, &number, NULL), 0);
	assert_true(json_array_size(ranks) > 0);
	json_array_foreach(ranks, i, element)
	{
		if (hvd_rank_usage_parse(element, &usage, &err) != 0)
			fail_msg("%s", err.msg);
		usage.rank += OTHER * number;
		assert_true(usage.rank < MOST);
		w->last[usage.rank] = usage;
		w->told[usage.rank]++;
	}
	w->messages++;
	json_decref(msg);
}

static void run(struct world *w, double seconds)
{
	hvd_time end = hvd_deadline_in(seconds);

	while (hvd_left(end) > 0) {
		struct timeval tv = hvd_left_tv(end);

		event_base_loopexit(w->agent.base, &tv);
		event_base_dispatch(w->agent.base);
	}
}

static struct hvd_agent **begin_feature(struct world *w, const struct hvd_feature *feature)
{
	struct hvd_agent **state = calloc(1, feature->size);

	assert_non_null(state);
	*state = &w->agent;
	feature->begin(state);
	return state;
}

static void begin(struct world *w, double sample)
{
	*w = (struct world){.agent = {.base = event_base_new(), .driver = (struct hvd_driver_client *)w}};
	w->scan = begin_feature(w, &hvd_rank_scan_feature);
	w->samples = begin_feature(w, &hvd_samples_feature);
	w->agent.settings.sample = sample;
	assert_int_equal(hvd_samples_feature.plan(w->samples, NULL, NULL), 0);
}

static void end(struct world *w)
{
	hvd_rank_scan_feature.end(w->scan);
	hvd_samples_feature.end(w->samples);
	free(w->scan);
	free(w->samples);
	event_base_free(w->agent.base);
}

static pid_t ranks[MOST]; /* of this test; 0: has been ended */
static size_t n_ranks;

static int end_ranks(void **state)
{
	for (; n_ranks > 0; n_ranks--)
		if (ranks[n_ranks - 1]) {
			kill(-ranks[n_ranks - 1], SIGKILL); /* what it has started, too */
			kill(ranks[n_ranks - 1], SIGKILL);  /* it may be in the group of another one */
			waitpid(ranks[n_ranks - 1], NULL, 0);
		}
	return 0;
}

/* A rank that runs a shell's command, in this group, or a group of its own (0). It ends with the test. What it leaves behind when this
 * program is killed must not keep a processor busy for ever. */
static uint32_t rank_of(struct world *w, struct hvd_world_rank number, pid_t group, const char *command)
{
	const struct rlimit processor = {.rlim_cur = 60, .rlim_max = 60};
	pid_t pid;

	assert_true(n_ranks < MOST);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, group);
		setrlimit(RLIMIT_CPU, &processor);
		execl("/bin/bash", "bash", "-c", command, (char *)NULL);
		_exit(127);
	}
	setpgid(pid, group ? group : pid);
	ranks[n_ranks] = pid;
	hvd_rank_scan_feature.rank_began(w->scan, number, pid);
	hvd_samples_feature.rank_began(w->samples, number, pid);
	return (uint32_t)n_ranks++;
}

static uint32_t rank(struct world *w, const char *command)
{
	return rank_of(w, (struct hvd_world_rank){0, (uint32_t)n_ranks}, 0, command);
}

/* Until the last message about the rank is like this. */
static void comes(struct world *w, uint32_t rank, const char *what, bool (*is)(const struct hvd_rank_usage *usage))
{
	for (int i = 0; i < 300; i++) {
		if (w->told[rank] && is(&w->last[rank]))
			return;
		run(w, 0.1);
	}
	fail_msg("rank %u was not told as %s: %d messages, the last with cpu %lld, delay %lld, memory %lld, read %lld, "
		 "written %lld, output %lld",
		 (unsigned)rank, what, w->told[rank], (long long)w->last[rank].cpu, (long long)w->last[rank].delay,
		 (long long)w->last[rank].memory, (long long)w->last[rank].read, (long long)w->last[rank].written,
		 (long long)w->last[rank].output);
}

static bool is_known(const struct hvd_rank_usage *usage)
{
	return usage->memory > 0;
}

/* Others may have the processors, but then it waits for one. */
static bool is_busy(const struct hvd_rank_usage *usage)
{
	return usage->cpu > 10 && usage->cpu + usage->delay > 700 && usage->cpu < 1300;
}

static bool is_idle(const struct hvd_rank_usage *usage)
{
	return usage->cpu < 50 && usage->delay < 50 && usage->written == 0;
}

static bool is_large(const struct hvd_rank_usage *usage)
{
	return usage->memory > 60000000;
}

static bool writes(const struct hvd_rank_usage *usage)
{
	return usage->written > 50000 && usage->read < usage->written;
}

static bool reads(const struct hvd_rank_usage *usage)
{
	return usage->read > 50000 && usage->written < usage->read / 2;
}

TEST(test_what_ranks_use)
{
	struct world w;
	uint32_t busy, child, idle, large, writer, reader;

	begin(&w, EVERY);
	busy = rank(&w, "while :; do :; done");
	child = rank(&w, "(while :; do :; done) & sleep 60; wait");
	idle = rank(&w, "exec sleep 60");
	large = rank(&w, "printf -v x %60000000d 0; sleep 60; :");
	writer = rank(&w, "printf -v x %0100000d 0; while :; do echo $x; sleep 0.1; done >/dev/null");
	reader = rank(&w, "while :; do grep -c 'no such text' /bin/bash; sleep 0.1; done >/dev/null");
	comes(&w, busy, "busy", is_busy);
	comes(&w, child, "busy by a child", is_busy);
	comes(&w, idle, "idle", is_idle);
	comes(&w, large, "large", is_large);
	comes(&w, writer, "one that writes", writes);
	comes(&w, reader, "one that reads", reads);
	end(&w);
}

/* Slurm puts all tasks of a step on a host into the group of the first. */
TEST(test_ranks_of_one_group)
{
	struct world w;
	uint32_t first, second;

	begin(&w, EVERY);
	first = rank(&w, "exec sleep 60");
	second = rank_of(&w, (struct hvd_world_rank){0, (uint32_t)n_ranks}, ranks[first],
			 "(while :; do :; done) & sleep 60; wait");
	comes(&w, second, "busy by a child", is_busy);
	comes(&w, first, "idle", is_idle);
	end(&w);
}

/* Both have the number 0. */
TEST(test_ranks_of_two_worlds)
{
	const struct hvd_world_rank other = {1, 0};
	struct world w;

	begin(&w, EVERY);
	rank(&w, "exec sleep 60");
	rank_of(&w, other, 0, "while :; do :; done");
	comes(&w, OTHER, "busy", is_busy);
	comes(&w, 0, "idle", is_idle);
	hvd_rank_scan_feature.rank_ended(w.scan, other);
	hvd_samples_feature.rank_ended(w.samples, other);
	w.told[0] = w.told[OTHER] = 0;
	hvd_samples_feature.rank_began(w.samples, (struct hvd_world_rank){0, 0}, ranks[0]); /* is told anew */
	comes(&w, 0, "known", is_known);
	assert_int_equal(w.told[OTHER], 0);
	end(&w);
}

TEST(test_what_has_not_changed_is_not_told_again)
{
	struct world w;
	uint32_t idle;

	begin(&w, EVERY);
	idle = rank(&w, "exec sleep 60");
	comes(&w, idle, "known", is_known);
	run(&w, 2 * EVERY); /* its begin may be a change */
	w.told[idle] = 0;
	run(&w, 8 * EVERY);
	assert_true(w.told[idle] <= 1);
	end(&w);
}

TEST(test_output)
{
	struct world w;
	uint32_t one, other;

	begin(&w, EVERY);
	one = rank(&w, "exec sleep 60");
	other = rank(&w, "exec sleep 60");
	hvd_samples_feature.rank_output(w.samples, (struct hvd_world_rank){0, one}, 0);
	hvd_samples_feature.rank_output(w.samples, (struct hvd_world_rank){0, other}, 7);
	comes(&w, one, "known", is_known);
	comes(&w, other, "known", is_known);
	assert_true(w.last[one].output >= 0);
	assert_true(w.last[one].output < 30);
	assert_int_equal(w.last[other].output, HVD_USAGE_UNKNOWN); /* it may print what does not pass here */
	end(&w);
}

TEST(test_a_rank_that_has_ended_is_not_told)
{
	struct world w;
	uint32_t busy;

	begin(&w, EVERY);
	busy = rank(&w, "while :; do :; done");
	comes(&w, busy, "known", is_known);
	hvd_rank_scan_feature.rank_ended(w.scan, (struct hvd_world_rank){0, busy});
	hvd_samples_feature.rank_ended(w.samples, (struct hvd_world_rank){0, busy});
	w.messages = 0;
	run(&w, 4 * EVERY);
	assert_int_equal(w.messages, 0);
	end(&w);
}

TEST(test_nothing_is_looked_at_if_sample_is_0)
{
	struct world w;

	begin(&w, 0);
	rank(&w, "while :; do :; done");
	run(&w, 1);
	assert_int_equal(w.messages, 0);
	end(&w);
}

RUN_TESTS(.teardown = end_ranks)
