/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/diagnosis/stack_groups.h"

#include "launcher/diagnosis/stack_groups_internal.h"
#include "lib/host/stack_pieces.h"
#include "tests/unit/unit.h"

#define TORCH "/venv/lib/python3.11/site-packages/torch/distributed/"

/* Rank `rank` in all_reduce(), called by the user's train.py. */
static json_t *in_all_reduce(int rank, int line)
{
	return json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:b, s:[[s,s,i],[s,s,i],[s,s,i],[s,s,i]]}", "rank", rank,
			 "pid", 100 + rank, "state", "sleeping", "how", "py-spy", "why", "", "wchan", "ep_poll",
			 "stopped", 0, "frames", "all_reduce", TORCH "distributed_c10d.py", 2501, "wrapper",
			 TORCH "c10d_logger.py", 83, "step", "/work/u/train.py", line, "<module>", "/work/u/train.py",
			 60);
}

static json_t *in_kernel(int rank, const char *state, bool stopped)
{
	return json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:b}", "rank", rank, "pid", 100 + rank, "state", state, "how",
			 "kernel", "why", "none of py-spy, eu-stack and gdb is installed", "wchan", "do_signal_stop",
			 "stopped", stopped);
}

static json_t *said_by(json_t *n1, json_t *n2, const char *silent, const char *store)
{
	json_t *said = json_pack("{s:[{s:s, s:o}, {s:s, s:o}], s:[], s:s}", "hosts", "host", "n1", "ranks", n1, "host",
				 "n2", "ranks", n2, "silent", "store", store);

	if (silent)
		json_array_append_new(json_object_get(said, "silent"), json_string(silent));
	return said;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

TEST(the_odd_rank_is_first)
{
	json_t *said = said_by(json_pack("[o,o,o]", in_all_reduce(0, 41), in_all_reduce(1, 41), in_all_reduce(2, 41)),
			       json_pack("[o,o]", in_all_reduce(3, 17), in_all_reduce(4, 41)), NULL, "");
	char *text = hvd_stack_groups_text(said, "job 7");
	const char *odd, *others;

	has(text, "5 ranks of job 7");
	odd = strstr(text, "rank 3 on n2: all_reduce (train.py:17)\n");
	others = strstr(text, "4 ranks (0-2, 4): all_reduce (train.py:41)\n");
	assert_non_null(odd);
	assert_non_null(others);
	assert_true(odd < others);
	has(text, "    wrapper (" TORCH "c10d_logger.py:83)\n");
	free(text);
	json_decref(said);
}

/* Ranks of several roles are no outliers of each other, though their numbers are the same. */
TEST(ranks_of_roles)
{
	json_t *said = said_by(json_pack("[o,o]", in_all_reduce(0, 41), in_all_reduce(1, 41)),
			       json_pack("[o,o]", in_all_reduce(0, 17), in_all_reduce(1, 41)), NULL, ""),
	       *groups;
	json_t *const host = json_array_get(json_object_get(said, "hosts"), 1);
	json_auto_t *samples = json_pack("[O,O]", said, said);
	char *text;

	json_object_set_new(json_array_get(json_object_get(said, "hosts"), 0), "role", json_string("trainer"));
	json_object_set_new(host, "role", json_string("rollout/1"));
	json_object_set_new(host, "world", json_integer(1));
	json_object_set_new(said, "store", json_string("10.0.0.1 (pid 100) waits for key1\n"));
	json_object_set_new(said, "worlds",
			    json_pack("[{s:i, s:s}]", "world", 1, "store", "10.0.0.2 (pid 101) waits for key2\n"));
	text = hvd_stack_groups_text(said, "job 7");
	has(text, "store: trainer rank 0 waits for key1; trainer rank 1 waits for no key\n");
	has(text, "store: rollout/1 rank 1 waits for key2; rollout/1 rank 0 waits for no key\n");
	has(text, "2 ranks (0-1) of trainer on n1: all_reduce (train.py:41)\n");
	has(text, "rank 0 of rollout/1 on n2: all_reduce (train.py:17)\n");
	has(text, "rank 1 of rollout/1 on n2: all_reduce (train.py:41)\n");
	free(text);
	text = hvd_stack_samples_text(samples, "job 7");
	has(text, "no rank differs from the others in most samples");
	free(text);
	groups = hvd_stack_groups_json(said);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(json_object_get(groups, "groups"), 2), "role")),
		"rollout/1");
	json_decref(groups);
	json_decref(said);
}

TEST(a_stopped_rank_is_a_group)
{
	json_t *stopped = in_all_reduce(1, 41), *said, *groups;
	char *text;

	json_object_set_new(stopped, "stopped", json_true());
	json_object_set_new(stopped, "state", json_string("stopped by a signal"));
	said = said_by(json_pack("[o,o]", in_all_reduce(0, 41), stopped),
		       json_pack("[o]", in_kernel(2, "stopped by a signal", true)), "n3", "");
	text = hvd_stack_groups_text(said, "job 7");
	has(text, "rank 1 on n1: all_reduce (train.py:41), stopped by a signal\n");
	has(text, "rank 0 on n1: all_reduce (train.py:41)\n");
	has(text, "rank 2 on n2: stopped by a signal in the kernel's do_signal_stop\n");
	has(text, "no answer from n3");
	has(text, "note: rank 2 on n2: none of py-spy");
	free(text);
	groups = hvd_stack_groups_json(said);
	assert_int_equal(json_array_size(json_object_get(groups, "groups")), 3);
	assert_string_equal(json_string_value(json_array_get(json_object_get(groups, "silent"), 0)), "n3");
	json_decref(groups);
	json_decref(said);
}

/* A sample of eight ranks on two hosts: a digit for each, the line of train.py in which it is; '-': it is not seen. */
static json_t *sample(const char *lines)
{
	json_t *ranks[] = {json_array(), json_array()};

	for (int rank = 0; rank < 8; rank++)
		if (lines[rank] != '-')
			json_array_append_new(ranks[rank / 4], in_all_reduce(rank, lines[rank] - '0'));
	return said_by(ranks[0], ranks[1], NULL, "");
}

static json_t *samples_of(const char *const *lines)
{
	json_t *samples = json_array();

	for (; *lines; lines++)
		json_array_append_new(samples, sample(*lines));
	return samples;
}

/* Of these samples, the text has this part, or if `ranks` is NULL nobody differs. */
static void differ(const char *const *lines, const char *part, const char *ranks)
{
	json_t *samples = samples_of(lines), *found = hvd_stack_samples_json(samples), *list;
	char *text = hvd_stack_samples_text(samples, "job 7"), *dumped;

	has(text, part);
	list = json_object_get(found, "outliers");
	assert_int_equal(json_array_size(list), ranks != NULL);
	assert_int_equal(json_array_size(json_object_get(found, "hosts")), 2);
	if (ranks) {
		dumped = json_dumps(json_object_get(json_array_get(list, 0), "ranks"), JSON_COMPACT);
		assert_string_equal(dumped, ranks);
		free(dumped);
		assert_null(strstr(text, "no rank differs"));
	}
	free(text);
	json_decref(found);
	json_decref(samples);
}

#define SAMPLES(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(ranks_that_differ_in_most_samples)
{
	static const char *const nobody = "no rank differs from the others in most samples";

	differ(SAMPLES("44414444", "44414444", "55515555"),
	       "rank 3 (n1) differs from the other 7 in 3 of 3 samples: all_reduce (train.py:1)\n    all_reduce (",
	       "[3]");
	differ(SAMPLES("44414444", "44414444"), "\n7 ranks (0-2, 4-7): all_reduce (train.py:4)\n    all_reduce (",
	       "[3]");
	/* It is elsewhere each time, and the place where it is most often is shown. */
	differ(SAMPLES("44414444", "44424444", "44424444", "44444444"),
	       "rank 3 (n1) differs from the other 7 in 3 of 4 samples: all_reduce (train.py:2)\n", "[3]");
	differ(SAMPLES("44114444", "44114444", "44144444"),
	       "ranks 2-3 (n1) differ from the other 6 in 2 to 3 of 3 samples: all_reduce (train.py:1)\n", "[2,3]");
	differ(SAMPLES("44414441", "44414441"), "ranks 3, 7 differ from the other 6 in 2 of 2", "[3,7]");
	/* A sample in which it is not seen is none in which it differs. */
	differ(SAMPLES("44414444", "444-4444", "44414444"), "in 2 of 3 samples", "[3]");
	differ(SAMPLES("44414444", "444-4444"), nobody, NULL);
	/* Each differs now and then, and half of the samples are not most. */
	differ(SAMPLES("14444444", "41444444", "44144444", "44414444"), nobody, NULL);
	differ(SAMPLES("44414444", "44414444", "44444444", "44444444"), nobody, NULL);
	/* Without a group of more than half of them there are no others. */
	differ(SAMPLES("44441111", "44441111", "44441111"), nobody, NULL);
	differ(SAMPLES("12345671", "12345671"), nobody, NULL);
	differ(SAMPLES("11144444", "44411144", "11111444", "44411114", "41144411"), nobody, NULL);
	differ(SAMPLES("4-------", "1-------"), nobody, NULL);
	differ(SAMPLES("--------", "--------"), nobody, NULL);
}

TEST(outliers_of_each_step)
{
	json_t *samples = json_array(), *found, *list;
	char *text;

	for (int i = 0; i < 3; i++) {
		json_t *one = sample("44414444"), *rank;
		size_t k;

		/* Ranks of another step that has the same numbers, all in one place. */
		for (int r = 0; r < 3; r++) {
			rank = in_all_reduce(r, 9);
			json_object_set_new(rank, "step", json_integer(2));
			json_array_append_new(
				json_object_get(json_array_get(json_object_get(one, "hosts"), 1), "ranks"), rank);
		}
		json_array_foreach(json_object_get(json_array_get(json_object_get(one, "hosts"), 0), "ranks"), k, rank)
		{
			json_object_set_new(rank, "step", json_integer(0));
		}
		json_array_append_new(samples, one);
	}
	found = hvd_stack_samples_json(samples);
	list = json_object_get(found, "outliers");
	assert_int_equal(json_array_size(list), 1);
	assert_int_equal(json_integer_value(json_object_get(found, "samples")), 3);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(list, 0), "differs"), 0)), 3);
	json_decref(found);
	text = hvd_stack_samples_text(samples, "job 7");
	has(text, "rank 3 of step 0 (n1) differs from the other 7 in 3 of 3 samples");
	assert_null(strstr(text, "train.py:9"));
	free(text);
	json_decref(samples);
}

/* Two ranks of a later step, and of a later role, are one group as those of the first. */
TEST(outliers_of_a_later_set_are_one_group)
{
	json_t *samples = samples_of(SAMPLES("44114444", "44114444")), *one, *host, *rank;
	size_t s, h, r;
	char *text;

	json_array_foreach(samples, s, one)
	{
		json_array_foreach(json_object_get(one, "hosts"), h, host)
		{
			json_object_set_new(host, "role", json_string("rollout"));
			json_object_set_new(host, "world", json_integer(1));
			json_array_foreach(json_object_get(host, "ranks"), r, rank)
			{
				json_object_set_new(rank, "step", json_integer(3));
			}
		}
	}
	text = hvd_stack_samples_text(samples, "job 7");
	has(text, "ranks 2-3 of rollout (n1) differ from the other 6 in 2 of 2 samples: all_reduce (train.py:1)\n");
	free(text);
	json_decref(samples);
}

TEST(who_waits_for_a_key)
{
	json_t *said =
		said_by(json_pack("[o,o]", in_all_reduce(0, 41), in_all_reduce(1, 41)),
			json_pack("[o,o]", in_all_reduce(2, 17), in_all_reduce(3, 41)), NULL,
			"10.0.0.1 (pid 100) waits for default_pg/0//5\n10.0.0.1 (pid 101) waits for default_pg/0//5\n"
			"10.0.0.2 (pid 103) waits for default_pg/0//5\n10.0.0.9 waits for \033[2Jx");
	char *text = hvd_stack_groups_text(said, "job 7");
	json_t *waits = hvd_store_waits(said), *first = json_array_get(waits, 0);

	has(text, "store: ranks 0, 1, 3 wait for default_pg/0//5; rank 2 waits for no key\n");
	has(text, "store: 10.0.0.9 waits for \\x1b[2Jx\n");
	assert_int_equal(json_array_size(waits), 2);
	assert_int_equal(json_array_size(json_object_get(first, "ranks")), 3);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "missing"), 0)), 2);
	json_decref(waits);
	free(text);
	json_decref(said);
}

TEST(nonsense_is_left_out)
{
	static const char *const texts[] = {"{}", "{\"hosts\":3,\"silent\":{},\"store\":[]}",
					    "{\"hosts\":[1,{\"host\":2,\"ranks\":[3,{}]}]}",
					    "{\"hosts\":[{\"host\":\"a\\nb\",\"ranks\":[{\"rank\":1,\"frames\":[1,[2],["
					    "\"f\",3,\"x\"]],\"others\":[4]}]}]}",
					    "{\"hosts\":[{\"ranks\":[{\"rank\":-9223372036854775807},{\"rank\":"
					    "9223372036854775807}]}],\"silent\":[1]}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *said = json_loads(texts[i], 0, NULL), *groups;
		char *text;

		assert_non_null(said);
		text = hvd_stack_groups_text(said, "x");
		assert_null(strstr(text, "a\nb"));
		free(text);
		groups = hvd_stack_groups_json(said);
		assert_non_null(groups);
		json_decref(groups);
		said = json_pack("[o,O]", said, said);
		text = hvd_stack_samples_text(said, "x");
		assert_null(strstr(text, "a\nb"));
		free(text);
		groups = hvd_stack_samples_json(said);
		assert_non_null(groups);
		json_decref(groups);
		json_decref(said);
	}
}

TEST(pieces_come_together)
{
	char *text = NULL, *mixed = NULL, *a, *b;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	char name[3000];
	json_t *answer, *answers;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memcpy(name, "\xc3\xa9", 2);
	answer = json_pack("{s:s}", "host", name);
	assert_int_equal(hvd_stack_pieces_write(out, 1, answer), 0);
	fclose(out);
	/* Another task's pieces, and lines of others, come in between. */
	out = open_memstream(&mixed, &len);
	for (a = text; *a; a = b + 1) {
		b = strchr(a, '\n');
		assert_true(b - a < 1000);
		fprintf(out, "%.*s\n2: a line of others\nhvd-stacks 7 %s\nhvd-stacks \nhvd-stacks 99999999 {}\n",
			(int)(b - a), a,
			a == text                                   ? "{\"host\":"
			: strncmp(a, "hvd", 3) == 0 && b[1] == '\0' ? "\"b\"}"
								    : " ");
	}
	fclose(out);
	answers = hvd_stack_pieces_read(mixed, len);
	assert_int_equal(json_array_size(answers), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(answers, 0), "host")), name);
	assert_string_equal(json_string_value(json_object_get(json_array_get(answers, 1), "host")), "b");
	json_decref(answers);
	/* What was cut off is no answer. */
	answers = hvd_stack_pieces_read(text, strlen(text) / 2);
	assert_int_equal(json_array_size(answers), 0);
	json_decref(answers);
	json_decref(answer);
	free(text);
	free(mixed);
}

/* Text of what NCCL says. */
static char *nccl_text(const char *nccl)
{
	json_t *said =
		said_by(json_pack("[o]", in_all_reduce(0, 41)), json_pack("[o]", in_all_reduce(1, 41)), NULL, "");
	char *text;

	json_object_set_new(said, "nccl", json_loads(nccl, 0, NULL));
	text = hvd_stack_groups_text(said, "job 7");
	json_decref(said);
	return text;
}

TEST(nccl_names_who_is_behind_and_who_is_lost)
{
	char *text =
		nccl_text("{\"version\":\"2.28.7\",\"twice\":true,\"comms\":4,\"even\":2,\"still\":2,\"odd\":["
			  "{\"size\":8,\"moves\":false,\"behind\":1,\"missing\":1,\"ranks\":[{\"number\":3,\"address\":"
			  "\"10.0.0.4\",\"pid\":4003,\"rank\":11,\"host\":\"n2\"}],"
			  "\"op\":\"AllReduce\",\"count\":41,\"most\":42,\"lost\":[{\"number\":5,\"address\":\"10.0.0."
			  "6\",\"pid\":4005,\"dead\":true}]},"
			  "{\"size\":64,\"moves\":true,\"behind\":9,\"missing\":0,\"ranks\":[{\"number\":1,\"address\":"
			  "\"h\",\"pid\":7,\"host\":\"n1\"},{\"number\":2,\"address\":\"i\",\"pid\":8}],"
			  "\"op\":\"\",\"count\":1,\"most\":2,\"lost\":[]}]}");

	has(text, "nccl: in a communicator of 8, rank 11 (n2) is behind: 41 operations called, 42 by others (missing: "
		  "AllReduce); no rank calls further ones\n");
	has(text, "nccl: in a communicator of 8, there is no answer from its rank 5 (process 4005 on 10.0.0.6), which "
		  "NCCL holds for dead\n");
	has(text, "nccl: in a communicator of 64, its rank 1 (process 7 on n1), its rank 2 (process 8 on i) and 7 more "
		  "are behind: 1 operations called, 2 by others; ranks call further ones\n");
	has(text, "nccl: in 2 communicators all ranks have called as many operations; no rank calls further ones\n");
	free(text);
}

TEST(what_nccl_says_is_limited_and_escaped)
{
	char *text = nccl_text("{\"text\":\"NCCL version 2.26\\n\\nErrors\\n\\u001b[31mred\\n\"}");
	static const char *const rubbish[] = {"5", "[]", "{\"odd\":5}",
					      "{\"odd\":[7,{\"behind\":1},{\"missing\":2,\"lost\":[5]}]}"};

	has(text, "nccl: NCCL version 2.26\nnccl: Errors\n");
	assert_null(strchr(text, 27));
	free(text);
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++)
		free(nccl_text(rubbish[i]));
}

RUN_TESTS()
