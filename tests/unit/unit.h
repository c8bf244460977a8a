/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit.h - what the unit tests share: cmocka with what it needs, and a few checks. A program of tests fails if it ends
 * with more open descriptors than it had when it began.
 */
#ifndef HVD_TESTS_UNIT_H
#define HVD_TESTS_UNIT_H

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Callbacks and setups of tests need few of their arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* cmocka 2 warns of the name that older ones have. */
#ifndef assert_int_in_range
#define assert_int_in_range(value, least, most) assert_in_range(value, least, most)
#endif

/*
 * A test is TEST(name) { … }, with cmocka's `state`; TEST_IN(name, struct world *w) { … } has in `w` what the setup has
 * put into *state, and TEST_WITH(name, setup, teardown) { … } a setup and a teardown of its own. RUN_TESTS(…) at the end
 * of the file is its main(): it runs the tests in the order of the file, or only those whose name matches the pattern
 * HVD_TEST of the environment.
 */
static struct CMUnitTest unit_tests[128] __attribute__((unused));

#define TEST_WITH(name, setup, teardown)                                                                               \
	static void name(void **state);                                                                                \
	__attribute__((constructor)) static void add_##name(void)                                                      \
	{                                                                                                              \
		unit_tests[__COUNTER__] = (struct CMUnitTest){#name, name, setup, teardown, NULL};                     \
	}                                                                                                              \
	static void name(void **state)
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_IN(name, world)                                                                                           \
	static void name##_in(world);                                                                                  \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		name##_in(*state);                                                                                     \
	}                                                                                                              \
	static void name##_in(world)

/* A setup that makes the world of a test, all zero, and fills it; the teardown for it, after which it is freed. */
#define SETUP(name, type, world)                                                                                       \
	static inline void name##_of(type *world);                                                                     \
	static inline int name(void **state)                                                                           \
	{                                                                                                              \
		*state = calloc(1, sizeof(type));                                                                      \
		assert_non_null(*state);                                                                               \
		name##_of(*state);                                                                                     \
		return 0;                                                                                              \
	}                                                                                                              \
	static inline void name##_of(type *world)
#define TEARDOWN(name, type, world)                                                                                    \
	static inline void name##_of(type *world);                                                                     \
	static inline int name(void **state)                                                                           \
	{                                                                                                              \
		name##_of(*state);                                                                                     \
		free(*state);                                                                                          \
		return 0;                                                                                              \
	}                                                                                                              \
	static inline void name##_of(type *world)

/* Is `part` within `text`? Both are shown when it is not. */
static inline void in_text(const char *text, const char *part, const char *file, int line)
{
	if (text && strstr(text, part))
		return;
	print_error("\"%s\" is not within \"%s\"\n", part, text ? text : "(null)");
	_fail(file, line);
}
#define assert_in(text, part) in_text(text, part, __FILE__, __LINE__)

/* The call returns -1 and sets err, whose message has `part` within it; and whose code is `errc`. */
#define assert_fails(call, err, part)                                                                                  \
	do {                                                                                                           \
		assert_int_equal(call, -1);                                                                            \
		assert_in((err).msg, part);                                                                            \
	} while (0)
#define assert_fails_with(call, err, errc, part)                                                                       \
	do {                                                                                                           \
		assert_fails(call, err, part);                                                                         \
		assert_int_equal((err).code, errc);                                                                    \
	} while (0)

/* The call returns this text, which is freed. */
#define assert_text(call, want)                                                                                        \
	do {                                                                                                           \
		char *text_of_call = (call);                                                                           \
		assert_string_equal(text_of_call, want);                                                               \
		free(text_of_call);                                                                                    \
	} while (0)

/* Skip, with the reason that the runner shows. */
#define skip_because(...)                                                                                              \
	do {                                                                                                           \
		print_message("skip: " __VA_ARGS__);                                                                   \
		print_message("\n");                                                                                   \
		skip();                                                                                                \
	} while (0)

/* How many descriptors this process has open. */
static inline int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the directory itself */
}

/* What the open descriptors are, for a program that has left some open. */
static inline void print_fds(void)
{
	for (int fd = 0; fd < 1024; fd++) {
		char path[64], name[256];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n > 0)
			print_error("  %d: %.*s\n", fd, (int)n, name);
	}
}

/* Run the tests, and look for descriptors that they have left open. Returns how many tests have failed, and one more
 * with such a descriptor. */
static inline int run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
			    CMFixtureFunction teardown)
{
	const int before = open_fds(), failed = _cmocka_run_group_tests(name, tests, n, setup, teardown);
	int after = open_fds();

	/* A thread that was given up, as one in libmunge that waits for its daemon, may still be about to close its own. */
	for (int tries = 0; after > before && tries < 1000; tries++) {
		usleep(10000);
		after = open_fds();
	}
	if (after <= before)
		return failed;
	print_error("%d descriptors are open, %d were when the tests began:\n", after, before);
	print_fds();
	return failed + 1;
}
#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                                      \
	run_group(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)

struct test_hooks {
	bool none;                         /* so that RUN_TESTS() needs no hooks */
	bool no_sigpipe;                   /* as in programs that have connections */
	CMFixtureFunction setup, teardown; /* of each test that has none of its own */
	CMFixtureFunction group_setup, group_teardown;
	void *state; /* what setup finds in *state */
};

static inline int run_unit_tests(struct test_hooks hooks)
{
	for (size_t i = 0; i < sizeof(unit_tests) / sizeof(unit_tests[0]); i++) {
		struct CMUnitTest *test = &unit_tests[i];

		if (test->test_func && !test->setup_func && !test->teardown_func) {
			test->setup_func = hooks.setup;
			test->teardown_func = hooks.teardown;
		}
		test->initial_state = hooks.state;
	}
	if (hooks.no_sigpipe)
		signal(SIGPIPE, SIG_IGN);
	if (getenv("HVD_TEST"))
		cmocka_set_test_filter(getenv("HVD_TEST"));
	return cmocka_run_group_tests(unit_tests, hooks.group_setup, hooks.group_teardown);
}

/* The program takes no arguments. With some it was started by the code under test, which starts /proc/self/exe. */
#define RUN_TESTS(...)                                                                                                 \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		(void)argv;                                                                                            \
		if (argc > 1)                                                                                          \
			return 2;                                                                                      \
		return run_unit_tests((struct test_hooks){.none = true, __VA_ARGS__});                                 \
	}

/* The same numbers in every run: xorshift. */
static inline uint32_t dice(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* A file below `root`, with the folders that lead to it: a piece of /sys or /dev. */
static inline void make_file(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *f;

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(full, sizeof(full), "%s%.*s", root, (int)(slash - path), path);
		mkdir(full, 0700);
	}
	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* What tests have made below it, and the folder. For a teardown. */
static inline int remove_tree(const char *root)
{
	char rm[512];

	snprintf(rm, sizeof(rm), "rm -rf '%s'", root);
	return system(rm);
}

/* A child has the writing end of this pipe, and closes it when it is ready; so it is now, or it has ended. */
static inline void await_child(const int ready[2])
{
	char c;

	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 0);
	close(ready[0]);
}

#endif
