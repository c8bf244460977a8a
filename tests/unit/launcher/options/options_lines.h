/* SPDX-License-Identifier: Apache-2.0 */
/* options_lines.h - command lines written as one string, for the tests of options. */
#ifndef HVD_TEST_OPTIONS_LINES_H
#define HVD_TEST_OPTIONS_LINES_H

#include "launcher/options/options.h"
#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

/* A command line split at spaces; "''" is an empty word. */
static inline void split(const char *line, struct hvd_strv *out)
{
	char *copy = hvd_xstrdup(line), *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		hvd_strv_add(out, strcmp(w, "''") == 0 ? "" : w);
	free(copy);
}

static inline void assert_words(const struct hvd_strv *sv, const char *expected)
{
	struct hvd_strv want = {0};

	split(expected, &want);
	for (size_t i = 0; i < want.n && i < sv->n; i++)
		assert_string_equal(sv->v[i], want.v[i]);
	assert_int_equal(sv->n, want.n);
	hvd_strv_free(&want);
}

static inline int load_env(struct hvd_options *o, const char *line, char *const *envp, struct hvd_err *err)
{
	struct hvd_strv argv = {0};
	int rc;

	*err = (struct hvd_err){0};
	split(line, &argv);
	rc = hvd_options_load(o, (int)argv.n, argv.v, envp, err);
	hvd_strv_free(&argv);
	return rc;
}

static inline void ok(struct hvd_options *o, const char *line)
{
	struct hvd_err err;

	if (load_env(o, line, NULL, &err))
		fail_msg("%s: %s", line, err.msg);
}

/* The n-th of "a|b|c". */
static inline const char *nth_choice(const char *choices, int n, char *text, size_t size)
{
	while (n-- > 0 && choices)
		choices = strchr(choices, '|') ? strchr(choices, '|') + 1 : NULL;
	snprintf(text, size, "%.*s", choices ? (int)strcspn(choices, "|") : 1, choices ? choices : "-");
	return text;
}

/* The value of the option `name`, as one would write it; "-" if it has none. */
static inline void value_of(const struct hvd_options *o, const char *name, char *text, size_t size)
{
	const struct hvd_opt *row = hvd_opt_find(HVD_FAMILY_SRUN, name);
	const void *at;
	size_t len = 0;

	if (!row || !row->at)
		fail_msg("no option %s has a value", name);
	at = (const char *)o + row->at;
	switch (row->type) {
	case HVD_OPT_FLAG:
		snprintf(text, size, "%d", *(const bool *)at);
		return;
	case HVD_OPT_FLOAT:
	case HVD_OPT_SECONDS:
		snprintf(text, size, "%g", *(const double *)at);
		return;
	case HVD_OPT_STRING:
		snprintf(text, size, "%s", *(char *const *)at ? *(char *const *)at : "-");
		return;
	case HVD_OPT_ENUM:
		nth_choice(row->choices, *(const int *)at, text, size);
		return;
	case HVD_OPT_LIST:
		*text = '\0';
		for (const struct hvd_strv *list = at; list->v && list->v[len]; len++)
			snprintf(text + strlen(text), size - strlen(text), "%s%s", len ? "," : "", list->v[len]);
		return;
	case HVD_OPT_WORDS:
		*text = '\0';
		for (int i = 0; i < 32; i++) {
			char word[64];

			if (*(const unsigned *)at >> i & 1U)
				snprintf(text + strlen(text), size - strlen(text), "%s%s", *text ? "," : "",
					 nth_choice(row->choices, i, word, sizeof(word)));
		}
		return;
	default:
		snprintf(text, size, "%d", *(const int *)at);
	}
}

/* These options have these values: "ntasks=8 label=1". */
static inline void assert_values(const struct hvd_options *o, const char *expected)
{
	struct hvd_strv want = {0};

	split(expected, &want);
	for (size_t i = 0; i < want.n; i++) {
		char *equals = strchr(want.v[i], '='), text[256];

		*equals = '\0';
		value_of(o, want.v[i], text, sizeof(text));
		if (strcmp(text, equals + 1) != 0)
			fail_msg("--%s is \"%s\", not \"%s\"", want.v[i], text, equals + 1);
	}
	hvd_strv_free(&want);
}

/* A command line gives options these values. */
static inline void values(const char *line, const char *expected)
{
	struct hvd_options o;

	ok(&o, line);
	assert_values(&o, expected);
	hvd_options_free(&o);
}

/* A command line is one of those that start nothing, or hold something else to be done first. */
static inline void acts(const char *line, int action)
{
	struct hvd_options o;

	ok(&o, line);
	assert_int_equal(o.action, action);
	hvd_options_free(&o);
}

/* Must be refused with this in the message and that in the hint. */
static inline void refused(const char *line, const char *msg, const char *hint)
{
	struct hvd_options o;
	struct hvd_err err;

	if (load_env(&o, line, NULL, &err) == 0)
		fail_msg("accepted: %s", line);
	assert_int_equal(err.code, HVD_E_USAGE);
	if (!strstr(err.msg, msg))
		fail_msg("%s: \"%s\" does not say \"%s\"", line, err.msg, msg);
	if (!strstr(err.hint, hint))
		fail_msg("%s: \"%s\" does not hint \"%s\"", line, err.hint, hint);
	hvd_options_free(&o);
}

/* What srun gets and what is left as the command. */
static inline void parts(const char *line, const char *srun_args, const char *command)
{
	struct hvd_options o;

	ok(&o, line);
	assert_words(&o.srun_args, srun_args);
	assert_words(&o.command, command);
	hvd_options_free(&o);
}

#endif
