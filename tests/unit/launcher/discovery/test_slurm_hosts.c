/* SPDX-License-Identifier: Apache-2.0 */
/* From jobs and nodes as Slurm might tell them to hosts and slots. */
#include "launcher/discovery/discovery_kind.h"
#include "lib/base/xalloc.h"

#include "tests/unit/unit.h"

#define NOW 1700000000

struct made {
	struct hvd_slurm_job jobs[4];
	size_t n;
	struct hvd_slurm_nodes nodes;
	struct hvd_discovery_opts opts;
	struct hvd_slurm_hosts hosts;
};

/* A job that runs, on hosts that spaces separate. */
static struct hvd_slurm_job *job(struct made *m, uint32_t id, const char *name, const char *hosts)
{
	struct hvd_slurm_job *j = &m->jobs[m->n++];
	char *copy = hvd_xstrdup(hosts), *save = NULL;

	*j = (struct hvd_slurm_job){.state = HVD_SLURM_RUNNING, .id = id, .began = NOW - 100 + id, .now = NOW};
	j->name = hvd_xstrdup(name);
	j->comment = hvd_xstrdup("");
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		hvd_strv_add(&j->hosts, w);
	j->tasks = (int)j->hosts.n;
	free(copy);
	return j;
}

/* "n1:2@7 n2:1@8", and behind a bar those that leave: "| n3 5". */
static void assert_view(struct made *m, const char *want)
{
	char text[512] = "";
	size_t at = 0;

	hvd_slurm_hosts_clear(&m->hosts);
	hvd_slurm_hosts_make(&m->hosts, &m->opts, m->jobs, m->n, &m->nodes);
	for (int i = 0; i < m->hosts.hosts.n_hosts; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%d@%u", i ? " " : "",
				       m->hosts.hosts.hosts[i].name, m->hosts.hosts.hosts[i].slots,
				       m->hosts.hosts.hosts[i].slurm_job);
	for (size_t i = 0; i < m->hosts.n_leaving; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %.0f", i ? ", " : " | ",
				       m->hosts.leaving[i].host, m->hosts.leaving[i].seconds);
	assert_string_equal(text, want);
}

static int begin(void **state)
{
	*state = hvd_xcalloc(1, sizeof(struct made));
	return 0;
}

TEARDOWN(end, struct made, m)
{
	for (size_t i = 0; i < m->n; i++)
		hvd_slurm_job_clear(&m->jobs[i]);
	hvd_slurm_nodes_clear(&m->nodes);
	hvd_discovery_opts_clear(&m->opts);
	hvd_slurm_hosts_clear(&m->hosts);
}

TEST(own_job_without_unusable_nodes)
{
	struct made *m = *state;

	m->opts.job = 7;
	hvd_alloc_add(&m->opts.hosts, "n1", 4, NULL);
	hvd_alloc_add(&m->opts.hosts, "n2", 2, NULL);
	job(m, 7, "train", "n1 n2 n3");
	job(m, 8, "train", "n4");
	assert_view(m, "n1:4@7 n2:2@7 n3:1@7");
	hvd_strv_add(&m->nodes.unusable, "n2");
	hvd_strv_add(&m->nodes.unusable, "n9");
	assert_view(m, "n1:4@7 n3:1@7");
	m->jobs[0].state = HVD_SLURM_ENDED;
	assert_view(m, "");
}

TEST(jobs_by_name_or_comment)
{
	struct made *m = *state;
	struct hvd_slurm_job *late;

	m->opts.jobs = hvd_xstrdup("train");
	m->opts.job = 9;
	late = job(m, 5, "other", "n5");
	free(late->comment);
	late->comment = hvd_xstrdup("train");
	job(m, 6, "trainer", "n6");
	job(m, 9, "train", "n9 n10");
	job(m, 7, "train", "n7")->state = HVD_SLURM_PENDING;
	/* Our own first, whatever its age. */
	assert_view(m, "n9:1@9 n10:1@9 n5:1@5");
	m->jobs[0].paused = true; /* sorted by age: job 5 */
	assert_view(m, "n9:1@9 n10:1@9");
}

TEST_IN(slots, struct made *m)
{
	struct hvd_slurm_job *j = job(m, 1, "t", "a b c");

	m->opts.job = 1;
	assert_view(m, "a:1@1 b:1@1 c:1@1");
	j->gpus = hvd_xcalloc(3, sizeof(int));
	j->gpus[0] = j->gpus[1] = 4;
	assert_view(m, "a:4@1 b:4@1 c:1@1");
	j->tasks = 8;
	assert_view(m, "a:3@1 b:3@1 c:2@1");
	j->tasks_per_node = 5;
	assert_view(m, "a:5@1 b:5@1 c:5@1");
	m->opts.slots_per_host = 6;
	assert_view(m, "a:6@1 b:6@1 c:6@1");
}

TEST_IN(a_preempted_job_is_left, struct made *m)
{
	struct hvd_slurm_job *j;

	m->opts.jobs = hvd_xstrdup("t");
	job(m, 1, "t", "a");
	j = job(m, 2, "t", "b c");
	j->ends = NOW + 3600;
	assert_view(m, "a:1@1 b:1@2 c:1@2");
	j->preempted = true;
	j->ends = NOW + 20;
	assert_view(m, "a:1@1 | b 20, c 20");
	j->ends = NOW - 1;
	assert_view(m, "a:1@1 | b 0, c 0");
}

TEST_IN(a_job_near_its_time_limit_is_left, struct made *m)
{
	m->opts.jobs = hvd_xstrdup("t");
	m->opts.job = 1;
	job(m, 1, "t", "a")->ends = NOW + 10; /* ours: with it everything ends */
	job(m, 2, "t", "b")->ends = NOW + HVD_SLURM_LEAVE_SECONDS;
	job(m, 3, "t", "c")->ends = NOW + HVD_SLURM_LEAVE_SECONDS - 1;
	assert_view(m, "a:1@1 b:1@2 | c 29");
}

TEST_IN(a_host_of_two_jobs_is_the_first_ones, struct made *m)
{
	m->opts.jobs = hvd_xstrdup("t");
	job(m, 2, "t", "b c");
	job(m, 1, "t", "a b");
	assert_view(m, "a:1@1 b:1@1 c:1@2");
	assert_int_equal(m->hosts.notes.n, 1);
	assert_in(m->hosts.notes.v[0], "b belongs to job 1 and to job 2");
}

TEST_IN(sameness, struct made *m)
{
	struct hvd_slurm_hosts other = {0};

	m->opts.jobs = hvd_xstrdup("t");
	job(m, 1, "t", "a b");
	job(m, 2, "t", "c");
	assert_view(m, "a:1@1 b:1@1 c:1@2");
	hvd_slurm_hosts_make(&other, &m->opts, m->jobs, m->n, &m->nodes);
	assert_true(hvd_slurm_hosts_same(&m->hosts, &other));
	hvd_slurm_hosts_clear(&other);
	m->jobs[1].id = 3;
	hvd_slurm_hosts_make(&other, &m->opts, m->jobs, m->n, &m->nodes);
	assert_false(hvd_slurm_hosts_same(&m->hosts, &other));
	hvd_slurm_hosts_clear(&other);
	m->jobs[1].preempted = true;
	m->jobs[1].ends = NOW + 5;
	hvd_slurm_hosts_make(&other, &m->opts, m->jobs, m->n, &m->nodes);
	assert_false(hvd_slurm_hosts_same(&m->hosts, &other));
	hvd_slurm_hosts_clear(&other);
}

RUN_TESTS(.setup = begin, .teardown = end)
