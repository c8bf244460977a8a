/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows of the ranks' use of their hosts. */
#include "launcher/world/usage.h"

#include "tests/unit/unit.h"

#define S  (hvd_time)1000000000
#define MB 1000000

struct job {
	struct hvd_event_log *events;
	struct hvd_layout layout;
	struct hvd_usage *usage;
};

/* Ranks 0 and 1 are on n1, ranks 2 and 3 on n2. */
static void layout_make(struct hvd_layout *layout)
{
	static char *const names[] = {(char *)"n1", (char *)"n2"};
	static const int tasks[] = {2, 2};

	assert_int_equal(hvd_layout_from_tasks(layout, names, tasks, NULL, 2, NULL), 0);
}

SETUP(job_up, struct job, job)
{
	job->events = hvd_event_log_create("test", NULL, NULL, NULL);
	layout_make(&job->layout);
	job->usage = hvd_usage_create(0, job->events);
	hvd_usage_begin(job->usage, &job->layout);
}

TEARDOWN(job_down, struct job, job)
{
	hvd_usage_destroy(job->usage);
	hvd_layout_clear(&job->layout);
	hvd_event_log_destroy(job->events);
}

static struct hvd_rank_usage uses(uint32_t rank)
{
	return (struct hvd_rank_usage){.rank = rank,
				       .cpu = 900,
				       .delay = HVD_USAGE_UNKNOWN,
				       .memory = 100 * MB,
				       .output = 7,
				       .awaited = HVD_USAGE_UNKNOWN,
				       .gpu = HVD_USAGE_UNKNOWN,
				       .gpu_memory = HVD_USAGE_UNKNOWN};
}

static void take(struct job *job, uint32_t host, uint32_t rank, hvd_time at)
{
	struct hvd_rank_usage now = uses(rank);

	hvd_usage_take(job->usage, host, &now, at);
}

static uint32_t known(const struct job *job)
{
	const struct hvd_usage_rank *r = NULL;
	uint32_t n = 0;

	while ((r = hvd_usage_next(job->usage, r)))
		n++;
	return n;
}

/* Horovod's kind of elastic job: processes keep their ids when the ranks get new numbers. */
TEST_IN(test_a_resize, struct job *job)
{
	const hvd_time now = hvd_now();

	for (int r = 0; r < 4; r++)
		job->layout.rank_slots[r].id = (uint32_t)(3 - r) + 2000000; /* above any rank's number */
	assert_int_equal(hvd_layout_rank_of(&job->layout, 0, 2000003), 0);
	assert_int_equal(hvd_layout_rank_of(&job->layout, 1, 2000003), -1);
	assert_int_equal(hvd_layout_rank_of(&job->layout, 2, 2000003), -1);
	take(job, 0, 2000003, now);
	take(job, 1, 2000000, now);
	take(job, 0, 0, now); /* a process that is in no generation any longer */
	assert_int_equal(known(job), 2);
	assert_non_null(hvd_usage_get(job->usage, 0));
	assert_int_equal(hvd_usage_get(job->usage, 3)->uses.rank, 3);
	/* What is known of a process stays when it gets another number. */
	job->layout.rank_slots[3].id = 2000009;
	job->layout.rank_slots[2].id = 2000000;
	hvd_usage_begin(job->usage, &job->layout);
	assert_int_equal(known(job), 2);
	assert_non_null(hvd_usage_get(job->usage, 0));
	assert_int_equal(hvd_usage_get(job->usage, 2)->uses.rank, 2);
}

TEST_IN(test_message_of_a_host, struct job *job)
{
	const struct hvd_client cl = {.host = 1};
	json_auto_t *msg =
		json_pack("{s:[ooo[i], s]}", "ranks", hvd_rank_usage_json(&(struct hvd_rank_usage){.rank = 0}),
			  hvd_rank_usage_json(&(struct hvd_rank_usage){.rank = 3, .cpu = 1500}),
			  hvd_rank_usage_json(&(struct hvd_rank_usage){.rank = 4}), 3, "?");

	assert_int_equal(hvd_usage_size(job->usage), 4);
	hvd_usage_message(job->usage, &cl, msg);
	/* Rank 0 is on the other host, rank 4 is not in the job, and what else there is says nothing. */
	assert_int_equal(known(job), 1);
	assert_int_equal(hvd_usage_get(job->usage, 3)->uses.cpu, 1500);
	assert_string_equal(hvd_usage_get(job->usage, 3)->host_name, "n2");
	assert_null(hvd_usage_get(job->usage, 4));
	assert_null(hvd_usage_get(job->usage, UINT32_MAX));
}

TEST_IN(test_ranks_are_forgotten, struct job *job)
{
	const hvd_time now = hvd_now();

	take(job, 0, 0, now - (HVD_USAGE_SECONDS + 1) * S);
	assert_null(hvd_usage_get(job->usage, 0)); /* too long ago */
	take(job, 0, 0, now);
	take(job, 0, 1, now);
	take(job, 1, 2, now);
	take(job, 1, 3, now);
	assert_int_equal(known(job), 4);
	hvd_event(job->events, RANK_ENDED, .rank = 1, .host = "n2"); /* of a former generation */
	hvd_event(job->events, RANK_ENDED, .rank = 7, .host = "n2");
	assert_int_equal(known(job), 4);
	hvd_event(job->events, RANK_ENDED, .rank = 1, .host = "n1");
	assert_int_equal(known(job), 3);
	hvd_usage_gone(job->usage, 1);
	hvd_usage_gone(job->usage, 2);
	assert_int_equal(known(job), 1);
	for (int r = 0; r < 4; r++)
		job->layout.rank_slots[r].id += 4; /* they are new processes */
	hvd_usage_begin(job->usage, &job->layout);
	assert_int_equal(known(job), 0);
}

TEST_IN(test_before_the_first_generation, struct job *job)
{
	struct hvd_usage *usage = hvd_usage_create(0, NULL);
	struct hvd_rank_usage now = uses(0);

	hvd_usage_take(usage, 0, &now, hvd_now());
	hvd_usage_gone(usage, 0);
	assert_int_equal(hvd_usage_size(usage), 0);
	assert_null(hvd_usage_next(usage, NULL));
	assert_null(hvd_usage_get(usage, 0));
	assert_int_equal(hvd_usage_host(usage, 0).ranks, 0);
	hvd_usage_destroy(usage);
}

TEST_IN(test_hosts, struct job *job)
{
	struct hvd_rank_usage a = uses(2), b = uses(3);
	struct hvd_usage_host host;

	a.awaited = 10;
	a.read = 5;
	b.awaited = 900;
	b.output = 3;
	b.read = INT64_MAX;
	b.gpu = 600;
	hvd_usage_take(job->usage, 1, &a, hvd_now());
	hvd_usage_take(job->usage, 1, &b, hvd_now() - 2 * S);
	assert_in_range(hvd_usage_output(hvd_usage_get(job->usage, 3), hvd_now()), 5, 7);
	host = hvd_usage_host(job->usage, 1);
	assert_int_equal(host.ranks, 2);
	assert_int_equal(host.uses.rank, 2);
	assert_int_equal(host.uses.cpu, 1800);
	assert_int_equal(host.uses.memory, 200 * MB);
	assert_int_equal(host.uses.delay, HVD_USAGE_UNKNOWN);
	assert_int_equal(host.uses.awaited, 900);
	assert_in_range(host.uses.output, 5, 7); /* that of b, two seconds later */
	assert_int_equal(host.uses.gpu, 600);
	assert_true(host.uses.read == INT64_MAX);
	assert_int_equal(hvd_usage_host(job->usage, 0).ranks, 0);
	assert_int_equal(hvd_usage_host(job->usage, 2).ranks, 0);
	/* With those of other worlds: one that has as many ranks there, and one that has none. */
	hvd_usage_host_add(job->usage, 1, &host);
	hvd_usage_host_add(job->usage, 0, &host);
	assert_int_equal(host.ranks, 4);
	assert_string_equal(host.name, hvd_usage_host(job->usage, 1).name);
	assert_int_equal(host.uses.cpu, 3600);
	assert_int_equal(host.uses.awaited, 900);
	assert_in_range(host.uses.output, 5, 7);
}

/* Memory as of every 5 seconds of the last 200, in MB. */
static const struct hvd_usage_rank *grow(struct job *job, int64_t (*memory)(int second))
{
	const hvd_time now = hvd_now();
	struct hvd_rank_usage r = uses(0);

	hvd_usage_gone(job->usage, 0);
	for (int s = 0; s <= 200; s += 5) {
		r.memory = memory(s) * MB;
		hvd_usage_take(job->usage, 0, &r, now + (s - 200) * S);
	}
	return hvd_usage_get(job->usage, 0);
}

static int64_t leak(int second)
{
	return 1000 + 2 * second;
}

static int64_t steps(int second)
{
	return second % 10 ? 3000 : 1000;
}

static int64_t shrink(int second)
{
	return 2000 - 3 * second;
}

static int64_t start(int second)
{
	return second < 25 ? 10 + 10 * second : 300;
}

TEST_IN(test_growth, struct job *job)
{
	const struct hvd_usage_rank *r = grow(job, leak);

	assert_true(r->has_growth);
	assert_true(r->growth > 1.8 * MB && r->growth < 2.1 * MB);
	r = grow(job, steps); /* taken and given back */
	assert_true(r->has_growth && r->growth == 0);
	assert_true(grow(job, shrink)->growth < -2.8 * MB);
	r = grow(job, start);
	assert_true(r->has_growth && r->growth == 0);
}

TEST_IN(test_growth_needs_time, struct job *job)
{
	const hvd_time now = hvd_now();

	take(job, 0, 0, now - 149 * S);
	take(job, 0, 0, now);
	assert_false(hvd_usage_get(job->usage, 0)->has_growth);
	take(job, 0, 0, now + S);
	assert_true(hvd_usage_get(job->usage, 0)->has_growth);
	/* A rank that was not heard of for long begins anew. */
	take(job, 0, 0, now + 1000 * S);
	assert_false(hvd_usage_get(job->usage, 0)->has_growth);
}

RUN_TESTS(.setup = job_up, .teardown = job_down)
