/* SPDX-License-Identifier: Apache-2.0 */
/* CSM's answers, and what becomes of the allocation when there are none. The tools are the stand-ins of
 * tests/standins; no real CSM was there to try. */
#include "lib/process/spawn.h"
#include "lsf/csm.h"
#include "lsf/lsf.h"
#include "tests/unit/alloc_text.h"
#include "tests/unit/unit.h"

#include <sys/wait.h>

#define JOB      "LSB_JOBID=71"
#define ID       "CSM_ALLOCATION_ID=12"
#define PATIENCE 300 /* seconds: the stand-ins are shell scripts, and the machine may be a slow one */
#define MCPU     "LSB_MCPU_HOSTS=batch1 1 h1 42 h2 42"

static char dir[] = "/tmp/hvd-csm.XXXXXX", path_var[4400], dir_var[64];

static int set_up(void **state)
{
	char cwd[4096];

	if (!mkdtemp(dir) || !getcwd(cwd, sizeof(cwd)))
		return -1;
	snprintf(path_var, sizeof(path_var), "PATH=%s/tests/standins:/usr/bin:/bin", cwd);
	snprintf(dir_var, sizeof(dir_var), "HVD_STANDIN_CSM=%s", dir);
	make_file(dir, "/allocation.12",
		  "compute_nodes: h1 h2\nlaunch_node_name: batch1\nisolated_cores: 1\nsmt_mode: 4\n");
	make_file(dir, "/nodes", "h1 44 2 6\nh2 44 2 6\nother 8 1 0\n");
	return 0;
}

static int tear_down(void **state)
{
	return remove_tree(dir);
}

/* The allocation of a job on a CSM system, with up to two more variables. */
static void get(struct hvd_alloc *a, struct hvd_lsf *facts, const char *more, const char *and_more)
{
	const char *env[] = {path_var, dir_var, JOB, ID, MCPU, more, more ? and_more : NULL, NULL};
	const struct hvd_alloc_lsf_opts opts = {.deadline = hvd_deadline_in(PATIENCE)};
	struct hvd_err err = {0};

	if (hvd_alloc_from_lsf(a, facts, (char **)env, &opts, &err) != 0)
		fail_msg("%s", err.msg);
}

TEST(csm_says_hosts_gpus_and_cores)
{
	struct hvd_lsf facts;
	struct hvd_alloc a;

	get(&a, &facts, NULL, NULL);
	assert_string_equal(text_of(&a), "h1:6 h2:6");
	assert_string_equal(a.source, "LSF job 71: csm_allocation_query, GPUs that CSM knows");
	assert_true(facts.csm);
	assert_string_equal(facts.launch_host, "batch1");
	assert_int_equal(facts.isolated, 1);
	assert_int_equal(facts.smt, 4);
	assert_int_equal(facts.hosts[1].gpus, 6);
	assert_int_equal(facts.hosts[1].cores, 42);
	assert_int_equal(facts.hosts[1].sockets, 2);
	assert_int_equal(facts.hosts[1].tasks, 42);
	assert_int_equal(facts.notes.n, 0);
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
}

/* The launch node's own list of GPUs has no meaning here; that the job was given fewer than a node has does. */
TEST(the_allocation_counts_not_the_launch_node)
{
	struct hvd_alloc a;

	get(&a, NULL, "CUDA_VISIBLE_DEVICES=0", NULL);
	assert_string_equal(text_of(&a), "h1:6 h2:6");
	hvd_alloc_clear(&a);
	make_file(dir, "/allocation.13", "compute_nodes: h1 h2\nnum_gpus: 4\n");
	get(&a, NULL, "CSM_ALLOCATION_ID=12", NULL);
	hvd_alloc_clear(&a);
	{
		const char *env[] = {path_var, dir_var, JOB, "CSM_ALLOCATION_ID=13", MCPU, NULL};

		assert_int_equal(hvd_alloc_from_lsf(&a, NULL, (char **)env, NULL, NULL), 0);
		assert_string_equal(text_of(&a), "h1:4 h2:4");
		hvd_alloc_clear(&a);
	}
}

TEST(a_host_without_gpus_gets_no_rank)
{
	const char *env[] = {path_var, dir_var, JOB, "CSM_ALLOCATION_ID=14", MCPU, NULL};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	make_file(dir, "/allocation.14", "compute_nodes: h1 other\n");
	assert_int_equal(hvd_alloc_from_lsf(&a, &facts, (char **)env, NULL, NULL), 0);
	assert_string_equal(text_of(&a), "h1:6 other:0");
	assert_int_equal(facts.notes.n, 1);
	assert_in(facts.notes.v[0], "host other has no GPU");
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
}

/* Without CSM's list LSF's own is taken, without the launch node, and a note says why. */
TEST(a_failing_allocation_query_falls_back)
{
	static const struct {
		const char *how, *why;
	} ways[] = {
		{"empty", "CSM has no such allocation"},
		{"daemon", "csm_allocation_query: exit code 18"},
		{"error", "FAILED: errcode: 16 errmsg: PERMISSION DENIED"},
		{"rubbish", "it lists no compute_nodes"},
		{"silent", "it lists no compute_nodes"},
		{"cut", "csm_allocation_query -a 12: it lists"},
		{"crash", "killed by signal 11"},
		{"flood", "prints more than"},
	};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		char fail[80];

		snprintf(fail, sizeof(fail), "HVD_STANDIN_CSM_FAIL=csm_allocation_query=%s", ways[i].how);
		get(&a, &facts, fail, NULL);
		assert_string_equal(text_of(&a), "h1:6 h2:6"); /* the other tool still knows the GPUs */
		assert_in(a.source, "LSB_MCPU_HOSTS");
		assert_int_equal(facts.notes.n, 1);
		assert_in(facts.notes.v[0], "CSM does not report which hosts the job has");
		assert_in(facts.notes.v[0], ways[i].why);
		assert_string_equal(facts.launch_host, "batch1");
		assert_int_equal(facts.isolated, 0);
		hvd_alloc_clear(&a);
		hvd_lsf_clear(&facts);
	}
}

TEST(a_failing_attributes_query_falls_back)
{
	static const struct {
		const char *how, *why;
	} ways[] = {
		{"empty", "CSM has no record of h1"},   {"daemon", "exit code 18"},
		{"error", "errmsg: PERMISSION DENIED"}, {"rubbish", "it has no Total_Records"},
		{"silent", "it has no Total_Records"},  {"crash", "killed by signal 11"},
	};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		char fail[80];

		snprintf(fail, sizeof(fail), "HVD_STANDIN_CSM_FAIL=csm_node_attributes_query=%s", ways[i].how);
		get(&a, &facts, fail, NULL);
		assert_string_equal(text_of(&a), "h1:42 h2:42");
		assert_in(a.source, "csm_allocation_query, a slot per task");
		assert_int_equal(facts.hosts[0].gpus, -1);
		assert_int_equal(facts.hosts[0].cores, -1);
		assert_int_equal(facts.notes.n, 1);
		assert_in(facts.notes.v[0], "CSM does not report the GPUs and cores of the hosts: ");
		assert_in(facts.notes.v[0], ways[i].why);
		hvd_alloc_clear(&a);
		hvd_lsf_clear(&facts);
	}
}

/* A tool that hangs is ended at the deadline, and with it what it has started. */
TEST(a_tool_that_hangs_is_ended)
{
	const char *env[] = {path_var, dir_var, JOB, ID, MCPU, "HVD_STANDIN_CSM_FAIL=csm_allocation_query=hang", NULL};
	const struct hvd_alloc_lsf_opts opts = {.deadline = hvd_deadline_in(1)};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	assert_int_equal(hvd_alloc_from_lsf(&a, &facts, (char **)env, &opts, NULL), 0);
	assert_string_equal(text_of(&a), "h1:42 h2:42");
	assert_in(facts.notes.v[0], "csm_allocation_query does not end");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
}

TEST(missing_tools_are_named)
{
	const char *env[] = {"PATH=/nowhere", JOB, ID, MCPU, NULL};
	struct hvd_lsf facts;
	struct hvd_alloc a;

	if (access("/opt/ibm/csm/bin/csm_allocation_query", F_OK) == 0)
		skip_because("CSM is installed here");
	assert_int_equal(hvd_alloc_from_lsf(&a, &facts, (char **)env, NULL, NULL), 0);
	assert_string_equal(text_of(&a), "h1:42 h2:42");
	assert_int_equal(facts.notes.n, 2);
	assert_in(facts.notes.v[0], "cannot run csm_allocation_query");
	assert_in(facts.notes.v[1], "cannot run csm_node_attributes_query");
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
}

/* ---- the texts themselves ---- */

TEST(allocations_are_parsed)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"compute_nodes:\n - a\n", "a:1"},
		{"---\nnum_nodes: 2\ncompute_nodes:\n - b\n - a\nstate: running\n...\n", "b:1 a:1"},
		{"compute_nodes:\n - a\ncomment: it's: {broken\n - x\nisolated_cores: 4\n", "a:1"},
		{"compute_nodes: a\n", NULL},
		{"compute_nodes:\n", NULL},
		{"compute_nodes:\n - a\n - a\n", NULL},
		{"compute_nodes:\n - -oProxy=x\n", NULL},
		{"num_nodes: 2\ncompute_nodes:\n - a\n", NULL},
		{"compute_nodes:\n - a\nisolated_cores: 5\n", NULL},
		{"Total_Records: 0\n", NULL},
		{"- a\n", NULL},
		{"", NULL},
	};
	struct hvd_lsf facts = {0};
	struct hvd_alloc nodes;
	int gpus;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int rc = hvd_csm_parse_job(&nodes, &facts, &gpus, cases[i].text, strlen(cases[i].text), NULL);

		assert_int_equal(rc, cases[i].want ? 0 : -1);
		assert_string_equal(text_of(&nodes), cases[i].want ? cases[i].want : "");
		hvd_alloc_clear(&nodes);
		hvd_lsf_clear(&facts);
	}
}

/* Usable cores are those discovered, less the isolated ones of each socket: the rule, over all of its range. */
TEST(isolated_cores_are_taken_off)
{
	struct hvd_alloc a = {0};

	assert_int_equal(hvd_alloc_add(&a, "a", 1, NULL), 0);
	for (int cores = 1; cores <= 48; cores++)
		for (int sockets = 1; sockets <= 4; sockets++)
			for (int isolated = 0; isolated <= 4; isolated++) {
				struct hvd_lsf_host host = {.cores = -1};
				char text[200];
				int n = snprintf(text, sizeof(text),
						 "Total_Records: 1\nRecord_1:\n  node_name: a\n  discovered_cores: %d\n"
						 "  discovered_gpus: 6\n  discovered_sockets: %d\n",
						 cores, sockets);
				int want = cores - sockets * isolated;
				int rc = hvd_csm_parse_nodes(&host, &a, isolated, text, (size_t)n, NULL);

				assert_int_equal(rc, want > 0 ? 0 : -1);
				assert_int_equal(host.cores, want > 0 ? want : -1);
			}
	hvd_alloc_clear(&a);
}

TEST(a_thousand_nodes_are_asked_in_few_calls)
{
	const char *env[] = {path_var, dir_var, JOB, "CSM_ALLOCATION_ID=1000", MCPU, NULL};
	const struct hvd_alloc_lsf_opts opts = {.deadline = hvd_deadline_in(PATIENCE)};
	char line[64], *calls;
	struct hvd_alloc a;
	int n = 0;
	FILE *f;

	f = fopen(strcat(strcpy(line, dir), "/allocation.1000"), "w");
	fprintf(f, "compute_nodes:");
	for (int i = 0; i < 1000; i++)
		fprintf(f, " n%04d", i);
	fprintf(f, "\n");
	fclose(f);
	f = fopen(strcat(strcpy(line, dir), "/nodes"), "a");
	for (int i = 0; i < 1000; i++)
		fprintf(f, "n%04d 44 2 6\n", i);
	fclose(f);
	unlink(strcat(strcpy(line, dir), "/calls"));
	assert_int_equal(hvd_alloc_from_lsf(&a, NULL, (char **)env, &opts, NULL), 0);
	assert_int_equal(a.n_hosts, 1000);
	assert_int_equal(a.slots, 6000);
	assert_string_equal(a.hosts[999].name, "n0999");
	hvd_alloc_clear(&a);
	f = fopen(line, "r");
	calls = calloc(1, 16384);
	while (fgets(calls, 16384, f))
		n++;
	fclose(f);
	free(calls);
	assert_int_equal(n, 1 + 8);
}

RUN_TESTS(.group_setup = set_up, .group_teardown = tear_down)
