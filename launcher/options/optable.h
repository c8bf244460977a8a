/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optable.h - command line options as data.
 *
 * One row per option drives everything that is known about it: how a command
 * line is read, what a value may be, where the value goes, which environment
 * variable and which configuration key stand in for it, what workers are told,
 * and what --help, the manual page and completion say. Nothing here knows a
 * single option by name.
 *
 * Rows belong to one of three families that share a command line: srun's, the
 * ones of horovodrun, and this program's own. A spelling that two families
 * have is read as the primary family has it (see hvd_optscan).
 */
#ifndef HVD_OPTABLE_H
#define HVD_OPTABLE_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>

enum hvd_opt_family {
	HVD_FAMILY_SRUN,
	HVD_FAMILY_HOROVOD,
	HVD_FAMILY_HVD,
};
#define HVD_FAMILIES 3

enum hvd_opt_arity {
	HVD_ARG_NONE,
	HVD_ARG_REQUIRED, /* --name VALUE, --name=VALUE, -xVALUE, -x VALUE */
	HVD_ARG_OPTIONAL, /* --name, --name=VALUE, -x, -xVALUE: never the next word */
	HVD_ARG_TWO,      /* --name A B, --name=A,B: stored as one value, "A B" or "A,B" */
};

/* What a value is, and what is at `at` in the result. */
enum hvd_opt_type {
	HVD_OPT_PASS,    /* nothing: the option is only handed on */
	HVD_OPT_FLAG,    /* bool; a value, if there is one, is not looked at on a command line */
	HVD_OPT_TRI,     /* int: -1 not given, 0 off, 1 on; `negate` rows turn it off */
	HVD_OPT_COUNT,   /* int: how often */
	HVD_OPT_INT,     /* int, min … max; -1 not given */
	HVD_OPT_FLOAT,   /* double, min … max; -1 not given */
	HVD_OPT_SECONDS, /* double; a number with an optional s, m or h; -1 not given */
	HVD_OPT_STRING,  /* char *, owned; NULL not given */
	HVD_OPT_LIST,    /* struct hvd_strv, comma-separated; repetitions join, each item once */
	HVD_OPT_ENUM,    /* int: index in `choices` */
	HVD_OPT_SET,     /* int: set to `number` */
};

/* How a stored value becomes the text of a worker's variable. */
enum hvd_opt_transform {
	HVD_AS_IS,
	HVD_AS_MIB,        /* × 1048576 */
	HVD_AS_BOOL,       /* 1 or 0 */
	HVD_AS_COMPLEMENT, /* 0 or 1 */
};

struct hvd_opt {
	const char *name; /* without dashes */
	const char *word; /* a spelling of several letters behind one dash ("np" for -np), or NULL */
	char letter;      /* or 0 */
	enum hvd_opt_family family;
	enum hvd_opt_arity arity;
	enum hvd_opt_type type;
	int group;        /* index of a title, for --help and the manual page */
	const char *arg;  /* what its value is called; NULL without one */
	const char *help; /* a sentence or two, without a full stop at the end */

	/* Storing. */
	size_t at;           /* offset in the result; rows with the same offset are the same thing */
	const char *choices; /* ENUM: "auto|srun|fork" */
	double min, max;     /* INT, FLOAT; max 0 = no bound beyond the type's */
	int number;          /* SET */
	bool negate;         /* TRI: gives 0 */
	/* A value that no type describes; `value` is NULL when there is none. Used instead of `type`'s
	 * own reading; returns -1 with err set for a value that is not acceptable. */
	int (*read)(void *result, const struct hvd_opt *o, const char *value, struct hvd_err *err);

	/* Reading a command line. */
	bool pass;           /* its words are handed on to srun */
	bool dash_value;     /* the value may begin with a dash even as a word of its own */
	const char *apart;   /* the value is a word of its own only if it is one of these ("pmi2|pmix"; a '*' at
			      * the end of one matches anything); otherwise --name=VALUE is needed */
	int since;           /* srun's release that first had it, 2302 for 23.02; 0 = 22.05 or before */
	int exclude;         /* rows with the same number, not 0, cannot be given together */
	bool hidden;         /* not in --help, never meant by an abbreviation */
	bool plugin;         /* added to srun by a plugin, so perhaps not there */
	const char *collide; /* a spelling that another family has too: what was decided, for the manual */

	/* Other sources, and what is done with the value. */
	const char *env;     /* variables that give it, "A,B": the first that is set */
	const char *def;     /* the default, read like a value; NULL = "not given" */
	const char *shown;   /* what --help calls the default when `def` does not say it */
	const char *config;  /* key path in a configuration file: "autotune.log_file" */
	const char *tunable; /* the variable of a worker that this becomes */
	enum hvd_opt_transform transform;
	const char *needs; /* the tunable has an effect only if this option is on */
};

struct hvd_opttable {
	const struct hvd_opt *rows;
	size_t n;
};

/* The tables of all families, and the titles of the groups. Rows are numbered through. */
struct hvd_optset {
	struct hvd_opttable family[HVD_FAMILIES];
	const char *const *titles; /* by hvd_opt.group */
	int n_titles;
};

size_t hvd_optset_count(const struct hvd_optset *set);
/* The row with that number; NULL beyond the last. */
const struct hvd_opt *hvd_optset_row(const struct hvd_optset *set, size_t i);
/* The first row with that long name, primary family first; NULL if there is none. *row may be NULL. */
const struct hvd_opt *hvd_optset_find(const struct hvd_optset *set, enum hvd_opt_family primary, const char *name,
				      size_t *row);
/* The row that a letter means, primary family first; NULL if there is none. */
const struct hvd_opt *hvd_optset_letter(const struct hvd_optset *set, enum hvd_opt_family primary, char letter);
/* The name that was perhaps meant by `name` (without dashes), or NULL. */
const char *hvd_optset_near(const struct hvd_optset *set, const char *name);

/*
 * Reading a command line, one option at a time, as getopt_long(3) does when it
 * stops at the first word that is no option: long options may be shortened
 * while they stay unique, letters may be clustered.
 *
 * The order in which a spelling is looked for:
 *   1. words behind one dash (-np), by their whole name;
 *   2. the exact name, primary family first; where two families have it, the one that can
 *      have been written that way (with or without "=VALUE");
 *   3. the beginning of names of the primary family. Options that srun has in every release come
 *      before those that only newer ones have, and those before options of plugins: what is
 *      unique for one release is left for that release to judge;
 *   4. the beginning of names of the other families.
 */
struct hvd_optscan {
	const struct hvd_optset *set;
	enum hvd_opt_family primary;
	int argc;
	char *const *argv;
	int next;            /* the word to read next; start with 1 */
	const char *cluster; /* what is left of a word of letters; start with NULL */
	bool dashdash;       /* options were ended by "--" */
};

struct hvd_opthit {
	const struct hvd_opt *opt;   /* NULL: no table has it */
	size_t row;                  /* its number */
	char spelled[64];            /* as it was written, with dashes, perhaps cut: for messages */
	const char *value;           /* or NULL */
	const char *value2;          /* HVD_ARG_TWO, the second; or NULL */
	int first, end;              /* its words: argv[first] … argv[end - 1] */
	bool word_begins, word_ends; /* first and last option of these words: both true but in clusters */
};

/* The next option: 1. No more: 0, and scan->next is the first word of the command, or argc. An error: -1. */
int hvd_optscan_next(struct hvd_optscan *scan, struct hvd_opthit *hit, struct hvd_err *err);

/* What srun gets of a word of letters of which some are not its own. Appended to *sv. */
void hvd_opthit_letter(const struct hvd_opthit *hit, struct hvd_strv *sv);

/* Store a value in `result`. `from` names the option or variable in messages. `value` NULL = without a value. */
int hvd_opt_store(void *result, const struct hvd_opt *o, const char *from, const char *value, struct hvd_err *err);
/* "Not given", where its type has such a value, and an empty list. Frees what was there. */
void hvd_opt_clear(void *result, const struct hvd_opt *o);
/* What is stored, as the text a worker gets; NULL when it is not given. Caller frees. */
char *hvd_opt_text(const void *result, const struct hvd_opt *o);
/* A number as srun and horovodrun read one: all of `s`, decimal. */
bool hvd_opt_int(const char *s, long long *out);

/* Text made from the tables; the caller frees it. A row that can never be meant, because the primary family has
 * its name or letter, is not in it. `families` is a set of 1 << family; `width` that of the terminal, in columns. */
char *hvd_opt_help(const struct hvd_optset *set, enum hvd_opt_family primary, unsigned families, int width);
/* .SS titles and .TP items for a man(7) page. */
char *hvd_opt_man(const struct hvd_optset *set, enum hvd_opt_family primary);
/* A line for each spelling: "--name", "none", "required", "optional" or "two", what the value is called, and the
 * choices with "|" between them; a tab between the fields. */
char *hvd_opt_completion(const struct hvd_optset *set, enum hvd_opt_family primary);

#endif
