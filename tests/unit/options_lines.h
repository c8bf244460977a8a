/* SPDX-License-Identifier: Apache-2.0 */
/* options_lines.h - command lines written as one string, for the tests of options. */
#ifndef HVD_TEST_OPTIONS_LINES_H
#define HVD_TEST_OPTIONS_LINES_H

#include "launcher/options/options.h"
#include "lib/base/xalloc.h"
#include "unit.h"

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
