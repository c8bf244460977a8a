/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/values.h"

#include "tests/unit/unit.h"

static void refused(int rc, const struct hvd_err *err, const char *msg, const char *hint)
{
	assert_int_equal(rc, -1);
	assert_int_equal(err->code, HVD_E_USAGE);
	assert_string_equal(err->msg, msg);
	if (!strstr(err->hint, hint))
		fail_msg("no '%s' in: %s", hint, err->hint);
}

TEST(test_numbers)
{
	static const char *const bad[] = {"", " 1", "1 ", "0x10", "inf", "nan", "1e999", "one", "--1"};
	struct hvd_err err;
	double d = 7;

	assert_int_equal(hvd_value_number("option --x", "-1.5e1", -20, 0, &d, &err), 0);
	assert_true(d < -14.9 && d > -15.1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_value_number("option --x", bad[i], 0, 0, &d, &err), -1);
	assert_true(d < -14.9 && d > -15.1); /* as it was */
	refused(hvd_value_number("option --x", "9", 1, 8, &d, &err), &err, "option --x: \"9\" is out of range",
		"from 1 to 8");
	refused(hvd_value_number("option --x", "0", 1, 0, &d, &err), &err, "option --x: \"0\" is out of range",
		"at least 1");
}

TEST(test_whole_numbers)
{
	static const char *const bad[] = {"", "-", " 1", "1 ", "1.5", "1e2", "0x10", "one"};
	struct hvd_err err;
	int n = 7;

	assert_int_equal(hvd_value_int("option --x", "-12", -20, 0, &n, &err), 0);
	assert_int_equal(n, -12);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_value_int("option --x", bad[i], 0, 0, &n, &err), -1);
	refused(-1, &err, "option --x: \"one\" is not a whole number", "");
	refused(hvd_value_int("option --x", "2147483648", 1, 0, &n, &err), &err,
		"option --x: \"2147483648\" is out of range", "at least 1");
	refused(hvd_value_int("option --x", "9", 1, 8, &n, &err), &err, "option --x: \"9\" is out of range",
		"from 1 to 8");
	assert_int_equal(n, -12); /* as it was */
}

TEST(test_seconds)
{
	static const struct {
		const char *text;
		double seconds;
	} good[] = {{"30", 30}, {"30s", 30}, {"1.5m", 90}, {"2h", 7200}, {".5", .5}};
	static const char *const bad[] = {"m", "2 m", "2ms", "2d", "soon", "1e308h"};
	struct hvd_err err;
	double d;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(hvd_value_seconds("x", good[i].text, 0.001, 0, &d, &err), 0);
		assert_true(d > good[i].seconds * 0.999 && d < good[i].seconds * 1.001);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_value_seconds("x", bad[i], 0, 0, &d, NULL), -1);
	refused(hvd_value_seconds("variable T", "soon", 0, 0, &d, &err), &err,
		"variable T: \"soon\" is not a number of seconds", "2m");
}

TEST(test_choices)
{
	struct hvd_err err;
	int n = 7;

	assert_int_equal(hvd_value_choice("x", "QUICK", "off|quick|full", &n, &err), 0);
	assert_int_equal(n, 1);
	refused(hvd_value_choice("x", "quic", "off|quick|full", &n, &err), &err, "x: \"quic\" is not known",
		"off|quick|full");
	assert_int_equal(hvd_value_choice("x", "", "off|quick|full", &n, NULL), -1);
	assert_int_equal(n, 1);
	assert_int_equal(hvd_value_index("a|b", "a|b"), -1);
}

TEST(test_lists)
{
	static const char *const bad[] = {"", ",", ",a", "a,", "a,,b"};
	struct hvd_strv list = {0};
	struct hvd_err err;

	assert_int_equal(hvd_value_list("x", "a,b,a", &list, &err), 0);
	assert_int_equal(hvd_value_list("x", "b,c", &list, &err), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_value_list("x", bad[i], &list, &err), -1);
	refused(-1, &err, "x: \"a,,b\" is not a list", "commas");
	assert_int_equal(list.n, 3);
	assert_string_equal(list.v[2], "c");
	hvd_strv_free(&list);
}

TEST(test_sets)
{
	struct hvd_err err;
	unsigned set = 8;

	assert_int_equal(hvd_value_set("x", "c,A", "a|b|c", &set, &err), 0);
	assert_int_equal(set, 5);
	assert_int_equal(hvd_value_set("x", "None", "a|b|c", &set, &err), 0);
	assert_int_equal(set, 0);
	set = 8;
	refused(hvd_value_set("x", "a,none", "a|b|c", &set, &err), &err, "x: \"none\" is not known", "some of a|b|c");
	refused(hvd_value_set("x", "", "a|b|c", &set, &err), &err, "x: \"\" is not a list", "commas");
	assert_int_equal(set, 8);
}

TEST(test_signals)
{
	static const char *const bad[] = {"USR1", "USR1@", "@5",    "NONE@5", "0@5",
					  "32@5", "64@5",  "SIG@5", "USR1@0", "USR1@x"};
	struct hvd_err err;
	double seconds = 0;
	int sig = 0;

	assert_int_equal(hvd_value_signal_before("x", "USR1@300", &sig, &seconds, &err), 0);
	assert_int_equal(sig, SIGUSR1);
	assert_true(seconds > 299 && seconds < 301);
	assert_int_equal(hvd_value_signal_before("x", "sigterm@2m", &sig, &seconds, &err), 0);
	assert_int_equal(sig, SIGTERM);
	assert_true(seconds > 119 && seconds < 121);
	assert_int_equal(hvd_value_signal_before("x", "12@1", &sig, &seconds, &err), 0);
	assert_int_equal(sig, 12);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_value_signal_before("x", bad[i], &sig, &seconds, &err), -1);
	assert_int_equal(sig, 12);
	refused(hvd_value_signal_before("x", "USR3@300", &sig, &seconds, &err), &err, "x: \"USR3\" is no signal",
		"USR1@300");
}

TEST(test_texts)
{
	struct hvd_err err;

	assert_int_equal(hvd_value_text("x", "a", &err), 0);
	refused(hvd_value_text("x", "", &err), &err, "x: the value is empty", "leave the option out");
}

RUN_TESTS()
