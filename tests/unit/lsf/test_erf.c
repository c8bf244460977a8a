/* SPDX-License-Identifier: Apache-2.0 */
#include "lsf/erf.h"
#include "tests/unit/unit.h"

/* "h1", "h2", … with so many ranks each. */
static struct hvd_alloc with_ranks(const int *ranks, int n)
{
	struct hvd_alloc a = {0};
	char name[16];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "h%d", i + 1);
		assert_int_equal(hvd_alloc_add(&a, name, ranks[i], NULL), 0);
	}
	return a;
}

static void expect(const struct hvd_erf_host *hosts, const int *ranks, int n, const char *want)
{
	struct hvd_alloc a = with_ranks(ranks, n);
	char *text = hvd_erf_format(&a, hosts, NULL);

	assert_string_equal(text, want);
	free(text);
	hvd_alloc_clear(&a);
}

/* ---- the rules, which no golden file is asked about ---- */

struct line {
	int rank, first, last;
	char host[16];
	bool gpu;
};

/* As strictly as the documented grammar has it. */
static void read_line(const char *text, struct line *l)
{
	char gpu[16] = "", rest[32];
	int n = sscanf(text, "rank: %d: { hostname: %15[^;]; cpu: {%d-%d} ;%31[^\n]", &l->rank, l->host, &l->first,
		       &l->last, rest);

	if (n == 3) {
		l->last = l->first;
		n = sscanf(text, "rank: %d: { hostname: %15[^;]; cpu: {%d} ;%31[^\n]", &l->rank, l->host, &l->first,
			   rest);
		assert_int_equal(n, 4);
	} else {
		assert_int_equal(n, 5);
		assert_true(l->first < l->last);
	}
	l->gpu = sscanf(rest, " gpu: %15[^;]", gpu) == 1;
	assert_string_equal(strstr(rest, "mem"), "mem: * }");
	assert_true(!l->gpu || strncmp(gpu, "* ", 2) == 0);
}

/* Ranks in order on hosts in order; on a host no thread twice, none beyond what there is, none left over; whole cores
 * and as many for each, give or take one, while there are enough; on one socket where that comes out even. */
static void check_rules(const char *text, const struct hvd_alloc *a, const struct hvd_erf_host *hosts)
{
	const char *at = strstr(text, "\nrank: ") + 1;
	int rank = 0;

	assert_int_equal(text[strlen(text) - 1], '\n');
	for (int h = 0; h < a->n_hosts; h++) {
		int threads = hosts[h].threads, all = hosts[h].cores * threads, n = a->hosts[h].slots;
		bool cores = n <= hosts[h].cores, *taken = calloc((size_t)all, sizeof(*taken));
		int unit = cores ? threads : 1, least = all, most = 0;

		assert_non_null(taken);
		for (int i = 0; i < n; i++, at = strchr(at, '\n') + 1) {
			struct line l = {0};

			read_line(at, &l);
			assert_int_equal(l.rank, rank++);
			assert_string_equal(l.host, a->hosts[h].name);
			assert_true(l.first >= 0 && l.last < all);
			assert_int_equal(l.first % unit, 0);
			assert_int_equal((l.last + 1) % unit, 0);
			assert_int_equal(l.gpu, hosts[h].gpus != 0);
			for (int c = l.first; c <= l.last; c++) {
				assert_false(taken[c]);
				taken[c] = true;
			}
			if (l.last - l.first + 1 < least)
				least = l.last - l.first + 1;
			if (l.last - l.first + 1 > most)
				most = l.last - l.first + 1;
			if (cores && hosts[h].sockets > 1 && n % hosts[h].sockets == 0 &&
			    hosts[h].cores % hosts[h].sockets == 0)
				assert_int_equal(l.first / (all / hosts[h].sockets), l.last / (all / hosts[h].sockets));
		}
		assert_true(most - least <= unit);
		for (int c = 0; c < all; c++)
			assert_true(taken[c]);
		free(taken);
	}
	assert_string_equal(at, "");
}

TEST(files_keep_the_rules)
{
	static const int smt[] = {1, 2, 4};
	uint32_t seed = 5;

	for (int round = 0; round < 3000; round++) {
		struct hvd_erf_host hosts[4] = {{0}};
		int ranks[4], n = (int)(dice(&seed) % 4) + 1;
		struct hvd_alloc a;
		char *text;

		for (int h = 0; h < n; h++) {
			hosts[h].cores = (int)(dice(&seed) % 64) + 1;
			hosts[h].threads = smt[dice(&seed) % 3];
			hosts[h].sockets = (int)(dice(&seed) % 5);
			hosts[h].gpus = (int)(dice(&seed) % 8) - 1;
			ranks[h] = (int)(dice(&seed) % (unsigned)(hosts[h].cores * hosts[h].threads)) + 1;
		}
		a = with_ranks(ranks, n);
		text = hvd_erf_format(&a, hosts, NULL);
		assert_non_null(text);
		check_rules(text, &a, hosts);
		free(text);
		hvd_alloc_clear(&a);
	}
}

/* ---- golden files ---- */

TEST(two_gpus_smt2_on_uneven_hosts)
{
	static const struct hvd_erf_host hosts[] = {{.cores = 20, .threads = 2, .sockets = 2, .gpus = 2},
						    {.cores = 7, .threads = 2, .sockets = 1, .gpus = 2},
						    {.cores = 1, .threads = 2, .sockets = 1, .gpus = 0}};

	expect(hosts, (const int[]){2, 2, 2}, 3,
	       "overlapping_rs: allow\n"
	       "cpu_index_using: logical\n"
	       "rank: 0: { hostname: h1; cpu: {0-19} ; gpu: * ; mem: * }\n"
	       "rank: 1: { hostname: h1; cpu: {20-39} ; gpu: * ; mem: * }\n"
	       "rank: 2: { hostname: h2; cpu: {0-7} ; gpu: * ; mem: * }\n"
	       "rank: 3: { hostname: h2; cpu: {8-13} ; gpu: * ; mem: * }\n"
	       "rank: 4: { hostname: h3; cpu: {0} ; mem: * }\n"
	       "rank: 5: { hostname: h3; cpu: {1} ; mem: * }\n");
}

/* Two sockets of 22 cores, one of each kept for the system. */
TEST(six_gpus_smt4_and_isolated_cores)
{
	static const struct hvd_erf_host hosts[] = {{.cores = 44 - 2, .threads = 4, .sockets = 2, .gpus = 6}};

	expect(hosts, (const int[]){6}, 1,
	       "overlapping_rs: allow\n"
	       "cpu_index_using: logical\n"
	       "rank: 0: { hostname: h1; cpu: {0-27} ; gpu: * ; mem: * }\n"
	       "rank: 1: { hostname: h1; cpu: {28-55} ; gpu: * ; mem: * }\n"
	       "rank: 2: { hostname: h1; cpu: {56-83} ; gpu: * ; mem: * }\n"
	       "rank: 3: { hostname: h1; cpu: {84-111} ; gpu: * ; mem: * }\n"
	       "rank: 4: { hostname: h1; cpu: {112-139} ; gpu: * ; mem: * }\n"
	       "rank: 5: { hostname: h1; cpu: {140-167} ; gpu: * ; mem: * }\n");
	/* Four ranks: 21 cores of a socket for two. None crosses over. */
	expect(hosts, (const int[]){4}, 1,
	       "overlapping_rs: allow\n"
	       "cpu_index_using: logical\n"
	       "rank: 0: { hostname: h1; cpu: {0-43} ; gpu: * ; mem: * }\n"
	       "rank: 1: { hostname: h1; cpu: {44-83} ; gpu: * ; mem: * }\n"
	       "rank: 2: { hostname: h1; cpu: {84-127} ; gpu: * ; mem: * }\n"
	       "rank: 3: { hostname: h1; cpu: {128-167} ; gpu: * ; mem: * }\n");
}

TEST(gpus_that_nobody_knows_of_may_be_missing)
{
	static const struct hvd_erf_host hosts[] = {{.cores = 2, .threads = 1, .gpus = -1}};

	expect(hosts, (const int[]){1}, 1,
	       "overlapping_rs: allow\n"
	       "cpu_index_using: logical\n"
	       "skip_missing_gpu: allow\n"
	       "rank: 0: { hostname: h1; cpu: {0-1} ; gpu: * ; mem: * }\n");
}

/* Three tasks for two ranks: the first has two of them. Cores need not be known. */
TEST(what_lsf_has_bound_is_kept)
{
	struct hvd_strv one = {0}, three = {0};
	struct hvd_erf_host hosts[] = {{.cores = -1, .threads = 0, .gpus = 1, .cpus = &one},
				       {.cores = -1, .threads = 0, .gpus = 1, .cpus = &three}};
	struct hvd_alloc a = with_ranks((const int[]){2, 1}, 2);

	hvd_strv_add(&one, "0,8");
	hvd_strv_add(&three, "0,1");
	hvd_strv_add(&three, "2,3");
	hvd_strv_add(&three, "16,17");
	assert_false(hvd_erf_bound(&a, hosts));
	hvd_alloc_clear(&a);
	expect(hosts, (const int[]){1, 2}, 2,
	       "overlapping_rs: allow\n"
	       "cpu_index_using: physical\n"
	       "rank: 0: { hostname: h1; cpu: {0,8} ; gpu: * ; mem: * }\n"
	       "rank: 1: { hostname: h2; cpu: {0,1,2,3} ; gpu: * ; mem: * }\n"
	       "rank: 2: { hostname: h2; cpu: {16,17} ; gpu: * ; mem: * }\n");
	hvd_strv_free(&one);
	hvd_strv_free(&three);
}

TEST(hosts_that_are_too_small_are_named)
{
	static const struct hvd_erf_host hosts[] = {{.cores = 4, .threads = 2, .gpus = 0},
						    {.cores = 2, .threads = 2, .gpus = 0}};
	static const struct hvd_erf_host unknown[] = {{.cores = -1, .threads = 4}};
	static const struct hvd_erf_host absurd[] = {{.cores = 2000000000, .threads = 4}};
	struct hvd_alloc a = with_ranks((const int[]){5, 5}, 2), b = with_ranks((const int[]){1}, 1);
	struct hvd_err err = {0};

	assert_null(hvd_erf_format(&a, hosts, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_string_equal(err.host, "h2");
	assert_in(err.msg, "2 cores with 2 hardware threads each, too few for 5 ranks");
	assert_null(hvd_erf_format(&b, unknown, &err));
	assert_in(err.msg, "is not known");
	assert_null(hvd_erf_format(&b, absurd, &err));
	hvd_alloc_clear(&a);
	hvd_alloc_clear(&b);
}

RUN_TESTS()
