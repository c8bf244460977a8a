/* SPDX-License-Identifier: Apache-2.0 */
/* Host list expressions; where libslurm is installed, also that they mean what Slurm takes them for. */
#include "lib/base/hostlist.h"

#include "lib/base/size.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>

#define RANDOM_LISTS 40000
#define MOST_HOSTS   256

TEST(expressions_are_expanded)
{
	static const struct {
		const char *expr, *want;
	} good[] = {
		{"n1", "n1"},
		{"n[1-3]", "n1 n2 n3"},
		{"n[1-3],gpu07", "n1 n2 n3 gpu07"},
		{"n[08-11]", "n08 n09 n10 n11"},
		{"b,a,b", "b a b"},
		{"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"},
		{"n[2,1,5-6]", "n2 n1 n5 n6"},
		{"r[1-2].n[5-6]", "r1.n5 r1.n6 r2.n5 r2.n6"},
		{"node-a.example.org", "node-a.example.org"},
		{"a_1,1,2", "a_1 1 2"},
		{"n[8-11]", "n8 n9 n10 n11"},
		{"n[007,9-10]", "n007 n9 n10"},
		{"[1-2]", "1 2"},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct hvd_strv names = {0};
		struct hvd_err err = {0};

		hvd_strv_add(&names, "first");
		if (hvd_hostlist_expand(good[i].expr, 16, &names, &err) != 0)
			fail_msg("%s", err.msg);
		assert_string_equal(names.v[0], "first");
		assert_text(hvd_shell_join(names.v + 1), good[i].want);
		hvd_strv_free(&names);
	}
}

TEST(bad_expressions_are_refused)
{
	static const char *const bad[] = {"",
					  ",",
					  "a,",
					  ",a",
					  "a,,b",
					  "n[",
					  "n[1",
					  "n[1-",
					  "n[]",
					  "n]",
					  "n[1-2]]",
					  "n[[1]]",
					  "n[2-1]",
					  "n[a]",
					  "n[1-2,]",
					  "n[,1]",
					  "n 1",
					  "n\t1",
					  "n[1 -2]",
					  "a/b",
					  "a;b",
					  "n[1-2-3]",
					  "n[-1]",
					  "n[1x]",
					  "[1-3",
					  "\x80x",
					  "n{1,2}",
					  "n[0-99999999]",
					  "n[1-99999999999999999999999]",
					  "n[1-300]n[1-300]"};
	struct hvd_strv names = {0};
	char longname[400];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (hvd_hostlist_expand(bad[i], HVD_MAX_HOSTS, &names, NULL) == 0)
			fail_msg("'%s' was taken", bad[i]);
	memset(longname, 'a', sizeof(longname) - 1);
	longname[sizeof(longname) - 1] = '\0';
	assert_int_equal(hvd_hostlist_expand(longname, 16, &names, NULL), -1);
	assert_null(names.v);
}

TEST(long_expressions_are_refused)
{
	static const struct {
		const char *expr;
		size_t max, count; /* 0: refused */
	} cases[] = {
		{"n[1-17]", 16, 0},
		{"n[1-16]", 16, 16},
		{"n[1-9],n[1-8]", 16, 0},
		{"n[1-256]x[1-256]", HVD_MAX_HOSTS, 65536},
		{"n[1-65536]", HVD_MAX_HOSTS, 65536},
		{"n[1-65537]", 1000000, 0},
		{"n[1-256]x[1-256],a", HVD_MAX_HOSTS, 0},
		{"[1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9]", HVD_MAX_HOSTS, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hvd_strv names = {0};
		struct hvd_err err = {0};
		int rc = hvd_hostlist_expand(cases[i].expr, cases[i].max, &names, &err);

		assert_int_equal(rc, cases[i].count ? 0 : -1);
		assert_int_equal(names.n, cases[i].count);
		hvd_strv_free(&names);
	}
}

TEST(names_are_compressed)
{
	struct hvd_strv names = {0}, back = {0};
	char *text;

	for (int i = 1; i <= 300; i++)
		hvd_strv_addf(&names, "node%03d", i);
	hvd_strv_add(&names, "x");
	text = hvd_hostlist_compress(names.v, names.n);
	assert_string_equal(text, "node[001-300],x");
	assert_int_equal(hvd_hostlist_expand(text, 301, &back, NULL), 0);
	assert_int_equal(back.n, names.n);
	for (size_t i = 0; i < names.n; i++)
		assert_string_equal(names.v[i], back.v[i]);
	free(text);
	hvd_strv_free(&names);
	hvd_strv_free(&back);
	assert_text(hvd_hostlist_compress(NULL, 0), "");
}

TEST(neighbours_share_a_bracket)
{
	static const struct {
		const char *names[5], *want;
	} cases[] = {
		{{"n1"}, "n1"},
		{{"n1", "n3", "n2"}, "n[1,3,2]"},
		{{"n8", "n9", "n10", "n011"}, "n[8-10,011]"},
		{{"n09", "n10", "m11", "m12"}, "n[09-10],m[11-12]"},
		{{"n1", "n1"}, "n[1,1]"},
		{{"a1-ib", "a2-ib"}, "a1-ib,a2-ib"},
		{{"1", "2", "x"}, "[1-2],x"},
		{{"n999999999999999999", "n1000000000000000000"}, "n999999999999999999,n1000000000000000000"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n = 0;

		while (n < 5 && cases[i].names[n])
			n++;
		assert_text(hvd_hostlist_compress((char *const *)cases[i].names, n), cases[i].want);
	}
}

/* Nothing in common, and nothing shorter than the names: the widest text there is. */
TEST(incompressible_names_fit)
{
	struct hvd_strv names = {0};
	char *text;

	for (int i = 0; i < 500; i++)
		hvd_strv_addf(&names, "%c%d%c", 'a' + i % 26, i * 7919 % 1000, 'a' + i % 17);
	for (int i = 0; i < 500; i++)
		hvd_strv_addf(&names, "p%d", i * 2);
	text = hvd_hostlist_compress(names.v, names.n);
	assert_null(strstr(text, "..."));
	assert_non_null(strstr(text, "998"));
	free(text);
	hvd_strv_free(&names);
}

/* A character of `chars`. */
static char one_of(uint32_t *seed, const char *chars)
{
	return chars[dice(seed) % strlen(chars)];
}

/* Numbers and ranges, most of which ascend; some have leading zeros, some are too large. */
static void put_ranges(FILE *f, uint32_t *seed)
{
	for (uint32_t n = 1 + dice(seed) % 3; n > 0; n--) {
		unsigned lo = dice(seed) % (dice(seed) % 8 ? 120 : 200000), hi = lo + dice(seed) % 12;

		fprintf(f, "%0*u", (int)(dice(seed) % 4), lo);
		if (dice(seed) % 2)
			fprintf(f, "-%0*u", (int)(dice(seed) % 4), dice(seed) % 50 ? hi : dice(seed) % 200000);
		if (n > 1)
			fputc(',', f);
	}
}

/* A list of elements, each with up to four brackets; one list of sixteen has a character that does not belong. */
static char *random_list(uint32_t *seed)
{
	static const char plain[] = "abnrABZ0179-_.";
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	for (uint32_t n = 1 + dice(seed) % 4; n > 0; n--) {
		for (uint32_t parts = 1 + dice(seed) % 4; parts > 0; parts--) {
			for (uint32_t chars = dice(seed) % 4; chars > 0; chars--)
				fputc(one_of(seed, plain), f);
			if (dice(seed) % 4) {
				fputc('[', f);
				put_ranges(f, seed);
				fputc(']', f);
			}
		}
		if (n > 1)
			fputc(',', f);
	}
	assert_int_equal(fclose(f), 0);
	if (len && dice(seed) % 16 == 0)
		text[dice(seed) % len] = one_of(seed, "[]-,0x @:*?!");
	return text;
}

/* Does an element go on behind its last bracket? Slurm knows that since 23.02.5. */
static int has_suffix(const char *text)
{
	for (const char *p = text; (p = strchr(p, ']')); p++)
		if (p[1] && p[1] != ',' && p[1 + strcspn(p + 1, "[,")] != '[')
			return 1;
	return 0;
}
/* Slurm's own functions. NULL: libslurm-dev is not installed. */
struct libslurm {
	void *(*create)(const char *list);
	char *(*shift)(void *list);
	void (*destroy)(void *list);
};

static bool load(struct libslurm *lib)
{
	void *handle = dlopen("libslurm.so", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return false;
	*(void **)&lib->create = dlsym(handle, "slurm_hostlist_create");
	*(void **)&lib->shift = dlsym(handle, "slurm_hostlist_shift");
	*(void **)&lib->destroy = dlsym(handle, "slurm_hostlist_destroy");
	return lib->create && lib->shift && lib->destroy;
}

/* What hvd_hostlist_expand() takes libslurm takes as well, without ending the process, for the same names in the same
 * order; so it refuses all that libslurm refuses. */
TEST(slurm_finds_the_same_names)
{
	uint32_t seed = 20260501;
	size_t taken = 0, old = 0;
	struct libslurm lib = {0};

	if (!load(&lib))
		skip_because("libslurm.so is not installed");
	for (int i = 0; i < RANDOM_LISTS; i++) {
		struct hvd_strv names = {0};
		char *text = random_list(&seed), *name;
		void *list;

		if (hvd_hostlist_expand(text, MOST_HOSTS, &names, NULL) == 0) {
			list = lib.create(text);
			if (!list && !(has_suffix(text) && !lib.create("n[1]-ib")))
				fail_msg("libslurm refuses '%s'", text);
			list ? taken++ : old++;
			for (size_t n = 0; list && n < names.n; n++) {
				name = lib.shift(list);
				if (!name || strcmp(name, names.v[n]) != 0)
					fail_msg("'%s', name %zu: %s, and %s for libslurm", text, n, names.v[n], name);
				free(name);
			}
			if (list && (name = lib.shift(list)))
				fail_msg("'%s': libslurm finds %s besides", text, name);
			if (list)
				lib.destroy(list);
		}
		hvd_strv_free(&names);
		free(text);
	}
	print_message("%zu of %d random lists are valid, %zu more in later releases of Slurm\n", taken, RANDOM_LISTS,
		      old);
	assert_true(taken > RANDOM_LISTS / 8);
}

RUN_TESTS()
