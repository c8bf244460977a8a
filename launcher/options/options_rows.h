/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_rows.h - what the three option tables share: the groups of --help, and
 * which options exclude each other. Only files of this folder include it.
 */
#ifndef HVD_OPTIONS_ROWS_H
#define HVD_OPTIONS_ROWS_H

#include "options.h"

/* The groups of options, in the order of --help. */
enum hvd_opt_group {
	HVD_G_RUN,
	HVD_G_HOSTS,
	HVD_G_ROLES,
	HVD_G_START,
	HVD_G_OUTPUT,
	HVD_G_FAILURE,
	HVD_G_ELASTIC,
	HVD_G_CONTROLLER,
	HVD_G_SSH,
	HVD_G_TUNE,
	HVD_G_AUTOTUNE,
	HVD_G_TIMELINE,
	HVD_G_STALL,
	HVD_G_LIBRARY,
	HVD_G_LOGGING,
	HVD_G_INFO,
	HVD_G_S_TASKS,
	HVD_G_S_NODES,
	HVD_G_S_RESOURCES,
	HVD_G_S_BINDING,
	HVD_G_S_IO,
	HVD_G_S_STEP,
	HVD_G_S_JOB,
	HVD_G_S_PLUGIN,
	HVD_GROUPS,
};

/* hvd_opt.exclude: options with the same value cannot be given together; nor can --X and --no-X. */
enum hvd_opt_exclusion {
	HVD_X_NONE,
	HVD_X_CONTROLLER,
	HVD_X_HOSTS,
};

#define HVD_AT(field) offsetof(struct hvd_options, field)

int hvd_options_read_frameworks(void *result, const char *from, const char *value, struct hvd_err *err);

/* The members of a row for each kind of lib/base/settings.def and of launcher_settings.def. */
#define HVD_ROW_VALUE(kind, hint)  .arity = HVD_ARG_REQUIRED, .type = HVD_OPT_##kind, .arg = hint
#define HVD_ROW_SECONDS(least)     HVD_ROW_VALUE(SECONDS, "SECONDS"), .min = least
#define HVD_ROW_RANGE(least, most) HVD_ROW_SECONDS(least), .max = most
#define HVD_ROW_NUMBER(most)       HVD_ROW_VALUE(INT, "NUMBER"), .max = most
#define HVD_ROW_CHOICE(words)      HVD_ROW_VALUE(ENUM, words), .choices = words
#define HVD_ROW_WORDS(words)       HVD_ROW_VALUE(WORDS, "LIST"), .choices = words
#define HVD_ROW_SIGNAL()           HVD_ROW_VALUE(SIGNAL, "SIGNAL@SECONDS")
#define HVD_ROW_INTERFACES()       HVD_ROW_VALUE(LIST, "LIST")
#define HVD_ROW_FRAMEWORKS()       HVD_ROW_VALUE(INT, "LIST|auto|none"), .read = hvd_options_read_frameworks
#define HVD_ROW_TEXT(word)         HVD_ROW_VALUE(STRING, word)
#define HVD_ROW_FLAG()             .arity = HVD_ARG_NONE, .type = HVD_OPT_FLAG
/* The row of a setting; `traits` are the members above. */
#define HVD_ROW(fam, field, option, of, g, traits, text)                                                               \
	.name = option, .family = HVD_FAMILY_##fam, .whose = HVD_OF_##of, .group = HVD_G_##g, .at = HVD_AT(field),     \
	.help = text, traits

/* Does this option of srun describe ranks, hosts or the job as a whole, so that it means nothing to a step on one of the
 * hosts? And does salloc know it? */
bool hvd_options_srun_of_ranks(const struct hvd_opt *row);
bool hvd_options_srun_of_salloc(const struct hvd_opt *row);

/* For an option that no table has, spelled with its two dashes: -1 with err set, which says what to write in place of the
 * whole command line, if it is one of another launcher (torchrun, accelerate, deepspeed); else 0. */
int hvd_options_elsewhere(const char *spelled, int argc, char *const *argv, struct hvd_err *err);
/* Does the option say how many ranks there are, or where? */
bool hvd_options_counts_ranks(const struct hvd_opt *opt);

#endif
