/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "slurm/alloc_slurm.h"
#include "tests/unit/alloc_text.h"
#include "tests/unit/unit.h"

/* The library takes what execve(2) takes: pointers that are not const, to what it does not change. */
#define WORDS(...) ((char **)(const char *[]){__VA_ARGS__})

static void check(struct hvd_alloc *a, const char *want)
{
	int sum = 0;

	assert_string_equal(text_of(a), want);
	for (int i = 0; i < a->n_hosts; i++)
		sum += a->hosts[i].slots;
	assert_int_equal(a->slots, sum);
	hvd_alloc_clear(a);
}

TEST(lists_of_hosts_are_read)
{
	static const struct {
		const char *text, *want;
	} good[] = {
		{"a:2", "a:2"},
		{"a:2,b:1", "a:2 b:1"},
		{"a", "a:3"},
		{" a : 2", NULL},
		{" a:2 , b ", "a:2 b:3"},
		{"10.0.0.1:4,n-1.x_y.z:2", "10.0.0.1:4 n-1.x_y.z:2"},
		{"[::1]:2", "::1:2"},
		{"[fd00::1],[fe80::1%eth0]:2", "fd00::1:3 fe80::1%eth0:2"},
		{"a:2,b:1,a:1", "a:3 b:1"},
		{"b,a,b,a,c,b", "b:9 a:6 c:3"},
		{"n[1-3]:2", "n1:2 n2:2 n3:2"},
		{"a:1,n[08-09,12],b", "a:1 n08:3 n09:3 n12:3 b:3"},
		{"n[1-3", NULL},
		{"n[1-3]x]:2", NULL},
		{"n[3-1]:2", NULL},
		{"n[1-2]:0", NULL},
		{"n[1-99999999]:1", NULL},
		{"", NULL},
		{",", NULL},
		{"a,", NULL},
		{"a:", NULL},
		{":2", NULL},
		{"a:0", NULL},
		{"a:-1", NULL},
		{"a:2x", NULL},
		{"a:99999999999999999999", NULL},
		{"a:1048576,b:1", NULL},
		{"::1", NULL},
		{"fd00::1:2", NULL},
		{"[::1", NULL},
		{"[]:2", NULL},
		{"[a]:2", NULL},
		{"[::1]2", NULL},
		{"[::g]:2", NULL},
		{"-oProxyCommand=x:2", NULL},
		{".a", NULL},
		{"a b:2", NULL},
		{"a;rm:2", NULL},
		{"a\n:2", NULL},
		{"[fe80::1%]:1", NULL},
		{"[fe80::1%a/b]:1", NULL},
		{"[fe80::1%a\"b]:1", NULL},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct hvd_alloc a;
		struct hvd_err err = {0};
		int rc = hvd_alloc_from_hosts(&a, good[i].text, 3, &err);

		if (good[i].want) {
			if (rc != 0)
				fail_msg("%s: %s", good[i].text, err.msg);
			check(&a, good[i].want);
		} else {
			if (rc == 0)
				fail_msg("'%s' was taken", good[i].text);
			assert_true(err.code == HVD_E_USAGE || err.code == HVD_E_LIMIT);
			assert_null(a.hosts);
			assert_int_equal(a.slots, 0);
		}
	}
}

TEST(hosts_without_a_number_have_one_slot)
{
	struct hvd_alloc a;
	char *name;
	int slots;

	assert_int_equal(hvd_alloc_from_hosts(&a, "a,b:2", 0, NULL), 0);
	check(&a, "a:1 b:2");
	/* A discovery script may report a host that has none. */
	assert_int_equal(hvd_alloc_parse_host("n7:0", 4, 1, &name, &slots, NULL), 0);
	assert_string_equal(name, "n7");
	assert_int_equal(slots, 0);
	free(name);
	assert_int_equal(hvd_alloc_parse_host("a\0b:1", 5, 1, &name, &slots, NULL), -1);
	assert_null(name);
}

static int hostfile(struct hvd_alloc *a, const char *text, struct hvd_err *err)
{
	return hvd_alloc_parse_hostfile(a, text, strlen(text), "hosts.txt", 1, err);
}

TEST(hostfiles_are_read)
{
	static const struct {
		const char *text, *want;
	} good[] = {
		{"a slots=2\nb slots=1\n", "a:2 b:1"},
		{"a slots=2", "a:2"},
		{"# all of them\n\n  a   slots = 2 # two\r\n\t\nb\nc:4\n[fd00::1] slots=2\n", "a:2 b:1 c:4 fd00::1:2"},
		{"a slots=2 max_slots=4\nb max-slots=8 slots=1\n", "a:2 b:1"},
		{"a slots=2\nb slots=1\na slots=2\n", "a:4 b:1"},
	};
	struct hvd_alloc a;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(hostfile(&a, good[i].text, NULL), 0);
		check(&a, good[i].want);
	}
}

TEST(hostfile_errors_name_the_line)
{
	static const struct {
		const char *text, *want;
	} bad[] = {
		{"a slots=2\n\nb slots=x\n", "hosts.txt, line 3: 'x' is not a valid number of slots"},
		{"a slots\n", "hosts.txt, line 1: 'slots' is not understood"},
		{"a slots=\n", "hosts.txt, line 1: '' is not a valid number of slots"},
		{"# x\na gpus=2\n", "hosts.txt, line 2: 'gpus' is not understood"},
		{"a slots=0\n", "hosts.txt, line 1: a has no slots"},
		{"a 2\n", "hosts.txt, line 1: '2' is not understood"},
		{"a slots=2 b\n", "hosts.txt, line 1: 'b' is not understood"},
		{"-x slots=2\n", "hosts.txt, line 1: '-x' is neither a host name nor an address"},
		{"", "hosts.txt names no host"},
		{"#\n\n", "hosts.txt names no host"},
	};
	struct hvd_alloc a;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(hostfile(&a, bad[i].text, &err), -1);
		assert_string_equal(err.msg, bad[i].want);
		assert_int_equal(hvd_err_status(&err), 2);
		if (strstr(err.msg, "line"))
			assert_string_equal(err.hint, "a line of a hostfile is HOST slots=NUMBER, or HOST:NUMBER");
		assert_null(a.hosts);
	}
	assert_int_equal(hvd_alloc_from_hostfile(&a, "/nonexistent/hosts", 1, &err), -1);
	assert_int_equal(hvd_err_status(&err), 2);
	assert_int_equal(hvd_alloc_from_hostfile(&a, "/", 1, &err), -1);
}

TEST(hostfiles_are_opened)
{
	char path[] = "/tmp/hvd-test-hosts-XXXXXX";
	int fd = mkstemp(path);
	struct hvd_alloc a;
	FILE *f;

	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	for (int i = 0; i < 2000; i++)
		fprintf(f, "node%04d slots=8\n", i);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(hvd_alloc_from_hostfile(&a, path, 1, NULL), 0);
	assert_int_equal(a.n_hosts, 2000);
	assert_int_equal(a.slots, 16000);
	assert_string_equal(a.source, path);
	assert_int_equal(hvd_alloc_find(&a, "node1234"), 1234);
	hvd_alloc_clear(&a);
	unlink(path);
}

TEST(many_hosts_are_found_at_once)
{
	struct hvd_alloc a, names, none = {0};
	int *at;

	assert_int_equal(hvd_alloc_from_hosts(&a, "c:1,a:2,b:3", 0, NULL), 0);
	assert_int_equal(hvd_alloc_from_hosts(&names, "b,d,c", 0, NULL), 0);
	at = hvd_alloc_find_all(&a, &names);
	assert_int_equal(at[0], 2);
	assert_int_equal(at[1], -1);
	assert_int_equal(at[2], 0);
	free(at);
	at = hvd_alloc_find_all(&none, &names);
	assert_int_equal(at[2], -1);
	free(at);
	hvd_alloc_clear(&a);
	hvd_alloc_clear(&names);
}

TEST(some_slots_are_taken)
{
	struct hvd_alloc a, t;
	struct hvd_err err;

	assert_int_equal(hvd_alloc_from_hosts(&a, "a:2,b:3,c:1", 0, NULL), 0);
	assert_int_equal(hvd_alloc_take(&a, 3, &t, &err), 0);
	check(&t, "a:2 b:1");
	assert_int_equal(hvd_alloc_take(&a, 6, &t, &err), 0);
	check(&t, "a:2 b:3 c:1");
	assert_int_equal(hvd_alloc_take(&a, 0, &t, &err), 0);
	check(&t, "a:2 b:3 c:1");
	assert_int_equal(hvd_alloc_take(&a, -1, &t, &err), -1);
	assert_fails_with(hvd_alloc_take(&a, 7, &t, &err), err, HVD_E_USAGE, "");
	assert_string_equal(err.msg, "7 processes were asked for, but there are 6 slots (list of hosts):\n"
				     "  host  slots\n  a         2\n  b         3\n  c         1");
	assert_null(t.hosts);
	hvd_alloc_clear(&a);
	/* Hosts without slots take part in nothing. */
	assert_int_equal(hvd_alloc_add(&a, "x", 0, NULL), 0);
	assert_int_equal(hvd_alloc_take(&a, 0, &t, &err), -1);
	assert_int_equal(hvd_alloc_add(&a, "y", 2, NULL), 0);
	assert_int_equal(hvd_alloc_take(&a, 0, &t, &err), 0);
	check(&t, "y:2");
	hvd_alloc_clear(&a);
}

TEST(long_tables_are_cut)
{
	struct hvd_alloc a = {0}, t;
	struct hvd_err err;
	char name[32];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(hvd_alloc_add(&a, name, 4, NULL), 0);
	}
	assert_fails(hvd_alloc_take(&a, 401, &t, &err), err, "and 90 more hosts with 360 slots");
	hvd_alloc_clear(&a);
	hvd_alloc_clear(NULL);
}

/* Adding after a merge relies on the room that the merge leaves. */
TEST(hosts_are_added_after_a_merge)
{
	struct hvd_alloc a = {0};
	char name[32];

	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < round; i++) {
			snprintf(name, sizeof(name), "n%d", i % 23);
			assert_int_equal(hvd_alloc_add(&a, name, 1, NULL), 0);
		}
		hvd_alloc_merge(&a);
		assert_int_equal(a.n_hosts, round <= 23 ? (round > 1 ? round - 1 : 0) + (round > 0) : 23);
	}
	assert_int_equal(a.slots, 40 * 39 / 2);
	hvd_alloc_clear(&a);
}

static void slurm_case(const char *want, const char *from, int slots_per_host, char **envp)
{
	struct hvd_alloc a;
	struct hvd_err err = {0};
	int rc = hvd_alloc_from_slurm(&a, envp, slots_per_host, false, &err);

	if (!want) {
		if (rc == 0)
			fail_msg("%s was taken", envp[0]);
		assert_null(a.hosts);
		if (!strstr(err.msg, from))
			fail_msg("'%s' does not say '%s'", err.msg, from);
		return;
	}
	if (rc != 0)
		fail_msg("%s", err.msg);
	if (!strstr(a.source, from))
		fail_msg("'%s' does not say '%s'", a.source, from);
	check(&a, want);
}

#define JOB(n, list)          "SLURM_JOB_ID=17", "SLURM_JOB_NUM_NODES=" n, "SLURM_JOB_NODELIST=" list
#define CASE(want, from, ...) slurm_case(want, from, 0, WORDS(__VA_ARGS__, NULL))

TEST(jobs_tell_their_slots)
{
	/* Tasks that the user asked for. */
	CASE("n1:3 n2:1", "SLURM_TASKS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=3,1");
	CASE("n1:4 n2:4", "SLURM_NTASKS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_NTASKS_PER_NODE=4",
	     "SLURM_TASKS_PER_NODE=64(x2)");
	CASE("n1:2 n2:2", "SLURM_NTASKS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_NTASKS=4", "SLURM_NTASKS_PER_NODE=2",
	     "SLURM_TASKS_PER_NODE=3,1");
	CASE("n1:2 n2:1", "SLURM_TASKS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_NTASKS=3", "SLURM_NTASKS_PER_NODE=2",
	     "SLURM_TASKS_PER_NODE=2,1");
	CASE("n1:3 n2:2", "SLURM_NTASKS", JOB("2", "n[1-2]"), "SLURM_NTASKS=5");
	CASE("n1:8 n2:8", "SLURM_NTASKS_PER_GPU", JOB("2", "n[1-2]"), "SLURM_NTASKS_PER_GPU=2", "SLURM_GPUS_PER_NODE=4",
	     "SLURM_NTASKS=16", "SLURM_TASKS_PER_NODE=12,4");
	CASE("n1:5 n2:1", "SLURM_TASKS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_NTASKS_PER_GPU=1", "SLURM_GPUS=7",
	     "SLURM_NTASKS=6", "SLURM_TASKS_PER_NODE=5,1");
	/* Without a wish Slurm's number is that of CPUs. */
	CASE("n1:1 n2:1", "one slot", JOB("2", "n[1-2]"), "SLURM_TASKS_PER_NODE=64(x2)");
	/* GPUs. */
	CASE("n1:4 n2:4", "SLURM_GPUS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_GPUS_PER_NODE=4",
	     "SLURM_TASKS_PER_NODE=64(x2)");
	CASE("n1:4 n2:4", "SLURM_GPUS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_GPUS_PER_NODE=a100:3,v100:1");
	CASE("n1:2 n2:2", "SLURM_GPUS_ON_NODE", JOB("2", "n[1-2]"), "SLURM_GPUS_ON_NODE=2", "SLURM_JOB_GPUS=0,1");
	CASE("n1:3", "SLURM_GPUS_ON_NODE", JOB("1", "n1"), "SLURM_GPUS_ON_NODE=3", "SLURM_GPUS=3");
	CASE("n1:4 n2:4", "SLURM_GPUS", JOB("2", "n[1-2]"), "SLURM_GPUS=8");
	CASE(NULL, "how the 7 GPUs", JOB("2", "n[1-2]"), "SLURM_GPUS=7", "SLURM_GPUS_ON_NODE=4");
	CASE("n1:2", "SLURM_JOB_GPUS", JOB("1", "n1"), "SLURM_JOB_GPUS=0,3");
	CASE("n1:2 n2:2", "SLURM_GPUS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_GPUS_PER_NODE=4", "SLURM_GPUS_PER_TASK=2");
	CASE("n1:2 n2:2", "SLURM_GPUS_PER_NODE", JOB("2", "n[1-2]"), "SLURM_GPUS_PER_NODE=4",
	     "SLURM_TRES_PER_TASK=cpu=2,gres/gpu:a100=2");
	/* Neither, and what the caller says. */
	CASE("n1:1 n2:1 x:1", "one slot", JOB("3", "n[1-2],x"));
	slurm_case("n1:5 n2:5", "asked", 5, WORDS(JOB("2", "n[1-2]"), "SLURM_NTASKS=4", NULL));
	/* Arbitrary distributions name a host once per task. */
	CASE("n2:2 n1:1", "SLURM_TASKS", JOB("3", "n2,n1,n2"), "SLURM_NTASKS=3", "SLURM_TASKS_PER_NODE=1(x3)");
}

#define STEP(id, n, list, tasks)                                                                                       \
	"SLURM_STEP_ID=" id, "SLURM_STEP_NUM_NODES=" n, "SLURM_STEP_NODELIST=" list, "SLURM_STEP_TASKS_PER_NODE=" tasks

TEST(steps_come_before_their_job)
{
	CASE("n2:2 n3:1", "SLURM_STEP_TASKS_PER_NODE", JOB("4", "n[1-4]"), STEP("0", "2", "n[2-3]", "2,1"));
	/* A shell in a step. */
	CASE("n2:4", "SLURM_GPUS_ON_NODE", JOB("4", "n[1-4]"), STEP("3", "1", "n2", "1"), "SLURM_GPUS_ON_NODE=4",
	     "SLURM_GPUS_PER_NODE=8", "SLURM_NTASKS=1");
	CASE("n2:1", "one slot", JOB("4", "n[1-4]"), STEP("3", "1", "n2", "1"), "SLURM_NTASKS=1");
	/* salloc's interactive step is a place to sit in, not the allocation. */
	CASE("n1:1 n2:1", "one slot", JOB("2", "n[1-2]"), STEP("4294967290", "1", "n1", "1"));
	CASE(NULL, "does not match", JOB("4", "n[1-4]"), STEP("0", "2", "n[2-3]", "2"));
	CASE(NULL, "SLURM_STEP_NUM_NODES is 3", JOB("4", "n[1-4]"), STEP("0", "3", "n[2-3]", "1(x2)"));
}

TEST(other_environments_are_refused)
{
	struct hvd_alloc a;
	struct hvd_err err;

	assert_false(hvd_alloc_in_slurm(NULL));
	assert_true(hvd_alloc_in_slurm(WORDS(JOB("1", "n1"), NULL)));
	assert_fails_with(hvd_alloc_from_slurm(&a, WORDS("PATH=/bin", NULL), 0, false, &err), err, HVD_E_NOENT, "");
	assert_int_equal(hvd_alloc_from_slurm(&a, WORDS("SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=", NULL), 0, false, &err),
			 -1);
	assert_int_equal(err.code, HVD_E_NOENT);
	CASE(NULL, "heterogeneous", JOB("1", "n1"), "SLURM_HET_SIZE=2");
	CASE(NULL, "heterogeneous", JOB("1", "n1"), "SLURM_PACK_SIZE=3");
	/* salloc's, which has no SLURM_JOB_NODELIST. */
	CASE(NULL, "heterogeneous", "SLURM_JOB_ID=1", "SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST_HET_GROUP_0=n1");
	CASE(NULL, "heterogeneous", "SLURM_JOB_ID=1", "SLURM_JOB_NODELIST_HET_GROUP_0=n1");
	CASE(NULL, "SLURM_JOB_NUM_NODES is 3", JOB("3", "n[1-2]"));
	CASE(NULL, "not a list of hosts", JOB("3", "n[1-2"));
	CASE(NULL, "not a list of hosts", JOB("3", "n[1-99999999]"));
}

/* "n1:1@0 n2:2@1": slots and components. */
static void het_case(const char *want, const char *from, int slots_per_host, char **envp)
{
	struct hvd_alloc a;
	struct hvd_err err = {0};
	hvd_cleanup_free char *got = hvd_xstrdup("");

	assert_int_equal(hvd_alloc_from_slurm(&a, envp, slots_per_host, false, &err), -1);
	assert_in(err.hint, "hvdrun --role=a COMMAND : --role=b COMMAND");
	if (hvd_alloc_from_het(&a, envp, slots_per_host, false, &err) != 0) {
		if (want || !strstr(err.msg, from))
			fail_msg("%s", err.msg);
		assert_null(a.hosts);
		return;
	}
	for (int i = 0; i < a.n_hosts; i++)
		hvd_xappendf(&got, "%s%s:%d@%d", i ? " " : "", a.hosts[i].name, a.hosts[i].slots,
			     a.hosts[i].component - 1);
	assert_string_equal(got, want ? want : "an error");
	assert_string_equal(a.source, from);
	hvd_alloc_clear(&a);
}

#define HET(size) "SLURM_JOB_ID=8", "SLURM_HET_SIZE=" size
#define GROUP(k, id, n, list)                                                                                          \
	"SLURM_JOB_ID_HET_GROUP_" k "=" id, "SLURM_JOB_NUM_NODES_HET_GROUP_" k "=" n,                                  \
		"SLURM_JOB_NODELIST_HET_GROUP_" k "=" list
#define HET_CASE(want, from, ...) het_case(want, from, 0, WORDS(__VA_ARGS__, NULL))

/* As 22.05, 24.11 and 26.05 set the variables. */
TEST(components_tell_their_slots)
{
	const char *job = "heterogeneous Slurm job 8";

	/* salloc -N1 -n1 : -N2 -n3 */
	HET_CASE("n1:1@0 n2:2@1 n3:1@1", job, HET("2"), GROUP("0", "8", "1", "n1"), GROUP("1", "9", "2", "n[2-3]"),
		 "SLURM_NTASKS=4", "SLURM_NTASKS_HET_GROUP_0=1", "SLURM_NTASKS_HET_GROUP_1=3",
		 "SLURM_TASKS_PER_NODE_HET_GROUP_0=1", "SLURM_TASKS_PER_NODE_HET_GROUP_1=2,1");
	/* sbatch, whose script is on the first component; 24.11 has no SLURM_NTASKS of the second one. */
	HET_CASE("n1:1@0 n2:2@1 n3:2@1", job, HET("2"), "SLURM_JOB_NODELIST=n1", "SLURM_JOB_NUM_NODES=1",
		 "SLURM_NTASKS=1", "SLURM_STEP_ID=4294967291", GROUP("0", "8", "1", "n1"),
		 GROUP("1", "9", "2", "n[2-3]"), "SLURM_NTASKS_HET_GROUP_0=1", "SLURM_NTASKS_PER_NODE_HET_GROUP_1=2",
		 "SLURM_TASKS_PER_NODE_HET_GROUP_0=1", "SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2)");
	/* salloc -N1 --gpus-per-node=2 : -N2 --gpus-per-node=4 --gpus-per-task=2, in a step of the second */
	HET_CASE("n1:2@0 n2:2@1 n3:2@1", job, HET("2"), STEP("3", "1", "n2", "1"), "SLURM_JOB_NODELIST=n2",
		 GROUP("0", "8", "1", "n1"), GROUP("1", "9", "2", "n[2-3]"), "SLURM_GPUS_PER_NODE_HET_GROUP_0=2",
		 "SLURM_GPUS_PER_NODE_HET_GROUP_1=4", "SLURM_GPUS_PER_TASK_HET_GROUP_1=2",
		 "SLURM_TASKS_PER_NODE_HET_GROUP_0=1", "SLURM_TASKS_PER_NODE_HET_GROUP_1=1(x2)");
	het_case("n1:5@0 n3:5@1", job, 5,
		 WORDS(HET("2"), GROUP("0", "8", "1", "n1"), GROUP("1", "9", "1", "n3"), NULL));
	/* The number of the eleventh is not that of the second. */
	HET_CASE("n1:1@0 n2:1@1", job, HET("2"), GROUP("0", "8", "1", "n1"), GROUP("1", "9", "1", "n2"),
		 "SLURM_NTASKS_HET_GROUP_11=7", "SLURM_NTASKS_HET_GROUP_01=7");

	HET_CASE(NULL, "host n2 is in two components of the job, 0 and 1", HET("2"), GROUP("0", "8", "2", "n[1-2]"),
		 GROUP("1", "9", "1", "n2"));
	HET_CASE(NULL, "SLURM_JOB_NODELIST_HET_GROUP_1 is not set", HET("2"), GROUP("0", "8", "1", "n1"));
	HET_CASE(NULL, "component 1 of the job: ", HET("2"), GROUP("0", "8", "1", "n1"), GROUP("1", "9", "2", "n2"));
	HET_CASE(NULL, "SLURM_HET_SIZE", "SLURM_JOB_ID=8", GROUP("0", "8", "1", "n1"));
}

TEST(this_machine_is_an_allocation)
{
	struct hvd_alloc a;

	assert_int_equal(hvd_alloc_from_local(&a, 4, NULL), 0);
	check(&a, "localhost:4");
	assert_int_equal(hvd_alloc_from_local(&a, 0, NULL), -1);
}

RUN_TESTS()
