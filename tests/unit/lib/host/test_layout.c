/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/size.h"
#include "lib/host/layout.h"
#include "tests/unit/unit.h"

/* The library takes what execve(2) takes: pointers that are not const, to what it does not change. */
#define WORDS(...) ((char **)(const char *[]){__VA_ARGS__})

#define MAX_NODES 12
#define MAX_TASKS 9

/* A step: which ranks are on which node, in the order of local ids. */
struct step {
	int n_nodes, size;
	char names[MAX_NODES][16];
	char *name_v[MAX_NODES];
	int tasks[MAX_NODES];
	int tids[MAX_NODES][MAX_NODES * MAX_TASKS];
	int *tid_v[MAX_NODES];
};

static int first_rank(const struct step *s, int node)
{
	int first = s->size;

	for (int i = 0; i < s->tasks[node]; i++)
		first = s->tids[node][i] < first ? s->tids[node][i] : first;
	return first;
}

/* By the definitions, one rank at a time, without looking at how layout.c does it. */
static void check_by_definition(const struct step *s, const struct hvd_layout *l)
{
	assert_int_equal(l->size, s->size);
	assert_int_equal(l->n_hosts, s->n_nodes);
	for (int node = 0; node < s->n_nodes; node++) {
		assert_string_equal(l->hosts[node].name, s->names[node]);
		assert_int_equal(l->hosts[node].n, s->tasks[node]);
		for (int local = 0; local < s->tasks[node]; local++) {
			int rank = s->tids[node][local], before = 0, all = 0;
			const struct hvd_rank_slot *p = &l->rank_slots[rank];

			for (int other = 0; other < s->n_nodes; other++) {
				if (s->tasks[other] > local) {
					all++;
					before += first_rank(s, other) < first_rank(s, node);
				}
			}
			assert_int_equal(l->hosts[node].ranks[local], rank);
			assert_int_equal(p->rank, rank);
			assert_int_equal(p->size, s->size);
			assert_int_equal(p->host, node);
			assert_int_equal(p->local_rank, local);
			assert_int_equal(p->local_size, s->tasks[node]);
			assert_int_equal(p->cross_rank, before);
			assert_int_equal(p->cross_size, all);
		}
	}
}

static void start_step(struct step *s, int n_nodes)
{
	memset(s, 0, sizeof(*s));
	s->n_nodes = n_nodes;
	for (int i = 0; i < n_nodes; i++) {
		snprintf(s->names[i], sizeof(s->names[i]), "n%d", i);
		s->name_v[i] = s->names[i];
		s->tid_v[i] = s->tids[i];
	}
}

static unsigned next_random(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 16;
}

/* Random tasks per node, and ranks dealt block, cyclic, in planes or arbitrarily. */
static void deal(struct step *s, unsigned *seed)
{
	int owner[MAX_NODES * MAX_TASKS], left[MAX_NODES];
	unsigned how = next_random(seed) % 4, plane = 1 + next_random(seed) % 4;

	start_step(s, 1 + (int)(next_random(seed) % MAX_NODES));
	for (int i = 0; i < s->n_nodes; i++) {
		s->tasks[i] = (int)(next_random(seed) % (MAX_TASKS + 1));
		if (i == 0 && s->tasks[i] == 0)
			s->tasks[i] = 1;
		left[i] = s->tasks[i];
		s->size += s->tasks[i];
	}
	if (how == 0)
		plane = MAX_TASKS + 1;
	else if (how == 1)
		plane = 1;
	for (int rank = 0, node = 0; rank < s->size; node = (node + 1) % s->n_nodes)
		for (unsigned k = 0; k < plane && left[node] > 0; k++, left[node]--)
			owner[rank++] = node;
	if (how == 3) {
		for (int i = s->size - 1; i > 0; i--) {
			int j = (int)(next_random(seed) % (unsigned)(i + 1)), t = owner[i];

			owner[i] = owner[j];
			owner[j] = t;
		}
	}
	memset(left, 0, sizeof(left));
	for (int rank = 0; rank < s->size; rank++)
		s->tids[owner[rank]][left[owner[rank]]++] = rank;
}

TEST(random_layouts_match_the_definitions)
{
	unsigned seed = 20;

	for (int round = 0; round < 3000; round++) {
		struct hvd_layout l;
		struct step s;

		deal(&s, &seed);
		assert_int_equal(hvd_layout_from_tasks(&l, s.name_v, s.tasks, s.tid_v, s.n_nodes, NULL), 0);
		check_by_definition(&s, &l);
		hvd_layout_clear(&l);
	}
}

TEST(slots_give_blocks)
{
	unsigned seed = 7;

	for (int round = 0; round < 500; round++) {
		struct hvd_layout l;
		struct step s;
		int rank = 0;

		deal(&s, &seed);
		for (int i = 0; i < s.n_nodes; i++)
			for (int k = 0; k < s.tasks[i]; k++)
				s.tids[i][k] = rank++;
		assert_int_equal(hvd_layout_from_tasks(&l, s.name_v, s.tasks, NULL, s.n_nodes, NULL), 0);
		check_by_definition(&s, &l);
		hvd_layout_clear(&l);
	}
}

/* The numbers that horovodrun hands out for `-H a:3,b:1,c:2 -np 6`. */
TEST(uneven_hosts_as_horovodrun)
{
	static const int want[6][4] = {{0, 3, 0, 3}, {1, 3, 0, 2}, {2, 3, 0, 1},
				       {0, 1, 1, 3}, {0, 2, 2, 3}, {1, 2, 1, 2}};
	char **names = WORDS("a", "b", "c");
	int slots[] = {3, 1, 2};
	struct hvd_layout l;

	assert_int_equal(hvd_layout_from_tasks(&l, names, slots, NULL, 3, NULL), 0);
	for (int r = 0; r < 6; r++) {
		assert_int_equal(l.rank_slots[r].local_rank, want[r][0]);
		assert_int_equal(l.rank_slots[r].local_size, want[r][1]);
		assert_int_equal(l.rank_slots[r].cross_rank, want[r][2]);
		assert_int_equal(l.rank_slots[r].cross_size, want[r][3]);
	}
	hvd_layout_clear(&l);
}

TEST(broken_layouts_are_refused)
{
	char **names = WORDS("a", "b");
	int two[] = {1, 1}, none[] = {0, 0}, negative[] = {2, -1}, huge[] = {HVD_MAX_RANKS, 1};
	int zero[] = {0}, one[] = {1}, nine[] = {9}, minus[] = {-1};
	int *twice[] = {zero, zero}, *beyond[] = {zero, nine}, *below[] = {minus, one};
	struct hvd_layout l;
	struct hvd_err err;

	assert_fails(hvd_layout_from_tasks(&l, names, two, twice, 2, &err), err, "rank 0 occurs twice");
	assert_int_equal(l.size, 0);
	assert_null(l.hosts);
	assert_int_equal(hvd_layout_from_tasks(&l, names, two, beyond, 2, &err), -1);
	assert_int_equal(hvd_layout_from_tasks(&l, names, two, below, 2, &err), -1);
	assert_int_equal(hvd_layout_from_tasks(&l, names, none, NULL, 2, &err), -1);
	assert_int_equal(hvd_layout_from_tasks(&l, names, negative, NULL, 2, &err), -1);
	assert_fails_with(hvd_layout_from_tasks(&l, names, huge, NULL, 2, &err), err, HVD_E_LIMIT, "");
	assert_int_equal(hvd_layout_from_tasks(&l, names, two, NULL, 0, NULL), -1);
	hvd_layout_clear(&l);
	hvd_layout_clear(NULL);
}

/* srun -m arbitrary -w c,a,c,b,a: Slurm's nodes are a, b, c, and rank 0 is on c. */
TEST(hosts_count_by_their_first_rank)
{
	char **names = WORDS("a", "b", "c");
	int tasks[] = {2, 1, 2}, on_a[] = {1, 4}, on_b[] = {3}, on_c[] = {0, 2};
	int *tids[] = {on_a, on_b, on_c};
	static const int want[5][2] = {{0, 3}, {1, 3}, {0, 2}, {2, 3}, {1, 2}};
	struct hvd_layout l;

	assert_int_equal(hvd_layout_from_tasks(&l, names, tasks, tids, 3, NULL), 0);
	for (int r = 0; r < 5; r++) {
		assert_int_equal(l.rank_slots[r].cross_rank, want[r][0]);
		assert_int_equal(l.rank_slots[r].cross_size, want[r][1]);
	}
	assert_int_equal(l.rank_slots[0].host, 2);
	hvd_layout_clear(&l);
}

TEST(tasks_per_node_are_read)
{
	static const struct {
		const char *text;
		int n, want[6];
	} good[] = {{"1", 1, {1}},
		    {"2(x4),1", 5, {2, 2, 2, 2, 1}},
		    {"3,1", 2, {3, 1}},
		    {"16(x1),0,8(x2)", 4, {16, 0, 8, 8}}};
	static const char *const bad[] = {"",
					  ",",
					  "1,",
					  "(x2)",
					  "2(x0)",
					  "2(x4",
					  "2(4)",
					  "2x4",
					  " 1",
					  "1 ",
					  "-1",
					  "2(x-1)",
					  "1,,2",
					  "2(x4)3",
					  "a",
					  "2(x)",
					  "2(x7)",
					  "1,1,1,1,1,1,1",
					  "99999999999",
					  "1048577",
					  "2(x99999999999)"};
	struct hvd_err err;
	int *v;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(hvd_tasks_per_node_parse(good[i].text, 6, &v, &err), good[i].n);
		assert_memory_equal(v, good[i].want, (size_t)good[i].n * sizeof(*v));
		free(v);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(hvd_tasks_per_node_parse(bad[i], 6, &v, &err), -1);
		assert_null(v);
	}
}

RUN_TESTS()
