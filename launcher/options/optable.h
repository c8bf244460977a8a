/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optable.h - command line options as data.
 *
 * One row per option says everything about it: how it is spelled, which values
 * it takes, where the value is stored, which environment variable and which
 * configuration key give it as well, which variable of workers it becomes, and
 * what --help, the manual page and completion say. This file knows no option by
 * name.
 *
 * Rows belong to one of three families that share a command line: srun's,
 * horovodrun's, and hvdrun's own. A spelling that two families have is read as
 * the primary family has it (see struct hvd_optscan).
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
	HVD_ARG_OPTIONAL, /* --name, --name=VALUE, -x, -xVALUE; the next word is never its value */
	HVD_ARG_TWO,      /* --name A B, --name=A,B: stored as one value, "A B" or "A,B" */
};

/* What a value is, and which C type is stored at offset `at` of the result. */
enum hvd_opt_type {
	HVD_OPT_PASS,    /* nothing is stored: the option is only passed on */
	HVD_OPT_FLAG,    /* bool; on a command line it is on, whatever value it has */
	HVD_OPT_TRI,     /* int: -1 not given, 0 off, 1 on; `negate` rows turn it off */
	HVD_OPT_COUNT,   /* int: how often */
	HVD_OPT_INT,     /* int, min … max; -1 not given */
	HVD_OPT_FLOAT,   /* double, min … max; -1 not given */
	HVD_OPT_SECONDS, /* double; the text may end in s, m or h; -1 not given */
	HVD_OPT_STRING,  /* char *, owned; NULL not given */
	HVD_OPT_LIST,    /* struct hvd_strv; the text has commas; repeated options add to the list, each item once */
	HVD_OPT_ENUM,    /* int: index in `choices` */
	HVD_OPT_WORDS,   /* unsigned: some of `choices`, a bit each */
	HVD_OPT_SIGNAL,  /* struct hvd_signal_before: "USR1@300"; signal -1 not given */
	HVD_OPT_SET,     /* int: the option stores `number` */
};

/* Of a launch with several roles: whose option it is. */
enum hvd_opt_whose {
	HVD_OF_LAUNCH = 0, /* one value for all roles, so it is in front of the first ":" */
	HVD_OF_ROLE,       /* each role may have a value of its own */
	HVD_OF_ROLES_ONLY, /* the same, and it means nothing in a launch of one command */
};

/* How a stored value is written into a worker's variable. */
enum hvd_opt_transform {
	HVD_AS_IS,
	HVD_AS_MIB,        /* × 1048576 */
	HVD_AS_BOOL,       /* 1 or 0 */
	HVD_AS_COMPLEMENT, /* 0 or 1 */
};

#define HVD_OPT_SPELLING 64

struct hvd_opt {
	const char *name; /* without dashes */
	const char *word; /* several letters behind one dash ("np" for -np), or NULL */
	const char *aka;  /* names that users of other programs give it ("np|nproc"), for "did you mean"; or NULL */
	char letter;      /* or 0 */
	enum hvd_opt_family family;
	enum hvd_opt_arity arity;
	enum hvd_opt_type type;
	enum hvd_opt_whose whose;
	int group;        /* index of a title in --help and the manual page */
	const char *arg;  /* what its value is called; NULL without one */
	const char *help; /* a sentence that begins with a verb, without a full stop at the end */
	const char
		*more; /* what follows it, except in the short --help, without a full stop at the end; NULL: nothing */

	/* Storing. */
	size_t at; /* offset in the result; 0 = nothing is stored. Rows with one offset are spellings of one value */
	const char *choices; /* ENUM, WORDS: "auto|srun|fork" */
	double min, max;     /* INT, FLOAT; max 0 = no bound beyond the type's */
	int number;          /* SET */
	bool negate;         /* TRI: gives 0 */
	/* Reads a value that no type describes, in place of the type's own reader. `from` names its option or variable
	 * in messages; `value` is NULL when the option has none. -1 with err set for a value that is not acceptable. */
	int (*read)(void *result, const char *from, const char *value, struct hvd_err *err);

	/* Reading a command line. */
	bool pass;           /* srun gets the option's words */
	bool dash_value;     /* the next word is its value even if it begins with a dash */
	const char *apart;   /* the next word is its value only if it is one of these ("pmi2|pmix"; a '*' at the
			      * end of one matches anything); any other value needs --name=VALUE */
	int since;           /* the first release of srun with it, 2302 for 23.02; 0 = 22.05 or before */
	int exclude;         /* rows with the same number, which is not 0, exclude each other; so do TRI rows
			      * of one value, one of which turns it off, unless they are aliases */
	bool hidden;         /* not in --help, never meant by an abbreviation */
	bool alias;          /* not in --help: another spelling of a row */
	bool plugin;         /* a plugin adds it to srun, so srun may not have it */
	const char *collide; /* for the manual: the meaning of a spelling that another family has as well */

	/* Other sources of the value, and its use for workers. */
	const char *env;     /* environment variables, "A,B": the first that is set gives the value */
	const char *def;     /* the default, read like a value; NULL = "not given" */
	const char *shown;   /* the default in --help, if it is not `def` */
	const char *config;  /* key path in a configuration file: "autotune.log_file" */
	const char *tunable; /* the worker's variable that gets the value */
	enum hvd_opt_transform transform;
	const char *needs; /* the option without which this one has no effect */
	/* Why the option never has an effect; users get a note, or a warning if it is hidden. NULL: it has one. */
	const char *no_effect;
};

struct hvd_opttable {
	const struct hvd_opt *rows;
	size_t n;
};

/* The tables of the families, each in a file of its own. Rows are numbered through all tables. */
extern const struct hvd_opttable hvd_options_srun, hvd_options_horovod, hvd_options_hvd;

/* The row with that number; NULL beyond the last. The number of a row. */
const struct hvd_opt *hvd_opt_row(size_t i);
size_t hvd_opt_number(const struct hvd_opt *o);
/* The first row with that long name, or that letter, primary family first; NULL if there is none. */
const struct hvd_opt *hvd_opt_find(enum hvd_opt_family primary, const char *name);
const struct hvd_opt *hvd_opt_letter(enum hvd_opt_family primary, char letter);
/* The option that is spelled much like `name` (without dashes), or that users call so; NULL if there is none. */
const struct hvd_opt *hvd_opt_near(const char *name);
/* How the option is written: "-np", "--hosts". */
const char *hvd_opt_spelling(const struct hvd_opt *o, char buf[HVD_OPT_SPELLING]);

/*
 * Reads a command line, one option at a time, as getopt_long(3) does: parsing
 * stops at the first word that is not an option, long options may be abbreviated
 * as long as they stay unique, letters may be clustered.
 *
 * The order in which a spelling is looked for:
 *   1. words behind one dash (-np), by their whole name;
 *   2. the exact name, primary family first; where two families have the name, the one that
 *      can be written that way (with or without "=VALUE");
 *   3. the beginning of names of the primary family. Options that srun has in every release come
 *      before those that only newer releases have, and these before options of plugins, so that
 *      an abbreviation does not become ambiguous by an option that this srun may not have;
 *   4. the beginning of names of the other families.
 */
struct hvd_optscan {
	enum hvd_opt_family primary;
	int argc;
	char *const *argv;
	int next;            /* the word to read next; start with 1 */
	const char *cluster; /* what is left of a word of letters; start with NULL */
	bool dashdash;       /* options were ended by "--" */
};

struct hvd_opthit {
	const struct hvd_opt *opt; /* NULL: no table has it */
	char spelled[64];          /* for messages: as it was written, with dashes, perhaps cut */
	const char *value;         /* or NULL */
	const char *value2;        /* HVD_ARG_TWO, the second; or NULL */
	int first, end;            /* its words: argv[first] … argv[end - 1] */
	bool word_begins,
		word_ends; /* the first or last option of these words: both are true, except in clusters of letters */
};

/* The scan of a command line. The primary family is horovodrun's if its first word is horovodrun, else srun's. */
struct hvd_optscan hvd_optscan_begin(int argc, char *const *argv);
/* 1: `hit` is the next option. 0: there are no more, and scan->next is the first word of the command, or argc. -1 with
 * err set. */
int hvd_optscan_next(struct hvd_optscan *scan, struct hvd_opthit *hit, struct hvd_err *err);

/* Append to *sv the option's own words, of the command line that was scanned; of a cluster of letters only its letter. */
void hvd_opthit_words(const struct hvd_opthit *hit, char *const *argv, struct hvd_strv *sv);

/* Store a value in `result`. `from` names its option or variable in messages; `value` NULL: the option has no value. */
int hvd_opt_store(void *result, const struct hvd_opt *o, const char *from, const char *value, struct hvd_err *err);
/* Free what is stored, and store "not given", where the type has such a value, or an empty list. */
void hvd_opt_clear(void *result, const struct hvd_opt *o);
/* The stored value as a worker's variable has it; NULL when it is not given. The caller frees it. */
char *hvd_opt_text(const void *result, const struct hvd_opt *o);

#endif
