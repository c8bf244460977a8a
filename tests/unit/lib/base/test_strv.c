/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/deadline.h"
#include "lib/base/strv.h"

#include "tests/unit/unit.h"

#include <limits.h>
#include <math.h>

TEST(grows_and_stays_terminated)
{
	struct hvd_strv sv = {0};
	char *more[] = {(char *)"x", (char *)"y", NULL};

	for (int i = 0; i < 1000; i++) {
		hvd_strv_addf(&sv, "%d", i);
		assert_int_equal(sv.n, i + 1);
		assert_null(sv.v[sv.n]);
	}
	for (int i = 0; i < 1000; i++)
		assert_int_equal(atoi(sv.v[i]), i);
	hvd_strv_add_all(&sv, more);
	hvd_strv_add_all(&sv, NULL);
	assert_int_equal(sv.n, 1002);
	assert_string_equal(sv.v[1001], "y");
	assert_ptr_not_equal(sv.v[1001], more[1]);
	assert_true(hvd_strv_has(&sv, "0"));
	assert_true(hvd_strv_has(&sv, "y"));
	assert_false(hvd_strv_has(&sv, "1000"));
	hvd_strv_free(&sv);
	assert_false(hvd_strv_has(&sv, "y"));
	assert_int_equal(sv.n, 0);
	assert_null(sv.v);
	hvd_strv_free(&sv);
	hvd_strv_free(NULL);
}

TEST(environment)
{
	struct hvd_strv env = {0};

	assert_null(hvd_env_get(&env, "A"));
	hvd_env_unset(&env, "A");
	hvd_strv_add(&env, "AB=1");
	hvd_strv_add(&env, "A=2");
	hvd_strv_add(&env, "A=3");
	hvd_strv_add(&env, "no assignment");
	assert_string_equal(hvd_env_get(&env, "A"), "2");
	assert_string_equal(hvd_env_get(&env, "AB"), "1");
	assert_null(hvd_env_get(&env, "no assignment"));
	hvd_env_set(&env, "AB", "a=b");
	assert_string_equal(hvd_env_get(&env, "AB"), "a=b");
	hvd_env_setf(&env, "C", "%d%%", 5);
	assert_string_equal(hvd_env_get(&env, "C"), "5%");
	assert_int_equal(env.n, 5);
	hvd_env_unset(&env, "A"); /* both of them */
	assert_null(hvd_env_get(&env, "A"));
	assert_int_equal(env.n, 3);
	assert_null(env.v[3]);
	assert_string_equal(env.v[0], "AB=a=b");
	hvd_env_set(&env, "EMPTY", "");
	assert_string_equal(hvd_env_get(&env, "EMPTY"), "");
	hvd_strv_free(&env);
}

/* What the shell makes of it is what went in. */
static void round_trip(const char *word)
{
	char *argv[] = {(char *)"printf", (char *)"%s.", (char *)word, NULL};
	char *line = hvd_shell_join(argv);
	char back[512];
	FILE *p = popen(line, "r");
	size_t n;

	assert_non_null(p);
	n = fread(back, 1, sizeof(back) - 1, p);
	back[n] = '\0';
	assert_int_equal(pclose(p), 0);
	assert_true(n > 0 && back[n - 1] == '.');
	back[n - 1] = '\0';
	assert_string_equal(back, word);
	free(line);
}

TEST(quoting_through_the_shell)
{
	static const char *const words[] = {
		"",    "plain", "a b",        "'",  "''",   "a'b'c", "$HOME",   "`id`",   "$(id)",   "\\",
		"\\n", "\"",    "*",          "?",  "~",    "~root", "#no",     "a;b",    "a&b",     "a|b",
		"<x>", "(x)",   "{a,b}",      "!!", "a\nb", "\t",    "\n",      "[a-z]*", "--x=y z", "é ü",
		"a=b", "%s",    "x y'z\"w\\", "&&", "-n",   "^x",    "a,b:c@d",
	};
	uint32_t seed = 12345;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		round_trip(words[i]);
	for (int i = 0; i < 60; i++) {
		char word[24];
		size_t len = dice(&seed) % (sizeof(word) - 1);

		for (size_t k = 0; k < len; k++)
			word[k] = (char)(1 + dice(&seed) % 126);
		word[len] = '\0';
		round_trip(word);
	}
}

TEST(plain_words_are_left_alone)
{
	char *argv[] = {(char *)"srun", (char *)"-N4", (char *)"--x=a,b", (char *)"it's", (char *)"", NULL};
	char *line = hvd_shell_join(argv), *none = hvd_shell_join(NULL);

	assert_string_equal(line, "srun -N4 --x=a,b 'it'\\''s' ''");
	assert_string_equal(none, "");
	free(line);
	free(none);
}

/* ---- deadline ---- */

TEST(deadlines)
{
	hvd_time before = hvd_now(), soon = hvd_deadline_in(100), after = hvd_now();
	struct timeval tv;

	assert_true(before <= after);
	assert_true(soon >= before + INT64_C(100000000000) && soon <= after + INT64_C(100000000000));
	assert_true(hvd_left(soon) > 0 && hvd_left(soon) <= 100);
	assert_true(hvd_left_ms(soon) > 0 && hvd_left_ms(soon) <= 100000);
	tv = hvd_left_tv(soon);
	assert_true(tv.tv_sec >= 0 && tv.tv_sec <= 100 && tv.tv_usec >= 0 && tv.tv_usec < 1000000);
	assert_true(hvd_earlier(before, soon) == before && hvd_earlier(soon, before) == before);
}

TEST(passed_deadlines)
{
	hvd_time past = hvd_now() - 1;
	struct timeval tv = hvd_left_tv(past);

	assert_true(hvd_left(past) == 0);
	assert_int_equal(hvd_left_ms(past), 0);
	assert_true(tv.tv_sec == 0 && tv.tv_usec == 0);
	assert_true(hvd_left(hvd_deadline_in(-5)) == 0);
	assert_true(hvd_left(hvd_deadline_in(0)) == 0);
	assert_true(hvd_left(hvd_deadline_in(NAN)) == 0);
}

/* A poll of 0 ms would spin where less than a millisecond is left. */
TEST(milliseconds_are_rounded_up)
{
	bool seen = false;

	for (int i = 0; i < 100000 && !seen; i++) {
		hvd_time end = hvd_now() + 900000;
		int ms = hvd_left_ms(end);

		if (hvd_now() < end) {
			assert_int_equal(ms, 1);
			seen = true;
		}
	}
	assert_true(seen);
	assert_int_equal(hvd_left_ms(hvd_deadline_in(1e300)), INT_MAX);
	assert_true(hvd_deadline_in(INFINITY) > hvd_now());
}

RUN_TESTS()
