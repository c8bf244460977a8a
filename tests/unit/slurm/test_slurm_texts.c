/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm's commands print, in several releases (texts/capture), and what is read from it. */
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"
#include "slurm/scontrol.h"
#include "slurm/slurm.h"
#include "slurm/squeue.h"
#include "tests/unit/unit.h"

#define TEXTS    "tests/unit/slurm/texts/"
#define TEXT_MAX (1u << 20)

static const struct hvd_squeue_mark mark = {"<0123456789abcdef>"};
static const char *const releases[] = {"22.05", "24.11", "26.05"};

#define EACH_RELEASE(r)                                                                                                \
	for (size_t r##_ = 0; r##_ < sizeof(releases) / sizeof(releases[0]); r##_++)                                   \
		for (const char *r = releases[r##_]; r; r = NULL)

static char *text_of(const char *release, const char *file)
{
	hvd_cleanup_free char *path = hvd_xasprintf(TEXTS "%s/%s", release, file);
	struct hvd_err err = {0};
	size_t len;
	char *text = hvd_read_file(path, TEXT_MAX, path, &len, &err);

	if (!text)
		fail_msg("%s", err.msg);
	return text;
}

/* The number of a job by its name in the file "jobs". */
static uint32_t number_of(const char *release, const char *name)
{
	hvd_cleanup_free char *text = text_of(release, "jobs"), *key = hvd_xasprintf("%s ", name);
	const char *at = strstr(text, key);

	assert_non_null(at);
	return (uint32_t)strtoul(at + strlen(key), NULL, 10);
}

struct jobs {
	struct hvd_slurm_job *v;
	size_t n;
};

static void free_jobs(struct jobs *jobs)
{
	hvd_slurm_jobs_free(jobs->v, jobs->n);
}

/* The first line is the format. */
static void read_jobs(const char *release, const char *file, struct jobs *jobs)
{
	hvd_cleanup_free char *text = text_of(release, file), *format = hvd_squeue_format(&mark);
	struct hvd_err err = {0};
	char *end = strchr(text, '\n');

	assert_non_null(end);
	*end = '\0';
	assert_string_equal(text, format);
	if (hvd_squeue_jobs_parse(end + 1, &mark, &jobs->v, &jobs->n, &err) != 0)
		fail_msg("%s: %s", release, err.msg);
}

static const struct hvd_slurm_job *job_of(const struct jobs *jobs, const char *release, const char *name)
{
	const uint32_t number = number_of(release, name);

	for (size_t i = 0; i < jobs->n; i++)
		if (jobs->v[i].id == number)
			return &jobs->v[i];
	fail_msg("%s: there is no job %s", release, name);
	return NULL;
}

static void assert_hosts(const struct hvd_slurm_job *job, const char *want)
{
	hvd_cleanup_free char *hosts = hvd_hostlist_compress(job->hosts.v, job->hosts.n);

	assert_string_equal(hosts, want);
}

TEST(jobs_whatever_their_names_and_comments_hold)
{
	static const char name[] =
		"x State=evil NodeList=evil\n     Nodes=hvdn[1-2] CPU_IDs=0 Mem=0 GRES=gpu:4(IDX:0-3)\n"
		"7<0000000000000000>RUNNING\n";

	EACH_RELEASE(release)
	{
		HVD_CLEANUP(free_jobs) struct jobs jobs = {0};
		const struct hvd_slurm_job *job;

		read_jobs(release, "squeue", &jobs);
		assert_int_equal(jobs.n, 12);
		job = job_of(&jobs, release, "first");
		assert_int_equal(job->state, HVD_SLURM_RUNNING);
		assert_hosts(job, "hvdn[1-2]");
		assert_string_equal(job->name, name);
		assert_string_equal(job->comment, "a \"b\"\nJobState=FAILED");
		assert_int_equal(job->tasks, 4);
		assert_int_equal(job->tasks_per_node, 2);
		assert_int_equal(job->ends - job->began, 600);
		assert_true(job->rerun.batch && job->rerun.allowed);
		assert_int_equal(job->rerun.nodes, 2);
		assert_int_equal(job->het, 0);
		assert_false(job->preempted || job->paused || job->doubtful);
		job = job_of(&jobs, release, "plain");
		assert_false(job->rerun.allowed);
		assert_int_equal(job->tasks, 3);
		assert_int_equal(job->tasks_per_node, 0);
		assert_string_equal(job->comment, "");
	}
}

TEST(arrays_heterogeneous_jobs_and_jobs_that_wait)
{
	EACH_RELEASE(release)
	{
		HVD_CLEANUP(free_jobs) struct jobs jobs = {0};
		const uint32_t array = number_of(release, "array"), het = number_of(release, "het");
		hvd_cleanup_free char *task = hvd_xasprintf("%u_4", array), *leader = hvd_xasprintf("%u", het);
		const struct hvd_slurm_job *job;

		read_jobs(release, "squeue", &jobs);
		assert_string_equal(job_of(&jobs, release, "array")->rerun.name, task);
		job = job_of(&jobs, release, "het");
		assert_int_equal(job->het, het);
		assert_int_equal(job->ends, 0); /* it has no limit */
		for (size_t i = 0; i < jobs.n; i++)
			if (jobs.v[i].het == het)
				assert_string_equal(jobs.v[i].rerun.name, leader);
		job = job_of(&jobs, release, "held");
		assert_int_equal(job->state, HVD_SLURM_PENDING);
		assert_string_equal(job->rerun.required, "hvdn1");
		assert_string_equal(job->rerun.reservation, "");
		assert_int_equal(job->hosts.n, 0);
		job = job_of(&jobs, release, "again");
		assert_int_equal(job->state, HVD_SLURM_PENDING);
		assert_int_equal(job->rerun.restarts, 1);
	}
}

TEST(how_a_job_has_ended_or_is_being_ended)
{
	EACH_RELEASE(release)
	{
		HVD_CLEANUP(free_jobs) struct jobs jobs = {0}, ending = {0};
		const struct hvd_slurm_job *job;

		read_jobs(release, "squeue", &jobs);
		job = job_of(&jobs, release, "cancelled");
		assert_int_equal(job->state, HVD_SLURM_ENDED);
		assert_string_equal(job->fate, HVD_SLURM_CANCELLED);
		assert_null(job_of(&jobs, release, "failed")->fate);
		assert_int_equal(job_of(&jobs, release, "failed")->state, HVD_SLURM_ENDED);
		assert_null(job_of(&jobs, release, "good")->fate);
		/* Its script ignores SIGTERM. */
		read_jobs(release, "completing", &ending);
		job = job_of(&ending, release, "stubborn");
		assert_int_equal(job->state, HVD_SLURM_ENDED);
		assert_true(job->doubtful);
	}
}

/* Fields in the order of the format; | stands for the mark. */
static void read_one(const char *text, struct jobs *jobs)
{
	char *marked = hvd_xstrdup("");
	struct hvd_err err = {0};

	for (const char *p = text; *p; p++)
		hvd_xappendf(&marked, *p == '|' ? "%s" : "%.1s", *p == '|' ? mark.text : p);
	if (hvd_squeue_jobs_parse(marked, &mark, &jobs->v, &jobs->n, &err) != 0)
		fail_msg("%s", err.msg);
	assert_int_equal(jobs->n, 1);
	free(marked);
}

TEST(what_a_job_that_is_being_ended_will_have_been)
{
	static const struct {
		const char *batch, *restarts, *preempted, *used, *exit, *reason, *fate;
		enum hvd_slurm_state state;
		bool doubtful;
	} cases[] = {
		{"1", "0", "N/A", "0:05", "15", "None", HVD_SLURM_CANCELLED, HVD_SLURM_ENDED, false},
		{"1", "0", "N/A", "0:05", "0:15", "None", HVD_SLURM_CANCELLED, HVD_SLURM_ENDED, false},
		{"1", "0", "N/A", "0:05", "0:0", "None", NULL, HVD_SLURM_ENDED, true},
		{"0", "0", "N/A", "0:05", "0:0", "None", NULL, HVD_SLURM_ENDED, true},
		{"1", "0", "N/A", "0:05", "768", "NonZeroExitCode", NULL, HVD_SLURM_ENDED, false},
		{"1", "0", "N/A", "1:00:00", "0", "TimeLimit", "has reached its time limit", HVD_SLURM_ENDED, false},
		{"1", "0", "N/A", "0:05", "0", "NodeDown", "has lost a node", HVD_SLURM_ENDED, false},
		{"1", "0", "N/A", "0:05", "0:125", "OutOfMemory", "has used up its memory", HVD_SLURM_ENDED, false},
		{"1", "0", "1700000001", "0:05", "0", "None", "was preempted", HVD_SLURM_ENDED, false},
		{"1", "1", "N/A", "0:00", "0", "None", NULL, HVD_SLURM_PENDING, false},
		{"1", "1", "N/A", "0:05", "15", "None", HVD_SLURM_CANCELLED, HVD_SLURM_ENDED, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HVD_CLEANUP(free_jobs) struct jobs jobs = {0};
		hvd_cleanup_free char *text =
			hvd_xasprintf("7|COMPLETING|7|N/A|N/"
				      "A|%s|1|%s|2|2|0|1700000000|1700000005|%s|%s|%s|%s|p|n[1-2]||(null)|a|(null)|\n",
				      cases[i].batch, cases[i].restarts, cases[i].preempted, cases[i].used,
				      cases[i].exit, cases[i].reason);

		read_one(text, &jobs);
		assert_int_equal(jobs.v[0].state, cases[i].state);
		assert_int_equal(jobs.v[0].doubtful, cases[i].doubtful);
		if (cases[i].fate)
			assert_string_equal(jobs.v[0].fate, cases[i].fate);
		else
			assert_null(jobs.v[0].fate);
	}
}

TEST(states_that_are_flags)
{
	static const struct {
		const char *name;
		enum hvd_slurm_state state;
		bool paused;
	} cases[] = {
		{"CONFIGURING", HVD_SLURM_RUNNING, true},   {"SUSPENDED", HVD_SLURM_RUNNING, true},
		{"STOPPED", HVD_SLURM_RUNNING, false},      {"RESIZING", HVD_SLURM_RUNNING, false},
		{"SIGNALING", HVD_SLURM_RUNNING, false},    {"REQUEUED", HVD_SLURM_PENDING, false},
		{"REQUEUE_HOLD", HVD_SLURM_PENDING, false}, {"REVOKED", HVD_SLURM_ENDED, false},
		{"STAGE_OUT", HVD_SLURM_ENDED, false},      {"A_NEW_ONE", HVD_SLURM_ENDED, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HVD_CLEANUP(free_jobs) struct jobs jobs = {0};
		hvd_cleanup_free char *text = hvd_xasprintf(
			"7|%s|7|N/A|N/A|1|1|0|2|4294967294|N/A|1|NONE|1|0:05|0|None|p|n1||(null)|a||\n", cases[i].name);

		read_one(text, &jobs);
		assert_int_equal(jobs.v[0].state, cases[i].state);
		assert_int_equal(jobs.v[0].paused, cases[i].paused);
		assert_int_equal(jobs.v[0].preempted, cases[i].state != HVD_SLURM_ENDED);
		assert_int_equal(jobs.v[0].tasks, 0);
		/* A job without a limit that is preempted ends at that time, and the partition's grace time later. */
		assert_int_equal(jobs.v[0].ends, cases[i].state == HVD_SLURM_RUNNING);
		if (cases[i].state == HVD_SLURM_RUNNING)
			assert_string_equal(jobs.v[0].grace_of, "p");
		else
			assert_null(jobs.v[0].grace_of);
	}
}

TEST(a_text_that_is_cut_off_is_an_error)
{
	hvd_cleanup_free char *text = text_of("26.05", "squeue");
	struct hvd_slurm_job *jobs = NULL;
	const char *from = strchr(text, '\n') + 1;
	struct hvd_err err = {0};
	size_t n = 0;

	assert_int_equal(hvd_squeue_jobs_parse("", &mark, &jobs, &n, &err), 0);
	assert_int_equal(n, 0);
	assert_int_equal(hvd_squeue_jobs_parse("\n\n", &mark, &jobs, &n, &err), 0);
	text[strlen(text) - 9] = '\0';
	assert_fails_with(hvd_squeue_jobs_parse(from, &mark, &jobs, &n, &err), err, HVD_E_PROTO, "a part of a job");
	assert_null(jobs);
	assert_int_equal(n, 0);
	assert_fails_with(hvd_squeue_jobs_parse("slurm_load_jobs error", &mark, &jobs, &n, &err), err, HVD_E_PROTO,
			  "a part of a job");
}

TEST(marks_differ)
{
	struct hvd_squeue_mark a, b;

	assert_int_equal(hvd_squeue_mark_make(&a, NULL), 0);
	assert_int_equal(hvd_squeue_mark_make(&b, NULL), 0);
	assert_string_not_equal(a.text, b.text);
	assert_int_equal(strlen(a.text), strlen(mark.text));
	assert_null(strpbrk(a.text, ",:%"));
}

TEST(excluded_nodes)
{
	EACH_RELEASE(release)
	{
		hvd_cleanup_free char *text = text_of(release, "excluded"), *list = hvd_squeue_field(text, &mark);

		assert_string_equal(list, "hvdn3");
	}
	assert_null(hvd_squeue_field("", &mark));
	assert_null(hvd_squeue_field("hvdn3\n", &mark));
}

TEST(gpus_of_a_job_whatever_its_name_holds)
{
	EACH_RELEASE(release)
	{
		HVD_CLEANUP(free_jobs) struct jobs jobs = {0};
		hvd_cleanup_free char *text = text_of(release, "job"), *none = text_of(release, "plain");
		hvd_cleanup_free int *gpus = NULL, *zero = NULL;
		const struct hvd_slurm_job *job;

		read_jobs(release, "squeue", &jobs);
		job = job_of(&jobs, release, "first");
		gpus = hvd_scontrol_gpus(text, job->name, &job->hosts);
		assert_non_null(gpus);
		assert_int_equal(gpus[0], 3);
		assert_int_equal(gpus[1], 3);
		assert_null(hvd_scontrol_gpus(text, "another", &job->hosts));
		assert_null(hvd_scontrol_gpus(text, "x State=evil NodeList=evil", &jobs.v[0].hosts));
		job = job_of(&jobs, release, "plain");
		assert_null(hvd_scontrol_gpus(text, "x", &job->hosts));
		zero = hvd_scontrol_gpus(none, "plain", &job->hosts);
		assert_non_null(zero);
		for (int i = 0; i < 3; i++)
			assert_int_equal(zero[i], 0);
	}
}

TEST(gpus_that_differ_from_host_to_host)
{
	static const char head[] = "JobId=7 JobName=a\n   UserId=x\n";
	struct hvd_strv hosts = {0};
	int *gpus;

	hvd_strv_add(&hosts, "n1");
	hvd_strv_add(&hosts, "n2");
	hvd_strv_add(&hosts, "n3");
	hvd_cleanup_free char *all = hvd_xasprintf("%s     Nodes=n[2-3] CPU_IDs=0 Mem=0 GRES=gpu:a:2(IDX:0-1),shard:1\n"
						   "     Nodes=n1 CPU_IDs=0 Mem=0 GRES=\n   Comment=\n"
						   "     Nodes=n9 CPU_IDs=0 Mem=0 GRES=gpu:9\n",
						   head);
	hvd_cleanup_free char *twice =
		hvd_xasprintf("%s     Nodes=n[1-3] GRES=gpu:2\n     Nodes=n1 GRES=gpu:2\n", head);
	hvd_cleanup_free char *some = hvd_xasprintf("%s     Nodes=n[1-2] GRES=gpu:2\n", head);
	hvd_cleanup_free char *bad = hvd_xasprintf("%s     Nodes=n[1-3] GRES=gpu:2(\n", head);

	gpus = hvd_scontrol_gpus(all, "a", &hosts);
	assert_non_null(gpus);
	assert_int_equal(gpus[0], 0);
	assert_int_equal(gpus[1], 2);
	assert_int_equal(gpus[2], 2);
	free(gpus);
	assert_null(hvd_scontrol_gpus(twice, "a", &hosts));
	assert_null(hvd_scontrol_gpus(some, "a", &hosts));
	assert_null(hvd_scontrol_gpus(bad, "a", &hosts));
	assert_null(hvd_scontrol_gpus("", "", &hosts));
	hvd_strv_free(&hosts);
}

TEST(nodes_on_which_nothing_should_be_started)
{
	EACH_RELEASE(release)
	{
		hvd_cleanup_free char *text = text_of(release, "nodes");
		struct hvd_strv unusable = {0}, excluded = {0};

		hvd_scontrol_unusable(text, &unusable);
		assert_int_equal(unusable.n, 2);
		assert_string_equal(unusable.v[0], "hvdn2"); /* drained, whatever the reason says */
		assert_string_equal(unusable.v[1], "hvdn3"); /* failing */
		assert_int_equal(hvd_scontrol_nodes_like(text, "hvdn2", &excluded), 1);
		assert_int_equal(hvd_scontrol_nodes_like(text, "hvdn1", &excluded), 0);
		assert_int_equal(hvd_scontrol_nodes_like(text, "hvdn4", &excluded), -1);
		hvd_strv_free(&unusable);
	}
}

TEST(the_grace_time_of_a_partition)
{
	EACH_RELEASE(release)
	{
		hvd_cleanup_free char *text = text_of(release, "partition");

		assert_int_equal(hvd_scontrol_grace(text), 5);
	}
	assert_int_equal(hvd_scontrol_grace(""), 0);
}

TEST(the_configuration)
{
	EACH_RELEASE(release)
	{
		hvd_cleanup_free char *text = text_of(release, "config");
		struct hvd_slurm_site site;

		hvd_scontrol_config_parse(text, &site);
		assert_int_equal(site.port_lo, 60001);
		assert_int_equal(site.port_hi, 60100);
		assert_int_equal(site.kill_wait, 5);
		assert_true(site.munge);
		assert_false(site.binds);
	}
}

RUN_TESTS()
