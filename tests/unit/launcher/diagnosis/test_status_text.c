/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a job for people. */
#include "launcher/diagnosis/status_text.h"

#include "launcher/diagnosis/status_odd.h"

#include "tests/unit/unit.h"

static json_t *rank(int number, double cpu, double awaited)
{
	return json_pack("{s:i, s:s, s:s, s:f, s:f, s:f, s:I, s:f, s:I, s:i, s:i}", "rank", number, "host", "hvdn1",
			 "state", "running", "cpu", cpu, "awaited", awaited, "delay", 0.01, "memory",
			 (json_int_t)1288490188, "growth", 300.0, "read", (json_int_t)1150000, "written", 0, "output",
			 90);
}

static char *show(json_t *ranks)
{
	json_auto_t *status = json_pack(
		"{s:[{s:i, s:s, s:i, s:s, s:s, s:f, s:i, s:i, s:f, s:s, s:{s:f, s:f, s:f, s:f, s:f, s:f},"
		" s:[{s:s, s:s}, {s:s, s:s}], s:o, s:[s]}]}",
		"launches", "job", 123, "host", "hvdlogin", "pid", 4711, "state", "running", "command",
		"python train.py\x1b[2J", "seconds", 4330.0, "generation", 2, "restarts", 1, "generation_seconds", 65.0,
		"ended_by", "hvdn7 is lost", "goodput", "goodput", 0.931, "start", 3.0, "init", 12.0, "training",
		4000.0, "ending", 4.0, "waiting", 300.0, "hosts", "host", "hvdn1", "stage", "here", "host", "hvdn7",
		"stage", "lost", "ranks", ranks, "store", "10.0.0.2 (pid 77) waits for key");
	char *text = hvd_job_status_text(status);

	assert_non_null(json_object_get(status, "launches"));
	for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
		if (strcspn(p, "\n") > 80) {
			print_error("too long: %.*s\n", (int)strcspn(p, "\n"), p);
			fail();
		}
	return text;
}

TEST(test_few_ranks)
{
	json_t *ranks = json_pack("[o, o, o, {s:i, s:s, s:s, s:i}]", rank(0, 0.98, 0.03), rank(1, 0.97, 0.02),
				  rank(2, 0.09, 0.92), "rank", 3, "host", "hvdn1", "state", "failed", "status", 137);
	char *text;

	json_object_set_new(json_array_get(ranks, 2), "slow", json_string("its peers wait for it 92 % of the time"));
	text = show(ranks);
	assert_in(text, "job 123, process 4711 on hvdlogin: running, begun 1 h 12 min ago\n");
	assert_in(text, "  command: python train.py\\x1b[2J\n");
	assert_in(text, "  generation: 2, for 1 min 5 s, after 1 restart; the last one: hvdn7 is lost\n");
	assert_in(text, "  goodput: 93.1 % (start 3 s, init 12 s,");
	assert_in(text, "  hosts: 1 here, 1 lost (hvdn7)\n");
	assert_in(text, "  ranks: 3 running, 1 failed (3)\n");
	assert_in(text, "  store: 10.0.0.2 (pid 77) waits for key\n");
	assert_in(text, "  rank 2 on hvdn1 is slow: its peers wait for it 92 % of the time\n");
	assert_in(text, "  rank 3 on hvdn1 has failed with status 137\n");
	/* The odd ones come first. */
	assert_in(text, "\n RANK HOST   CPU AWAIT DELAY   MEM  MEM/h  READ WRITE  OUT\n"
			"    2 hvdn1   9%   92%    1%  1.2G  +1.0M  1.1M     0  90s\n"
			"    3 hvdn1 failed\n"
			"    0 hvdn1  98%    3%    1%  1.2G  +1.0M  1.1M     0  90s\n"
			"    1 hvdn1  97%    2%    1%  1.2G  +1.0M  1.1M     0  90s\n");
	free(text);
}

static json_t *rank_of(const char *role, int number, double cpu)
{
	json_t *one = rank(number, cpu, 0.03);

	json_object_set_new(one, "role", json_string(role));
	return one;
}

TEST(ranks_of_roles)
{
	json_t *ranks = json_pack("[o, o, o]", rank_of("trainer", 0, 0.98), rank_of("trainer", 1, 0.97),
				  rank_of("rollout/1", 0, 0.09)),
	       *status;
	char *text, *first = hvd_status_first_rank(ranks, HVD_STATUS_BY_ODD);

	assert_string_equal(first, "trainer:0");
	free(first);
	json_object_set_new(json_array_get(ranks, 2), "slow", json_string("its peers wait"));
	first = hvd_status_first_rank(ranks, HVD_STATUS_BY_ODD);
	assert_string_equal(first, "rollout/1:0");
	free(first);
	json_object_set_new(json_array_get(ranks, 0), "state", json_string("failed"));
	json_object_set_new(json_array_get(ranks, 0), "status", json_integer(1));
	status = json_pack("{s:[{s:s, s:i, s:[{s:i, s:s, s:i, s:i, s:s}], s:o}]}", "launches", "role", "trainer",
			   "generation", 1, "worlds", "world", 1, "role", "rollout/1", "generation", 2, "restarts", 1,
			   "ended_by", "rank 0 on hvdn1: exit code 3", "ranks", ranks);
	text = hvd_job_status_text(status);
	assert_in(text, "  rollout/1, generation: 2, for 0 s, after 1 restart; the last one: rank 0 on");
	assert_in(text, "  ranks: 2 running, 1 failed (trainer:0)\n");
	assert_in(text, "  rank rollout/1:0 on hvdn1 is slow: its peers wait\n");
	assert_in(text, "  rank trainer:0 on hvdn1 has failed with status 1\n");
	assert_in(text, " RANK ROLE      HOST   CPU AWAIT");
	assert_in(text, "    0 rollout/1 hvdn1   9%    3%");
	assert_in(text, "    1 trainer   hvdn1  97%    3%");
	free(text);
	json_decref(status);
}

TEST(test_many_ranks_are_groups)
{
	json_t *ranks = json_array();
	char *text;

	for (int r = 0; r < 10000; r++)
		json_array_append_new(ranks, rank(r, 1.0, (double)r / 10000));
	json_object_set_new(json_array_get(ranks, 500), "slow", json_string("its peers wait"));
	for (int r = 640; r < 680; r++) {
		json_object_clear(json_array_get(ranks, (size_t)r));
		json_object_update_new(
			json_array_get(ranks, (size_t)r),
			json_pack("{s:i, s:s, s:s}", "rank", r, "host", r < 648 ? "n81" : "n82", "state", "running"));
	}
	json_object_set_new(json_array_get(ranks, 9999), "waits", json_string("/never"));
	text = show(ranks);
	assert_in(text, "  rank 500 on hvdn1 is slow: its peers wait\n");
	assert_in(text, "  rank 9999 on hvdn1 waits in the store: for /never\n");
	assert_in(text, "  ranks 640-679 on n[81-82] report nothing; rank 640: its agent has not looked\n");
	assert_in(text, "RANKS GROUP    CPU AWAIT DELAY   MEM  MEM/h  READ WRITE  OUT STORE\n"
			"    1 slow    100%    5%    1%  1.2G  +1.0M  1.1M     0  90s\n"
			"    1 store   100%  100%    1%  1.2G  +1.0M  1.1M     0  90s\n"
			"   40 silent     -     -     -     -      -     -     -    -\n"
			" 9958 running 100%   50%    1%  1.2G  +1.0M  1.1M     0  90s\n"
			"least of all  100%    0% ");
	assert_in(text, " 25 %         100%   25% ");
	assert_in(text, " half         100%   50% ");
	assert_in(text, " most         100%  100% ");
	assert_in(text, " RANK HOST ");
	assert_in(text, "  500 hvdn1   100%    5% ");
	assert_in(text, "\n9988 ranks are left out; --json shows all\n");
	free(text);
}

TEST(test_what_is_odd)
{
	json_auto_t *r = rank(0, 1, 0);
	const struct hvd_odd_list list = {.figures = true};
	char *why;

	assert_int_equal(hvd_status_odd(&list, r, &why), HVD_ODD_NOT);
	assert_null(why);
	json_object_set_new(r, "growth", json_real(300000)); /* 1 GB an hour, of 1.2 GB */
	assert_int_equal(hvd_status_odd(&list, r, &why), HVD_ODD_GROWS);
	assert_text(why, "uses ever more memory: by 1.0G an hour");
	json_object_set_new(r, "memory", json_integer(90000000000)); /* little for it */
	assert_int_equal(hvd_status_odd(&list, r, &why), HVD_ODD_NOT);
}

TEST(test_waiting_in_the_store)
{
	json_t *ranks = json_array();
	char *text;

	for (int r = 0; r < 8; r++) {
		json_array_append_new(ranks, rank(r, 1, 0));
		if (r != 5)
			json_object_set_new(json_array_get(ranks, (size_t)r), "waits",
					    json_string("store_based_barrier_key:1"));
	}
	text = show(ranks);
	assert_in(text, "  store: ranks 0-4, 6, 7 wait for store_based_barrier_key:1\n"
			"  store: 10.0.0.2 (pid 77) waits for key\n");
	assert_in(text,
		  " OUT STORE\n    0 hvdn1 100%    0%    1%  1.2G  +1.0M  1.1M     0  90s store_based_barrier_k\n");
	assert_in(text, "    5 hvdn1 100%    0%    1%  1.2G  +1.0M  1.1M     0  90s\n");
	free(text);
	/* One that waits alone is odd. */
	ranks = json_pack("[o, o, o]", rank(0, 1, 0), rank(1, 1, 0), rank(2, 1, 0));
	json_object_set_new(json_array_get(ranks, 1), "waits", json_string("/never"));
	text = show(ranks);
	assert_in(text, "  store: rank 1 waits for /never\n");
	assert_in(text, "  rank 1 on hvdn1 waits in the store: for /never\n");
	assert_in(text, " STORE\n    1 hvdn1 ");
	free(text);
}

TEST(test_a_rank_that_reports_nothing)
{
	json_t *ranks =
		json_pack("[o, {s:i, s:s, s:s}]", rank(0, 1, 0), "rank", 1, "host", "hvdn2", "state", "running");
	char *text = show(ranks);

	assert_in(text, "rank 1 on hvdn2 reports nothing");
	assert_in(text, "    1 hvdn2    -     -     -     -      -     -     -    -\n");
	free(text);
}

TEST(test_nothing_is_known)
{
	json_auto_t *status = json_pack("{s:[{s:s, s:s, s:[]}, i]}", "launches", "state", "starting", "missing",
					"hvdn1 has not registered", "ranks", 7);
	char *text = hvd_job_status_text(status);

	assert_in(text, "starting");
	assert_in(text, "waits for: hvdn1 has not registered\n");
	free(text);
	assert_text(hvd_job_status_text(NULL), "");
}

RUN_TESTS()
