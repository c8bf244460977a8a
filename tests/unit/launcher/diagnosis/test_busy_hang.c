/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a job hangs whose ranks use their processors, of two samples that the tests make. */
#include "launcher/diagnosis/busy_hang.h"

#include "tests/unit/unit.h"

#define C10D "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
#define CUDA "/venv/lib/python3.11/site-packages/torch/cuda/__init__.py"

/* A letter for each rank: what it does between the samples. There are two ranks on each host. */
static json_t *rank_at(char what, int rank, double cpu)
{
	json_t *all, *frames = json_array();
	bool busy = strchr("scCgp", what) != NULL;

	if (strchr("wCi", what))
		json_array_append_new(frames, json_pack("[s, s, i]", "all_reduce", C10D, 3000));
	if (what == 'p')
		json_array_append_new(frames, json_pack("[s, s, i]", "synchronize", CUDA, 900));
	json_array_append_new(frames,
			      json_pack("[s, s, i]", "step", "/work/u/train.py", strchr("wCi", what) ? 50 : 40));
	if (what == 'm')
		json_array_append_new(frames, json_pack("[s, s, i]", "moves", "/work/u/train.py", (int)cpu));
	all = json_pack("{s:i, s:i, s:s, s:o, s:[], s:b, s:f}", "rank", rank, "pid", 100 + rank, "how",
			what == 'n' ? "kernel" : "py-spy", "frames", frames, "threads", "gil", what == 's', "cpu",
			busy || strchr("mn", what) ? cpu : 1.0);
	if (what == 'g') /* it held the lock in one of the samples */
		json_object_set_new(all, "gil", json_boolean(cpu > 10));
	if (what == 'o')
		json_object_set_new(all, "cpu", json_real(20 - cpu));
	if (what == 't') {
		json_object_set_new(all, "others",
				    json_pack("[{s:i, s:[[s, s, i]]}]", "pid", 200 + rank, "frames", "f",
					      "/work/u/load.py", (int)cpu));
	}
	if (what == 'u')
		json_object_del(all, "cpu");
	return all;
}

/* 'X': its host does not answer; '-': there is no such rank. */
static json_t *sample(const char *ranks, double cpu)
{
	json_t *said = json_pack("{s:[], s:[], s:s}", "hosts", "silent", "store", "");
	const int n = (int)strlen(ranks);
	char name[16];

	for (int i = 0; i < n; i += 2) {
		json_t *list = json_array();

		snprintf(name, sizeof(name), "n%d", i / 2 + 1);
		for (int r = i; r < n && r < i + 2; r++)
			if (!strchr("X-", ranks[r]))
				json_array_append_new(list, rank_at(ranks[r], r, cpu));
		if (ranks[i] == 'X') {
			json_decref(list);
			json_array_append_new(json_object_get(said, "silent"), json_string(name));
			continue;
		}
		json_array_append_new(json_object_get(said, "hosts"),
				      json_pack("{s:s, s:o}", "host", name, "ranks", list));
	}
	return said;
}

static void is_between(const char *before, const char *after, enum hvd_busy_verdict verdict, const char *part)
{
	json_t *first = sample(before, 5), *second = sample(after, 15);
	char *text = NULL;
	enum hvd_busy_verdict got = hvd_busy_hang_judge(first, second, 10, 1000, &text);

	if (got != verdict || !strstr(text, part))
		fail_msg("%s %s: %d, and \"%s\"", before, after, (int)got, text);
	free(text);
	json_decref(first);
	json_decref(second);
}

static void is(const char *ranks, enum hvd_busy_verdict verdict, const char *part)
{
	is_between(ranks, ranks, verdict, part);
}

TEST(a_rank_that_spins_while_others_wait)
{
	is("wwws", HVD_BUSY_HANGS, "rank 3 (n2) in step (train.py:40); 1 is busy, 3 wait");
	is("wswws-", HVD_BUSY_HANGS,
	   "rank 1 (n1) in step (train.py:40), rank 4 (n3) in step (train.py:40); 2 are busy, 3 wait");
	is("sXX", HVD_BUSY_HANGS, "rank 0 (n1) in step");
	is("ssssssw-", HVD_BUSY_HANGS, " and 2 more; 6 are busy, 1 waits");
}

TEST(others_that_wait_by_polling)
{
	is("CCCs", HVD_BUSY_HANGS,
	   "rank 3 (n2) in step (train.py:40); 4 are busy, 3 wait, 3 of them busily, in a collective");
	is("CCCw", HVD_BUSY_HANGS, "rank 3 (n2) in all_reduce (train.py:50); 3 are busy, 4 wait");
	is("CCCC", HVD_BUSY_MAY_HANG, "4 are busy, 4 wait");
}

TEST(what_may_be_a_long_call)
{
	is("wwwc", HVD_BUSY_MAY_HANG, "rank 3 (n2) in step (train.py:40); 1 is busy, 3 wait");
	is("wwwg", HVD_BUSY_MAY_HANG, "rank 3 (n2)");
	is("CCcC", HVD_BUSY_MAY_HANG, "rank 2 (n2)");
	/* All in the same call, whatever it is. */
	is("cccc", HVD_BUSY_WORKS, "in the same call");
	is("ssss", HVD_BUSY_WORKS, "in the same call");
	is("c", HVD_BUSY_WORKS, "in the same call");
}

/* What NCCL says in both samples. */
static void with_nccl(const char *ranks, const char *before, const char *after, double age,
		      enum hvd_busy_verdict verdict, const char *part)
{
	json_t *first = sample(ranks, 5), *second = sample(ranks, 15);
	enum hvd_busy_verdict got;
	char *text = NULL;

	json_object_set_new(first, "nccl", json_loads(before, 0, NULL));
	json_object_set_new(second, "nccl", json_loads(after, 0, NULL));
	got = hvd_busy_hang_judge(first, second, 10, age, &text);
	if (got != verdict || !strstr(text, part))
		fail_msg("%s %s: %d, and \"%s\"", ranks, after, (int)got, text);
	free(text);
	json_decref(first);
	json_decref(second);
}

#define COUNTS(begun, missing, odd)                                                                                    \
	"{\"comms\":2,\"begun\":" #begun ",\"most\":500,\"missing\":" #missing ",\"odd\":[" odd "]}"
#define BEHIND(n, ranks) "{\"size\":4,\"behind\":" #n ",\"count\":41,\"most\":42,\"ranks\":[" ranks "]}"
#define RANK(r)          "{\"number\":0,\"rank\":" #r "}"

TEST(a_rank_that_has_called_fewer_operations_of_nccl)
{
	static const char *const third = COUNTS(9, 0, BEHIND(1, RANK(3))), *const unknown =
										   COUNTS(9, 0, BEHIND(1, "{}"));
	static const char *const two = COUNTS(9, 0, BEHIND(2, RANK(2) "," RANK(3)));
	static const char *const counts =
		"rank 3 (n2) in step (train.py:40), behind with 41 operations of NCCL, 42 of others; ";

	/* Without NCCL these only may hang, or work. */
	with_nccl(
		"cccw", third, third, 1, HVD_BUSY_HANGS,
		"rank 3 (n2) in all_reduce (train.py:50), behind with 41 operations of NCCL, 42 of others; 3 are busy, "
		"1 waits");
	with_nccl("pppC", third, third, 1, HVD_BUSY_HANGS, "rank 3 (n2) in all_reduce");
	with_nccl("ccps", third, third, 1, HVD_BUSY_HANGS, counts);
	/* It may come to it. */
	with_nccl("pppc", third, third, 1, HVD_BUSY_MAY_HANG, counts);
	with_nccl("wwwc", third, third, 1, HVD_BUSY_MAY_HANG, counts);
	with_nccl("cccp", third, third, 1, HVD_BUSY_MAY_HANG, "rank 3 (n2) in synchronize (train.py:40), behind");
	with_nccl("cccc", third, third, 1, HVD_BUSY_MAY_HANG, counts);
	with_nccl("ppcw", two, two, 1, HVD_BUSY_MAY_HANG, "rank 2 (n2) in step (train.py:40), rank 3 (n2) in");
	/* Which one is not known. */
	with_nccl("pppw", unknown, unknown, 1, HVD_BUSY_MAY_HANG, "rank 0 (n1) in synchronize");
	with_nccl("CCCw", unknown, unknown, 1, HVD_BUSY_HANGS, "rank 3 (n2) in all_reduce");
	with_nccl("ppXX", third, third, 1, HVD_BUSY_MAY_HANG, "");
	with_nccl("wwwn", third, third, 1, HVD_BUSY_MAY_HANG, "rank 3 (n2), behind");
}

TEST(ranks_that_have_called_as_many_operations_of_nccl)
{
	static const char *const even = COUNTS(9, 0, ""), *const said =
								  "all ranks have called as many operations of NCCL";

	with_nccl("pppp", even, even, 100, HVD_BUSY_HANGS_TOGETHER, said);
	with_nccl("CCCC", even, even, 100, HVD_BUSY_HANGS_TOGETHER, said);
	with_nccl("CCpw", even, even, 100, HVD_BUSY_HANGS_TOGETHER, said);
	with_nccl("cccc", even, even, 100, HVD_BUSY_MAY_HANG, said);
	with_nccl("ppps", even, even, 100, HVD_BUSY_MAY_HANG, said);
	/* In a job that calls few of them it is nothing special that none is called. */
	with_nccl("pppp", even, even, 100000, HVD_BUSY_WORKS, "in the same call");
	with_nccl("cccc", even, even, 100000, HVD_BUSY_WORKS, "in the same call");
	with_nccl("CCCC", even, even, 100000, HVD_BUSY_HANGS_TOGETHER, said);
}

TEST(nccl_alone_decides_nothing)
{
	static const char *const even = COUNTS(9, 0, ""), *const third = COUNTS(9, 0, BEHIND(1, RANK(3)));

	with_nccl("wwsm", third, third, 1, HVD_BUSY_WORKS, "the stacks of ranks change");
	with_nccl("wwwo", even, even, 1, HVD_BUSY_WORKS, "the stacks of ranks change");
	with_nccl("cccn", even, even, 1, HVD_BUSY_UNKNOWN, "rank 3 (n2)");
	/* It knows that the job works; it has not heard of all; it was asked once. */
	with_nccl("wwws", COUNTS(8, 0, ""), third, 1, HVD_BUSY_WORKS, "ranks call operations of NCCL");
	with_nccl("pppp", COUNTS(9, 1, ""), even, 1, HVD_BUSY_WORKS, "in the same call");
	with_nccl("pppp", COUNTS(9, 1, ""), COUNTS(9, 1, ""), 1, HVD_BUSY_WORKS, "in the same call");
	with_nccl("pppw", "{}", third, 1, HVD_BUSY_MAY_HANG, "rank 0 (n1)");
	with_nccl("pppw", "{\"comms\":0}", "{\"comms\":0}", 1, HVD_BUSY_MAY_HANG, "rank 0 (n1)");
}

TEST(what_moves_is_no_hang)
{
	static const char *const change = "the stacks of ranks change";

	is("wwwm", HVD_BUSY_WORKS, change);
	is("wwsm", HVD_BUSY_WORKS, change);
	is("wwst", HVD_BUSY_WORKS, change);                /* of a process below it */
	is_between("wwws", "wwwc", HVD_BUSY_MAY_HANG, ""); /* the lock may be held now and then */
	is_between("wwws", "wwww", HVD_BUSY_WORKS, change);
	is_between("www-", "wwws", HVD_BUSY_WORKS, change);
	is_between("wwws", "www-", HVD_BUSY_WORKS, change);
	is_between("wwXX", "wwws", HVD_BUSY_WORKS, change);
	is("wwso", HVD_BUSY_WORKS, change); /* a process of the rank has ended */
	is("wwww", HVD_BUSY_WORKS, "processes below the ranks");
}

TEST(a_host_that_is_lost_between_the_samples)
{
	is_between("swww", "swXX", HVD_BUSY_HANGS, "rank 0 (n1)");
	is_between("wwss", "wwXX", HVD_BUSY_WORKS, "");
}

TEST(without_python_nothing_is_known)
{
	is("wwwn", HVD_BUSY_UNKNOWN, "py-spy");
	is("wwsn", HVD_BUSY_UNKNOWN, "rank 3 (n2)");
	is("wwsu", HVD_BUSY_UNKNOWN, "rank 3 (n2)");
}

TEST(nonsense_is_no_hang)
{
	static const char *const texts[] = {
		"{}", "{\"hosts\":3,\"silent\":{}}", "{\"hosts\":[1,{\"host\":2,\"ranks\":[3,{}]}],\"silent\":[3]}",
		"{\"nccl\":{\"comms\":1,\"odd\":[3,{\"behind\":1},{\"behind\":1,\"ranks\":[3,{\"rank\":\"x\"}]}]}}",
		("{\"hosts\":[{\"host\":\"a\",\"ranks\":[{\"rank\":1,\"cpu\":\"x\",\"frames\":[1,[2],[\"f\",3,\"x\"]],"
		 "\"others\":[4]},{\"rank\":1}]}]}")};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
			json_t *first = json_loads(texts[i], 0, NULL), *second = json_loads(texts[k], 0, NULL);
			char *text = NULL;

			assert_true(hvd_busy_hang_judge(first, second, 10, 1000, &text) < HVD_BUSY_MAY_HANG);
			free(text);
			json_decref(first);
			json_decref(second);
		}
}

RUN_TESTS()
