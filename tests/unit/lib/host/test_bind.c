/* SPDX-License-Identifier: Apache-2.0 */
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

			assert_int_equal(hvd_bind_split(&b, n, false, m[i].machine, NULL), 0);
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

		assert_int_equal(hvd_bind_split(&b, n, false, "synthetic:numa:4 core:8 pu:2", NULL), 0);
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

		assert_int_equal(hvd_bind_split(&b, n, true, machine, NULL), 0);
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
	assert_int_equal(hvd_bind_split(&b, 2, true, machine, NULL), 0);
	assert_true(is_block(&b.sets[0], 0, 32) && is_block(&b.sets[1], 32, 32));
	hvd_binding_clear(&b);
	/* Where there is nothing to choose, or no way to: unbound. */
	assert_int_equal(hvd_bind_split(&b, 4, true, "synthetic:numa:1 core:4 pu:2", NULL), 0);
	assert_int_equal(b.n, 0);
	assert_non_null(strstr(b.why, "one NUMA domain"));
	assert_int_equal(hvd_bind_split(&b, 33, true, machine, NULL), 0);
	assert_int_equal(b.n, 0);
	assert_int_equal(hvd_bind_split(&b, 0, true, machine, NULL), -1);
	hvd_binding_clear(&b);
}

TEST(too_many_ranks_stay_unbound)
{
	struct hvd_binding b;

	assert_int_equal(hvd_bind_split(&b, 9, false, "synthetic:pack:2 core:4 pu:2", NULL), 0);
	assert_int_equal(b.n, 0);
	assert_null(b.sets);
	assert_non_null(strstr(b.why, "more local ranks than cores"));
	hvd_binding_clear(&b);
	assert_int_equal(hvd_bind_split(&b, 4, false, "synthetic:pack:8 core:200 pu:1", NULL), 0);
	assert_int_equal(b.n, 0);
	assert_non_null(b.why);
	hvd_binding_clear(&b);
	assert_int_equal(hvd_bind_split(&b, 0, false, NULL, NULL), -1);
	assert_int_equal(hvd_bind_split(&b, 1, false, "synthetic:nonsense", NULL), -1);
	hvd_binding_clear(NULL);
}

TEST(the_affinity_mask_is_honoured)
{
	cpu_set_t before, one;
	struct hvd_binding b;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(hvd_bind_split(&b, 1, false, NULL, NULL), 0);
	assert_int_equal(b.n, 1);
	assert_true(CPU_EQUAL(&b.sets[0], &before));
	hvd_binding_clear(&b);
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(hvd_bind_split(&b, 1, false, NULL, NULL), 0);
	assert_true(b.n == 1 && CPU_EQUAL(&b.sets[0], &one));
	hvd_binding_clear(&b);
	assert_int_equal(hvd_bind_split(&b, 2, false, NULL, NULL), 0);
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
