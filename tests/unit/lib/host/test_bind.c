/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/xalloc.h"
#include "lib/host/bind.h"
#include "lib/host/gpu.h"
#include "tests/unit/unit.h"

/* The library takes what execve(2) takes: pointers that are not const, to what it does not change. */
#define WORDS(...) ((char **)(const char *[]){__VA_ARGS__})

/* Every set has CPUs, none has those of another, and in all there are `all`. */
static void check_sets(const struct hvd_binding *b, int n, int all)
{
	cpu_set_t seen, both;
	int sum = 0;

	CPU_ZERO(&seen);
	assert_int_equal(b->n, n);
	assert_null(b->why);
	for (int i = 0; i < n; i++) {
		assert_true(CPU_COUNT(&b->sets[i]) > 0);
		CPU_AND(&both, &seen, &b->sets[i]);
		assert_int_equal(CPU_COUNT(&both), 0);
		CPU_OR(&seen, &seen, &b->sets[i]);
		sum += CPU_COUNT(&b->sets[i]);
	}
	assert_int_equal(sum, all);
}

TEST(machines_are_divided)
{
	static const struct {
		const char *machine;
		int cores, threads;
	} m[] = {{"synthetic:pack:2 core:4 pu:2", 8, 2},
		 {"synthetic:numa:4 l3:2 core:6 pu:1", 48, 1},
		 {"synthetic:pack:1 core:7 pu:2", 7, 2},
		 {"synthetic:pack:2 numa:4 core:16 pu:2", 128, 2}};

	for (size_t i = 0; i < sizeof(m) / sizeof(*m); i++) {
		for (int n = 1; n <= m[i].cores; n++) {
			struct hvd_binding b;

			assert_int_equal(hvd_bind_split(&b, n, false, NULL, m[i].machine, NULL), 0);
			check_sets(&b, n, m[i].cores * m[i].threads);
			/* Whole cores: threads of a core have neighbouring numbers here. */
			for (int r = 0; r < n; r++)
				for (int c = 0; c < m[i].cores * m[i].threads; c += m[i].threads)
					for (int t = 1; t < m[i].threads; t++)
						assert_int_equal(!!CPU_ISSET(c, &b.sets[r]),
								 !!CPU_ISSET(c + t, &b.sets[r]));
			hvd_binding_clear(&b);
		}
	}
}

/* As many ranks as NUMA nodes, or a multiple: none may have cores of two nodes. */
TEST(ranks_stay_within_numa_nodes)
{
	for (int n = 4; n <= 32; n += 4) {
		struct hvd_binding b;

		assert_int_equal(hvd_bind_split(&b, n, false, NULL, "synthetic:numa:4 core:8 pu:2", NULL), 0);
		for (int r = 0; r < n; r++) {
			int node = -1;

			for (int c = 0; c < 64; c++) {
				if (!CPU_ISSET(c, &b.sets[r]))
					continue;
				assert_true(node < 0 || node == c / 16);
				node = c / 16;
			}
			assert_int_equal(node, r / (n / 4));
		}
		hvd_binding_clear(&b);
	}
}

static bool is_block(const cpu_set_t *set, int first, int n)
{
	for (int c = first; c < first + n; c++)
		if (!CPU_ISSET(c, set))
			return false;
	return CPU_COUNT(set) == n;
}

/* Whatever the number of ranks, even one to a core: each may use all of a NUMA node, whole and near. */
TEST(ranks_share_numa_nodes)
{
	static const char machine[] = "synthetic:numa:4 core:8 pu:2";
	struct hvd_binding b;

	for (int n = 4; n <= 32; n++) {
		int on[4] = {0};

		assert_int_equal(hvd_bind_split(&b, n, true, NULL, machine, NULL), 0);
		assert_int_equal(b.n, n);
		for (int r = 0; r < n; r++) {
			int node = 0;

			while (node < 3 && !CPU_ISSET(16 * node, &b.sets[r]))
				node++;
			/* A rank whose share is in two nodes has both. */
			assert_true(is_block(&b.sets[r], 16 * node, 16) || is_block(&b.sets[r], 16 * node, 32));
			on[node]++;
		}
		for (int node = 0; node < 4 && n % 4 == 0; node++)
			assert_int_equal(on[node], n / 4);
		hvd_binding_clear(&b);
	}
	/* Fewer ranks than nodes have several each, and all CPUs are of use. */
	assert_int_equal(hvd_bind_split(&b, 2, true, NULL, machine, NULL), 0);
	assert_true(is_block(&b.sets[0], 0, 32) && is_block(&b.sets[1], 32, 32));
	hvd_binding_clear(&b);
	/* Where there is nothing to choose, or no way to: unbound. */
	assert_int_equal(hvd_bind_split(&b, 4, true, NULL, "synthetic:numa:1 core:4 pu:2", NULL), 0);
	assert_int_equal(b.n, 0);
	assert_non_null(strstr(b.why, "one NUMA domain"));
	assert_int_equal(hvd_bind_split(&b, 33, true, NULL, machine, NULL), 0);
	assert_int_equal(b.n, 0);
	assert_int_equal(hvd_bind_split(&b, 0, true, NULL, machine, NULL), -1);
	hvd_binding_clear(&b);
}

TEST(too_many_ranks_stay_unbound)
{
	struct hvd_binding b;

	assert_int_equal(hvd_bind_split(&b, 9, false, NULL, "synthetic:pack:2 core:4 pu:2", NULL), 0);
	assert_int_equal(b.n, 0);
	assert_null(b.sets);
	assert_non_null(strstr(b.why, "more local ranks than cores"));
	hvd_binding_clear(&b);
	assert_int_equal(hvd_bind_split(&b, 4, false, NULL, "synthetic:pack:8 core:200 pu:1", NULL), 0);
	assert_int_equal(b.n, 0);
	assert_non_null(b.why);
	hvd_binding_clear(&b);
	assert_int_equal(hvd_bind_split(&b, 0, false, NULL, NULL, NULL), -1);
	assert_int_equal(hvd_bind_split(&b, 1, false, NULL, "synthetic:nonsense", NULL), -1);
	hvd_binding_clear(NULL);
}

/* Bind n ranks within the share, and see that the first has `each` CPUs from `first` on, and each next one those behind;
 * step 0: all have the same. */
static void shared(const char *machine, int n, bool near, struct hvd_share share, int first, int each, int step)
{
	struct hvd_binding b;

	assert_int_equal(hvd_bind_split(&b, n, near, &share, machine, NULL), 0);
	assert_int_equal(b.n, n);
	assert_null(b.why);
	for (int r = 0; r < n; r++)
		if (!is_block(&b.sets[r], first + r * step, each))
			fail_msg("rank %d of %d in %d+%d", r, n, share.first, share.n);
	hvd_binding_clear(&b);
}

#define SHARE(first, n) ((struct hvd_share){first, n})

TEST(ranks_keep_to_their_share)
{
	static const char machine[] = "synthetic:numa:4 core:8 pu:2";
	struct hvd_share share = SHARE(0, 2);
	struct hvd_err err = {0};
	struct hvd_binding b;

	/* a single rank, too */
	shared(machine, 1, false, SHARE(8, 16), 8, 16, 0);
	shared(machine, 1, true, SHARE(8, 16), 8, 16, 0);
	/* whole cores, the threads of cores, and any CPUs, as they can be divided evenly */
	shared(machine, 3, false, SHARE(8, 12), 8, 4, 4);
	shared(machine, 4, false, SHARE(8, 4), 8, 1, 1);
	shared(machine, 3, false, SHARE(1, 9), 1, 3, 3);
	assert_int_equal(hvd_bind_split(&b, 7, false, &SHARE(4, 60), machine, NULL), 0);
	check_sets(&b, 7, 60);
	hvd_binding_clear(&b);
	/* domains of the share: of two, half of the second, or one */
	shared(machine, 2, true, SHARE(0, 32), 0, 16, 16);
	shared(machine, 2, true, SHARE(8, 16), 8, 8, 8);
	shared(machine, 2, true, SHARE(16, 16), 16, 16, 0);
	/* more ranks than CPUs */
	shared(machine, 3, false, SHARE(62, 2), 62, 2, 0);
	shared(machine, 3, true, SHARE(62, 2), 62, 2, 0);
	/* what is left; nothing is, so all is shared */
	shared(machine, 2, false, SHARE(56, -1), 56, 4, 4);
	shared(machine, 2, false, SHARE(64, -1), 0, 32, 32);
	shared(machine, 2, false, HVD_SHARE_ALL, 0, 32, 32);
	/* not what they have numbers for elsewhere: the threads of a core are neighbours */
	assert_int_equal(
		hvd_bind_split(&b, 1, false, &share, "synthetic:pack:1 core:4 pu:2(indexes=0,4,1,5,2,6,3,7)", NULL), 0);
	assert_true(CPU_COUNT(&b.sets[0]) == 2 && CPU_ISSET(0, &b.sets[0]) && CPU_ISSET(4, &b.sets[0]));
	hvd_binding_clear(&b);
	share = SHARE(60, 5);
	assert_int_equal(hvd_bind_split(&b, 1, false, &share, machine, &err), -1);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_in(err.msg, "asked for 5 CPUs from number 60 on, but ranks may use 64 here");
	assert_int_equal(b.n, 0);
	assert_non_null(b.why);
	hvd_binding_clear(&b);
}

TEST(a_share_in_a_message)
{
	static const char *const bad[] = {"{\"cpus\":[0,0]}",   "{\"cpus\":[-1,1]}",    "{\"cpus\":[0,-2]}",
					  "{\"cpus\":[0]}",     "{\"cpus\":[0,1,2]}",   "{\"cpus\":3}",
					  "{\"gpus\":[0,1.5]}", "{\"gpus\":[\"0\",1]}", "{\"gpus\":[0,1048577]}"};
	struct hvd_host_share share = {SHARE(3, 5), SHARE(2, 0)}, back;
	json_t *msg = json_object();

	hvd_host_share_add(msg, &HVD_WHOLE_HOST);
	assert_int_equal(json_object_size(msg), 0);
	assert_int_equal(hvd_host_share_parse(msg, &back, NULL), 0);
	assert_true(hvd_share_is_all(&back.cpus) && hvd_share_is_all(&back.gpus));
	hvd_host_share_add(msg, &share);
	assert_int_equal(hvd_host_share_parse(msg, &back, NULL), 0);
	assert_memory_equal(&back, &share, sizeof(share));
	json_decref(msg);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		msg = json_loads(bad[i], 0, NULL);
		assert_int_equal(hvd_host_share_parse(msg, &back, NULL), -1);
		assert_true(hvd_share_is_all(&back.cpus) && hvd_share_is_all(&back.gpus));
		json_decref(msg);
	}
}

TEST(the_affinity_mask_is_honoured)
{
	cpu_set_t before, one;
	struct hvd_binding b;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(hvd_bind_split(&b, 1, false, NULL, NULL, NULL), 0);
	assert_int_equal(b.n, 1);
	assert_true(CPU_EQUAL(&b.sets[0], &before));
	hvd_binding_clear(&b);
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(hvd_bind_split(&b, 1, false, NULL, NULL, NULL), 0);
	assert_true(b.n == 1 && CPU_EQUAL(&b.sets[0], &one));
	hvd_binding_clear(&b);
	assert_int_equal(hvd_bind_split(&b, 2, false, NULL, NULL, NULL), 0);
	assert_int_equal(b.n, 0);
	hvd_binding_clear(&b);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(gpus_are_counted)
{
	char root[] = "/tmp/hvd-test-gpu-XXXXXX";
	char **none = WORDS("PATH=/bin", NULL), **two = WORDS("CUDA_VISIBLE_DEVICES=0,3", NULL);
	char **hidden = WORDS("CUDA_VISIBLE_DEVICES=", NULL), **cut = WORDS("CUDA_VISIBLE_DEVICES=1,-1,2", NULL);
	char **uuid = WORDS("CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", NULL);

	assert_non_null(mkdtemp(root));
	assert_int_equal(hvd_gpu_count(root, none), 0);
	make_file(root, "/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
	make_file(root, "/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "54321\n");
	assert_int_equal(hvd_gpu_count(root, none), 1);
	make_file(root, "/dev/nvidia0", "");
	make_file(root, "/dev/nvidia1", "");
	make_file(root, "/dev/nvidia10", "");
	make_file(root, "/dev/nvidiactl", "");
	make_file(root, "/dev/nvidia-uvm", "");
	make_file(root, "/dev/nvidia", "");
	assert_int_equal(hvd_gpu_count(root, none), 3);
	assert_int_equal(hvd_gpu_count(root, NULL), 3);
	assert_int_equal(hvd_gpu_count(root, two), 2);
	assert_int_equal(hvd_gpu_count(root, hidden), 0);
	assert_int_equal(hvd_gpu_count(root, cut), 1);
	assert_int_equal(hvd_gpu_count(root, uuid), 1);
	assert_int_equal(remove_tree(root), 0);
}

/* `want` is NAME=LIST; NULL: nothing is set. */
static void sees(const char *root, const char *env, struct hvd_share share, const char *want)
{
	char **envp = WORDS(env, "PATH=/bin", NULL), *list, *is = NULL;
	const char *name;

	assert_int_equal(hvd_gpu_share(root, envp, &share, &name, &list, NULL), 0);
	if (list)
		is = hvd_xasprintf("%s=%s", name, list);
	if (!want)
		assert_null(is);
	else
		assert_string_equal(is, want);
	free(list);
	free(is);
}

static void too_few(const char *root, const char *env, struct hvd_share share, const char *want)
{
	char **envp = WORDS(env, NULL), *list;
	struct hvd_err err = {0};
	const char *name;

	assert_int_equal(hvd_gpu_share(root, envp, &share, &name, &list, &err), -1);
	assert_null(list);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_string_equal(err.msg, want);
}

TEST(gpus_are_shared)
{
	char root[] = "/tmp/hvd-test-gpu-XXXXXX";
	const char *none = "A=b";

	assert_non_null(mkdtemp(root));
	/* of a list, whatever the host has */
	sees(root, "CUDA_VISIBLE_DEVICES=4,5,GPU-6a,7", SHARE(0, 1), "CUDA_VISIBLE_DEVICES=4");
	sees(root, "CUDA_VISIBLE_DEVICES=4,5,GPU-6a,7", SHARE(1, 2), "CUDA_VISIBLE_DEVICES=5,GPU-6a");
	sees(root, "CUDA_VISIBLE_DEVICES=4,5,GPU-6a,7", SHARE(3, -1), "CUDA_VISIBLE_DEVICES=7");
	sees(root, "CUDA_VISIBLE_DEVICES=4,5,GPU-6a,7", SHARE(4, -1), "CUDA_VISIBLE_DEVICES=");
	sees(root, "CUDA_VISIBLE_DEVICES=4,5,GPU-6a,7", SHARE(9, 0), "CUDA_VISIBLE_DEVICES=");
	sees(root, "CUDA_VISIBLE_DEVICES=4,5,GPU-6a,7", HVD_SHARE_ALL, NULL);
	sees(root, "CUDA_VISIBLE_DEVICES=1,2,-1,3", SHARE(1, 1), "CUDA_VISIBLE_DEVICES=2");
	sees(root, "CUDA_VISIBLE_DEVICES=", SHARE(0, 0), "CUDA_VISIBLE_DEVICES=");
	sees(root, "ROCR_VISIBLE_DEVICES=2,3", SHARE(1, 1), "ROCR_VISIBLE_DEVICES=3");
	sees(root, "HIP_VISIBLE_DEVICES=2,3", SHARE(0, 1), "HIP_VISIBLE_DEVICES=2");
	too_few(root, "CUDA_VISIBLE_DEVICES=4,5,-1,7", SHARE(1, 2),
		"asked for 2 GPUs from number 1 on, but CUDA_VISIBLE_DEVICES lists 2");
	/* of no GPUs */
	sees(root, none, SHARE(0, 0), NULL);
	sees(root, none, SHARE(2, -1), NULL);
	too_few(root, none, SHARE(0, 1), "asked for 1 GPU from number 0 on, but this host has 0");
	/* of the host's own, without a list */
	make_file(root, "/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "54321\n");
	make_file(root, "/sys/class/kfd/kfd/topology/nodes/2/gpu_id", "54322\n");
	sees(root, none, SHARE(1, 1), "ROCR_VISIBLE_DEVICES=1");
	for (int i = 0; i < 4; i++) {
		char *path = hvd_xasprintf("/dev/nvidia%d", i);

		make_file(root, path, "");
		free(path);
	}
	sees(root, none, SHARE(0, 2), "CUDA_VISIBLE_DEVICES=0,1");
	sees(root, none, SHARE(1, -1), "CUDA_VISIBLE_DEVICES=1,2,3");
	sees(root, none, SHARE(0, 0), "CUDA_VISIBLE_DEVICES=");
	sees(root, none, HVD_SHARE_ALL, NULL);
	sees(root, "ROCR_VISIBLE_DEVICES=all", SHARE(2, 2), "ROCR_VISIBLE_DEVICES=2,3");
	too_few(root, none, SHARE(2, 3), "asked for 3 GPUs from number 2 on, but this host has 4");
	assert_int_equal(remove_tree(root), 0);
}

TEST(listed_cpus_are_taken)
{
	static const char *const bad[] = {"",     "0",    "0:",   ":0",      "0:0:0", "0:x",
					  "0,:0", "0 :0", "-1:0", "0:99999", "0:0x"};
	struct hvd_binding b;
	cpu_set_t before, after, one;
	char both[64];
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	snprintf(both, sizeof(both), "%d:%d,%d", cpu, cpu, cpu);
	assert_int_equal(hvd_bind_listed(&b, 2, both, NULL), 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(b.n, 2);
	assert_true(CPU_EQUAL(&b.sets[0], &one) && CPU_EQUAL(&b.sets[1], &one));
	hvd_binding_clear(&b);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(hvd_bind_listed(&b, 2, bad[i], NULL), -1);
		assert_int_equal(b.n, 0);
		assert_non_null(b.why);
		hvd_binding_clear(&b);
	}
	/* a CPU that no machine of today has: the kernel refuses it, and this process stays where it was */
	assert_int_equal(hvd_bind_listed(&b, 2, "1023:1022", NULL), -1);
	hvd_binding_clear(&b);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
}

RUN_TESTS()
