/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/size.h"
#include "lsf/lists.h"
#include "lsf/lsf.h"
#include "tests/unit/alloc_text.h"
#include "tests/unit/unit.h"

#define WORDS(...) ((char **)(const char *[]){__VA_ARGS__, NULL})
#define JOB        "LSB_JOBID=71"

static char dir[] = "/tmp/hvd-lsf.XXXXXX";

static int set_up(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	return remove_tree(dir);
}

/* "NAME=path": a file with that text, as a variable. Of static memory, used anew by the same name. */
static const char *file_var(const char *name, const char *file, const char *text)
{
	static char vars[4][128];
	static int at;
	char *var = vars[at++ % 4];

	make_file(dir, file, text);
	snprintf(var, sizeof(vars[0]), "%s=%s%s", name, dir, file);
	return var;
}

static void check(char **env, const struct hvd_alloc_lsf_opts *opts, const char *want, const char *source)
{
	struct hvd_err err = {0};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	if (hvd_alloc_from_lsf(&a, &facts, env, opts, &err) != 0)
		fail_msg("%s", err.msg);
	assert_string_equal(text_of(&a), want);
	assert_in(a.source, source);
	assert_int_equal(facts.n_hosts, a.n_hosts);
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
}

TEST(a_job_is_told_from_what_it_leaves_behind)
{
	assert_false(hvd_alloc_in_lsf(NULL));
	assert_false(hvd_alloc_in_lsf(WORDS("PATH=/bin")));
	assert_false(hvd_alloc_in_lsf(WORDS(JOB)));
	assert_false(hvd_alloc_in_lsf(WORDS(JOB, "LSB_HOSTS=", "LSB_MCPU_HOSTS=")));
	assert_false(hvd_alloc_in_lsf(WORDS("LSB_HOSTS=a b")));
	assert_false(hvd_alloc_in_lsf(WORDS("CSM_ALLOCATION_ID=3")));
	assert_true(hvd_alloc_in_lsf(WORDS(JOB, "LSB_HOSTS=a")));
	assert_true(hvd_alloc_in_lsf(WORDS(JOB, "LSB_MCPU_HOSTS=a 1")));
	assert_true(hvd_alloc_in_lsf(WORDS(JOB, "LSB_DJOB_HOSTFILE=/nowhere")));
	assert_true(hvd_alloc_in_lsf(WORDS(JOB, "CSM_ALLOCATION_ID=3")));
}

TEST(lists_are_read_and_summed)
{
	static const struct {
		const char *mcpu, *want;
	} cases[] = {
		{"hvdn13 2 hvdn12 2 ", "hvdn13:2 hvdn12:2"},
		{"a 1", "a:1"},
		{"a 2 b 1 a 3 c 1 b 1", "a:5 b:2 c:1"},
		{"  a\t2  b.example.org 4\n", "a:2 b.example.org:4"},
		{"a 2 b", NULL},
		{"a b", NULL},
		{"a 0", NULL},
		{"a -1", NULL},
		{"2 a", NULL},
		{"a 1048577", NULL},
		{"a 99999999999999999999", NULL},
		{"a 1000000 b 1000000", NULL},
		{"-x 2", NULL},
		{"a;b 2", NULL},
		{" ", NULL},
		{"", NULL},
	};
	struct hvd_alloc a;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int rc = hvd_lsf_parse_mcpu(&a, cases[i].mcpu, NULL);

		assert_int_equal(rc, cases[i].want ? 0 : -1);
		assert_string_equal(text_of(&a), cases[i].want ? cases[i].want : "");
		hvd_alloc_clear(&a);
	}
	assert_int_equal(hvd_lsf_parse_names(&a, "b\na\nb\nb\na\n\nc", 12, NULL), 0);
	assert_string_equal(text_of(&a), "b:3 a:2 c:1");
	hvd_alloc_clear(&a);
	assert_int_equal(hvd_lsf_parse_names(&a, "a\0b", 3, NULL), -1);
	assert_int_equal(a.n_hosts, 0);
}

TEST(sources_come_in_their_order)
{
	const char *good = file_var("LSB_DJOB_HOSTFILE", "/hosts", "f1\nf2\nf1\n");
	const char *mcpu = "LSB_MCPU_HOSTS=m1 2 m2 2 ", *names = "LSB_HOSTS=n1 n2 n1";

	check(WORDS(JOB, names, mcpu, good), NULL, "f1:2 f2:1", "LSF job 71: LSB_DJOB_HOSTFILE, a slot per task");
	check(WORDS(JOB, names, mcpu), NULL, "m1:2 m2:2", "LSF job 71: LSB_MCPU_HOSTS");
	check(WORDS(JOB, names), NULL, "n1:2 n2:1", "LSF job 71: LSB_HOSTS");
	check(WORDS(JOB, "LSB_HOSTS=", mcpu), NULL, "m1:2 m2:2", "LSB_MCPU_HOSTS");
}

/* What is there and cannot be used is passed over, and a note says so. */
TEST(a_bad_hostfile_is_passed_over)
{
	const char *mcpu = "LSB_MCPU_HOSTS=m1 2", *missing = "LSB_DJOB_HOSTFILE=/nowhere/hosts";
	const char *bad[] = {missing, "LSB_DJOB_HOSTFILE=/", file_var("LSB_DJOB_HOSTFILE", "/empty", " \n\n"),
			     file_var("LSB_DJOB_HOSTFILE", "/rubbish", "a\n$(rm)\n")};
	static const char *const why[] = {"cannot open the file /nowhere/hosts: No such file",
					  "cannot read the file /: Is", "it names no host",
					  "'$(rm)' is neither a host name"};
	struct hvd_err err = {0};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(hvd_alloc_from_lsf(&a, &facts, WORDS(JOB, bad[i], mcpu), NULL, &err), 0);
		assert_string_equal(text_of(&a), "m1:2");
		assert_int_equal(facts.notes.n, 1);
		assert_in(facts.notes.v[0], "LSB_DJOB_HOSTFILE cannot be used: ");
		assert_in(facts.notes.v[0], why[i]);
		hvd_alloc_clear(&a);
		hvd_lsf_clear(&facts);
	}
	assert_fails_with(hvd_alloc_from_lsf(&a, &facts, WORDS(JOB, missing), NULL, &err), err, HVD_E_NOENT,
			  "LSF names no host of job 71");
	assert_in(err.hint, "LSB_DJOB_HOSTFILE cannot be used");
	assert_int_equal(a.n_hosts, 0);
	assert_int_equal(facts.notes.n, 0);
}

TEST(no_job_and_a_task_of_jsrun_are_refused)
{
	struct hvd_err err = {0};
	struct hvd_alloc a;

	assert_fails_with(hvd_alloc_from_lsf(&a, NULL, WORDS(JOB), NULL, &err), err, HVD_E_NOENT, "");
	assert_int_equal(hvd_alloc_from_lsf(&a, NULL, WORDS(JOB, "LSB_HOSTS=a", "JSM_NAMESPACE_RANK=3"), NULL, &err),
			 -1);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_in(err.msg, "JSM_NAMESPACE_RANK is 3");
	assert_in(err.hint, "job script");
	assert_true(hvd_lsf_in_jsrun(WORDS("JSM_NAMESPACE_RANK=0")));
	assert_false(hvd_lsf_in_jsrun(WORDS("JSM_NAMESPACE_RANK=")));
}

TEST(slots_are_gpus_where_they_are_known)
{
	const struct hvd_alloc_lsf_opts each = {.slots_per_host = 3}, too_many = {.slots_per_host = HVD_MAX_RANKS};
	const char *even = "LSB_MCPU_HOSTS=a 40 b 40", *uneven = "LSB_MCPU_HOSTS=a 4 b 2";
	struct hvd_alloc a;

	check(WORDS(JOB, even, "CUDA_VISIBLE_DEVICES=0,1,2,3"), NULL, "a:4 b:4", "GPUs in the environment");
	check(WORDS(JOB, even, "CUDA_VISIBLE_DEVICES=GPU-8a,MIG-7b"), NULL, "a:2 b:2", "GPUs");
	check(WORDS(JOB, even, "ROCR_VISIBLE_DEVICES=0"), NULL, "a:1 b:1", "GPUs");
	/* none of them is there to be used */
	check(WORDS(JOB, even, "CUDA_VISIBLE_DEVICES="), NULL, "a:40 b:40", "a slot per task");
	check(WORDS(JOB, even, "CUDA_VISIBLE_DEVICES=-1"), NULL, "a:40 b:40", "a slot per task");
	check(WORDS(JOB, even, "CUDA_VISIBLE_DEVICES=NoDevFiles"), NULL, "a:40 b:40", "a slot per task");
	check(WORDS(JOB, even, "CUDA_VISIBLE_DEVICES=all"), NULL, "a:40 b:40", "a slot per task");
	/* a GPU for each task, or two for each host? The list is as long as the tasks here are many */
	check(WORDS(JOB, uneven, "CUDA_VISIBLE_DEVICES=0,1,2,3"), NULL, "a:4 b:2", "GPUs");
	check(WORDS(JOB, uneven, "CUDA_VISIBLE_DEVICES=0,1"), NULL, "a:2 b:2", "GPUs");
	check(WORDS(JOB, "LSB_MCPU_HOSTS=a 2 b 1 c 4", "CUDA_VISIBLE_DEVICES=0,1,2,3"), NULL, "a:4 b:2 c:4", "GPUs");
	/* the user knows best */
	check(WORDS(JOB, uneven, "CUDA_VISIBLE_DEVICES=0,1"), &each, "a:3 b:3", "slots per host as asked for");
	assert_int_equal(hvd_alloc_from_lsf(&a, NULL, WORDS(JOB, uneven), &too_many, NULL), -1);
}

TEST(the_launch_node_is_left_out_where_there_is_one)
{
	const struct hvd_alloc_lsf_opts jsrun = {.jsrun = true};
	const char *summit = "LSB_MCPU_HOSTS=batch1 1 a 42 b 42";
	struct hvd_lsf facts;
	struct hvd_alloc a;

	/* on plain LSF the first host is a compute host like the others */
	check(WORDS(JOB, summit), NULL, "batch1:1 a:42 b:42", "LSB_MCPU_HOSTS");
	assert_int_equal(hvd_alloc_from_lsf(&a, &facts, WORDS(JOB, summit), &jsrun, NULL), 0);
	assert_string_equal(text_of(&a), "a:42 b:42");
	assert_int_equal(a.slots, 84);
	assert_string_equal(facts.launch_host, "batch1");
	assert_true(facts.csm);
	assert_int_equal(facts.hosts[0].tasks, 42);
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
	/* more than its one slot, or nothing behind it: no launch node */
	check(WORDS(JOB, "LSB_MCPU_HOSTS=a 42 b 42"), &jsrun, "a:42 b:42", "");
	check(WORDS(JOB, "LSB_MCPU_HOSTS=a 1"), &jsrun, "a:1", "");
	check(WORDS(JOB, "LSB_HOSTS=a b a"), &jsrun, "a:2 b:1", "");
}

TEST(the_affinity_file_is_read)
{
	const char *file =
		file_var("LSB_AFFINITY_HOSTFILE", "/aff", "a 0,1,2,3\nlaunch 0\nb 4-6,12 0 2\na 8,9 1 2\n\n");
	const char *empty = file_var("LSB_AFFINITY_HOSTFILE", "/aff0", "");
	const char *mcpu = "LSB_MCPU_HOSTS=b 1 a 2";
	static const char *const bad[] = {"a\n",   "a 1,\n",   "a x\n",  "a 3-1\n",   "a 0\nb 70000\n",
					  "a -\n", "a 1--2\n", "a ,1\n", "a 1-2-3\n", "a 0-\n"};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	assert_int_equal(hvd_alloc_from_lsf(&a, &facts, WORDS(JOB, mcpu, file), NULL, NULL), 0);
	assert_int_equal(facts.hosts[0].cpus.n, 1);
	assert_string_equal(facts.hosts[0].cpus.v[0], "4,5,6,12");
	assert_int_equal(facts.hosts[1].cpus.n, 2);
	assert_string_equal(facts.hosts[1].cpus.v[0], "0,1,2,3");
	assert_string_equal(facts.hosts[1].cpus.v[1], "8,9");
	assert_int_equal(facts.notes.n, 0);
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
	assert_int_equal(hvd_alloc_from_lsf(&a, &facts, WORDS(JOB, mcpu, empty), NULL, NULL), 0);
	assert_int_equal(facts.hosts[0].cpus.n + facts.notes.n, 0);
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *var = file_var("LSB_AFFINITY_HOSTFILE", "/bad", bad[i]);

		assert_int_equal(hvd_alloc_from_lsf(&a, &facts, WORDS(JOB, mcpu, var), NULL, NULL), 0);
		assert_int_equal(facts.hosts[0].cpus.n + facts.hosts[1].cpus.n, 0);
		assert_int_equal(facts.notes.n, 1);
		assert_in(facts.notes.v[0], "LSB_AFFINITY_HOSTFILE cannot be used");
		hvd_alloc_clear(&a);
		hvd_lsf_clear(&facts);
	}
}

/* Every task's CPUs go to one rank, in order, and ranks differ by a task at most. */
TEST(ranks_get_the_cpus_of_tasks)
{
	struct hvd_lsf_host host = {0};
	char *text;

	assert_null(hvd_lsf_cpus(&host, 1));
	for (int tasks = 1; tasks <= 12; tasks++) {
		hvd_strv_addf(&host.cpus, "%d", tasks - 1);
		assert_null(hvd_lsf_cpus(&host, tasks + 1));
		for (int ranks = 1; ranks <= tasks; ranks++) {
			int next = 0, rank = 1, in_rank = 0;
			char *p;

			text = p = hvd_lsf_cpus(&host, ranks);
			assert_non_null(text);
			for (;; p++) {
				assert_int_equal(strtol(p, &p, 10), next++);
				in_rank++;
				if (*p == ',')
					continue;
				assert_int_in_range(in_rank, tasks / ranks, (tasks + ranks - 1) / ranks);
				in_rank = 0;
				if (*p == '\0')
					break;
				assert_int_equal(*p, ':');
				rank++;
			}
			assert_int_equal(next, tasks);
			assert_int_equal(rank, ranks);
			free(text);
		}
	}
	hvd_strv_free(&host.cpus);
	hvd_strv_add(&host.cpus, "0,1");
	hvd_strv_add(&host.cpus, "4,5");
	assert_text(hvd_lsf_cpus(&host, 2), "0,1:4,5");
	assert_text(hvd_lsf_cpus(&host, 1), "0,1,4,5");
	hvd_strv_free(&host.cpus);
}

TEST(a_thousand_hosts_are_read)
{
	size_t len = 0, room = 64000;
	char *var = malloc(room);
	struct hvd_alloc a;

	len += (size_t)snprintf(var, room, "LSB_MCPU_HOSTS=");
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 1000; i++)
			len += (size_t)snprintf(var + len, room - len, "compute-node-%04d 42 ", i);
	assert_int_in_range(len, 40000, room - 1);
	assert_int_equal(hvd_alloc_from_lsf(&a, NULL, WORDS(JOB, var), NULL, NULL), 0);
	assert_int_equal(a.n_hosts, 1000);
	assert_int_equal(a.slots, 84000);
	for (int i = 0; i < 1000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "compute-node-%04d", i);
		assert_string_equal(a.hosts[i].name, name);
		assert_int_equal(a.hosts[i].slots, 84);
	}
	hvd_alloc_clear(&a);
	free(var);
}

TEST(the_time_that_bjobs_prints_is_read)
{
	static const struct {
		const char *text;
		double seconds;
	} texts[] = {
		{"0:57 L\n", 57 * 60},
		{"12:05 E\n", 12 * 3600 + 5 * 60},
		{"  100:00\n", 360000},
		{"0:00 L", 0},
		{"-\n", -1},
		{"", -1},
		{"12\n", -1},
		{"1:60 L\n", -1},
		{"1:5x\n", -1},
		{"-1:05 L\n", -1},
		{"x1:05 L\n", -1},
		{":05 L\n", -1},
		{"1:-5 L\n", -1},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if ((long)hvd_lsf_time_left(texts[i].text) != (long)texts[i].seconds)
			fail_msg("'%s': %f", texts[i].text, hvd_lsf_time_left(texts[i].text));
}

TEST(facts_follow_the_hosts_that_are_used)
{
	const char *file = file_var("LSB_AFFINITY_HOSTFILE", "/sel", "a 0\nb 1\nc 2\n");
	struct hvd_alloc all, some;
	struct hvd_lsf facts;

	assert_int_equal(hvd_alloc_from_lsf(&all, &facts, WORDS(JOB, "LSB_MCPU_HOSTS=a 1 b 2 c 3", file), NULL, NULL),
			 0);
	assert_int_equal(hvd_alloc_from_hosts(&some, "c:3,a:1", 0, NULL), 0);
	hvd_lsf_select(&facts, &all, &some);
	assert_int_equal(facts.n_hosts, 2);
	assert_int_equal(facts.hosts[0].tasks, 3);
	assert_string_equal(facts.hosts[0].cpus.v[0], "2");
	assert_int_equal(facts.hosts[1].tasks, 1);
	assert_string_equal(facts.hosts[1].cpus.v[0], "0");
	hvd_alloc_clear(&all);
	hvd_alloc_clear(&some);
	hvd_lsf_clear(&facts);
}

RUN_TESTS(.group_setup = set_up, .group_teardown = tear_down)
