/* SPDX-License-Identifier: Apache-2.0 */
/* optscan.c - finds the options in a command line, and their rows in the tables. optable.h has the rules. */
#include "lib/base/xalloc.h"
#include "optable.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hvd_opttable *const families[HVD_FAMILIES] = {
	[HVD_FAMILY_SRUN] = &hvd_options_srun,
	[HVD_FAMILY_HOROVOD] = &hvd_options_horovod,
	[HVD_FAMILY_HVD] = &hvd_options_hvd,
};

/* The i-th row in the order of search: those of the primary family, then those of the others as they are numbered. */
static const struct hvd_opt *searched(enum hvd_opt_family primary, size_t i)
{
	for (int f = 0; f < HVD_FAMILIES; f++) {
		const struct hvd_opttable *t = families[f == 0 ? (int)primary : f <= (int)primary ? f - 1 : f];

		if (i < t->n)
			return &t->rows[i];
		i -= t->n;
	}
	return NULL;
}

const struct hvd_opt *hvd_opt_row(size_t i)
{
	return searched(0, i);
}

size_t hvd_opt_number(const struct hvd_opt *o)
{
	size_t base = 0;

	for (int f = 0; f < (int)o->family; f++)
		base += families[f]->n;
	return base + (size_t)(o - families[o->family]->rows);
}

const struct hvd_opt *hvd_opt_find(enum hvd_opt_family primary, const char *name)
{
	const struct hvd_opt *o;

	for (size_t i = 0; (o = searched(primary, i)); i++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

const struct hvd_opt *hvd_opt_letter(enum hvd_opt_family primary, char letter)
{
	const struct hvd_opt *o;

	for (size_t i = 0; (o = searched(primary, i)); i++)
		if (o->letter == letter)
			return o;
	return NULL;
}

/* How many letters to add, remove, change or swap with their neighbour to make `b` of `a`. Names of more than MOST
 * letters are MOST apart. */
static size_t distance(const char *a, const char *b)
{
	enum {
		MOST = 48
	};
	size_t rows[3][MOST + 1], n = strlen(a), m = strlen(b);
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	if (n > MOST || m > MOST)
		return MOST;
	for (size_t j = 0; j <= m; j++)
		last[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);

			d = last[j] + 1 < d ? last[j] + 1 : d;
			d = now[j - 1] + 1 < d ? now[j - 1] + 1 : d;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < d)
				d = before[j - 2] + 1;
			now[j] = d;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[m];
}

/* Is `s` one of "a|b*|c"? */
static bool matches(const char *patterns, const char *s)
{
	while (*patterns) {
		size_t n = strcspn(patterns, "|");

		if (n && patterns[n - 1] == '*' ? strncmp(s, patterns, n - 1) == 0
						: strlen(s) == n && strncmp(s, patterns, n) == 0)
			return true;
		patterns += n + (patterns[n] == '|');
	}
	return false;
}

const struct hvd_opt *hvd_opt_near(const char *name)
{
	const struct hvd_opt *o, *best = NULL;
	size_t least = strlen(name) / 4 + 1, d;
	char dashed[64];

	snprintf(dashed, sizeof(dashed), "%s", name);
	for (char *c = dashed; *c; c++)
		*c = *c == '_' ? '-' : *c;
	for (size_t i = 0; (o = hvd_opt_row(i)); i++) {
		if (o->hidden)
			continue;
		if ((o->word && strcmp(o->word, dashed) == 0) || (o->aka && matches(o->aka, dashed)))
			return o;
		d = distance(dashed, o->name);
		if ((d || strcmp(dashed, name) != 0) && d <= least && (!best || d < distance(dashed, best->name)))
			best = o;
	}
	return best;
}

const char *hvd_opt_spelling(const struct hvd_opt *o, char buf[HVD_OPT_SPELLING])
{
	snprintf(buf, HVD_OPT_SPELLING, "%s%s", o->word ? "-" : "--", o->word ? o->word : o->name);
	return buf;
}

/* Can the option be written like this? */
static bool fits(const struct hvd_opt *o, bool equals, const char *next)
{
	if (equals)
		return o->arity != HVD_ARG_NONE;
	return !o->apart || (next && matches(o->apart, next));
}

struct name {
	const char *s;
	size_t len;
	bool equals;      /* "=VALUE" follows */
	const char *next; /* the next word, or NULL */
};

static const struct hvd_opt *exact(const struct hvd_optscan *scan, const struct name *nm)
{
	const struct hvd_opt *o, *unfit = NULL;

	for (size_t i = 0; (o = searched(scan->primary, i)); i++) {
		if (strncmp(o->name, nm->s, nm->len) != 0 || o->name[nm->len])
			continue;
		if (fits(o, nm->equals, nm->next))
			return o;
		if (!unfit)
			unfit = o;
	}
	return unfit;
}

static int tier(const struct hvd_opt *o)
{
	return o->plugin ? 2 : o->since ? 1 : 0;
}

/* Do both rows do the same? Then an abbreviation of both is not ambiguous. */
static bool same(const struct hvd_opt *a, const struct hvd_opt *b)
{
	return a->at && a->at == b->at && a->type == b->type && a->arity == b->arity && a->negate == b->negate &&
	       a->number == b->number && a->pass == b->pass;
}

/* Look for names that begin with `nm`, in the primary family or in the others, and in this tier. 1: *found is one; 0:
 * there is none; -1 with err set: several, which differ. */
static int beginning(const struct hvd_optscan *scan, const struct name *nm, bool others, int level,
		     const struct hvd_opt **found, struct hvd_err *err)
{
	const struct hvd_opt *o;
	char list[256] = "";
	size_t used = 0;
	bool several = false;

	*found = NULL;
	for (size_t i = 0; (o = searched(scan->primary, i)); i++) {
		if ((o->family != scan->primary) != others || o->hidden || tier(o) != level ||
		    strncmp(o->name, nm->s, nm->len) != 0 || (o->apart && !fits(o, nm->equals, nm->next)))
			continue;
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s--%s", used ? ", " : "", o->name);
		if (!*found)
			*found = o;
		else
			several = several || !same(*found, o);
	}
	if (!several)
		return *found ? 1 : 0;
	hvd_err_set(err, HVD_E_USAGE, "option --%.*s is ambiguous", (int)(nm->len < 64 ? nm->len : 64), nm->s);
	return hvd_err_hint(err, "it may be short for %s%s", list, used >= sizeof(list) ? "…" : "");
}

/* 1: *found is the row; 0: there is none; -1 with err set: it is ambiguous. */
static int find_long(const struct hvd_optscan *scan, const struct name *nm, const struct hvd_opt **found,
		     struct hvd_err *err)
{
	int rc = 0;

	*found = exact(scan, nm);
	if (*found)
		return 1;
	for (int step = 0; step < 6 && rc == 0; step++)
		rc = beginning(scan, nm, step >= 3, step % 3, found, err);
	return rc;
}

/* The row of a word behind one dash: "-np", "-np=4", "-np4". NULL: none. */
static const struct hvd_opt *find_word(const char *s, const char **value)
{
	const struct hvd_opt *o;

	for (size_t i = 0; (o = hvd_opt_row(i)); i++) {
		size_t n = o->word ? strlen(o->word) : 0;

		if (!n || strncmp(s, o->word, n) != 0)
			continue;
		*value = s[n] == '=' ? s + n + 1 : s + n;
		if (!s[n]) {
			*value = NULL;
			return o;
		}
		if (s[n] == '=' || (o->type == HVD_OPT_INT && isdigit((unsigned char)s[n])))
			return o;
	}
	return NULL;
}

static const char *word_after(const struct hvd_optscan *scan, int i)
{
	return i + 1 < scan->argc ? scan->argv[i + 1] : NULL;
}

/* Take values that are separate words. Only an option of srun may take a word that looks like an option, since only
 * srun knows whether it is one. */
static int take_words(struct hvd_optscan *scan, struct hvd_opthit *hit, struct hvd_err *err)
{
	int wanted = hit->opt->arity == HVD_ARG_TWO ? 2 : hit->opt->arity == HVD_ARG_REQUIRED ? 1 : 0;
	const char **slot[] = {&hit->value, &hit->value2};

	if (hit->value)
		return 0;
	for (int i = 0; i < wanted; i++) {
		const char *w = scan->next < scan->argc ? scan->argv[scan->next] : NULL;

		if (!w) {
			hvd_err_set(err, HVD_E_USAGE, "option %s needs %s", hit->spelled,
				    wanted == 2 ? "two values" : "a value");
			return hvd_err_hint(err, "write %s %s", hit->spelled, hit->opt->arg ? hit->opt->arg : "VALUE");
		}
		if (hit->opt->family != HVD_FAMILY_SRUN && !hit->opt->dash_value && w[0] == '-' && w[1] &&
		    !isdigit((unsigned char)w[1]) && w[1] != '.') {
			hvd_err_set(err, HVD_E_USAGE, "option %s needs %s, but %.100s follows", hit->spelled,
				    wanted == 2 ? "two values" : "a value", w);
			return hvd_err_hint(err, "if that is its value, write --%s=%.100s", hit->opt->name, w);
		}
		*slot[i] = w;
		hit->end = ++scan->next;
	}
	return 0;
}

static int one_long(struct hvd_optscan *scan, struct hvd_opthit *hit, struct hvd_err *err)
{
	const char *word = scan->argv[scan->next];
	const char *eq = strchr(word, '=');
	struct name nm = {.s = word + 2,
			  .len = eq ? (size_t)(eq - word) - 2 : strlen(word) - 2,
			  .equals = eq != NULL,
			  .next = word_after(scan, scan->next)};

	snprintf(hit->spelled, sizeof(hit->spelled), "%.*s", (int)(nm.len < 60 ? nm.len + 2 : 60), word);
	/* The empty name of "--=x" would be an abbreviation of every option. */
	if (!nm.len) {
		hvd_err_set(err, HVD_E_USAGE, "\"%.100s\" is not an option", word);
		return hvd_err_hint(err, "to run a command of that name put -- in front of it");
	}
	if (find_long(scan, &nm, &hit->opt, err) < 0)
		return -1;
	hit->word_begins = hit->word_ends = true;
	hit->end = ++scan->next;
	hit->value = eq ? eq + 1 : NULL;
	if (!hit->opt)
		return 1;
	if (eq && hit->opt->arity == HVD_ARG_NONE) {
		hvd_err_set(err, HVD_E_USAGE, "option %s takes no value, \"%.100s\" was given", hit->spelled, eq + 1);
		return hvd_err_hint(err, "write %s alone", hit->spelled);
	}
	if (!eq && !fits(hit->opt, false, nm.next)) {
		hvd_err_set(err, HVD_E_USAGE, "option %s needs a value", hit->spelled);
		return hvd_err_hint(err, "write --%s=%s", hit->opt->name, hit->opt->arg);
	}
	return take_words(scan, hit, err) ? -1 : 1;
}

static int one_letter(struct hvd_optscan *scan, struct hvd_opthit *hit, struct hvd_err *err)
{
	char letter = *scan->cluster++;

	snprintf(hit->spelled, sizeof(hit->spelled), "-%c", letter);
	hit->opt = hvd_opt_letter(scan->primary, letter);
	if (!hit->opt) {
		const char *word = scan->argv[scan->next];
		const struct hvd_opt *near = hvd_opt_find(scan->primary, word + 1);
		char meant[HVD_OPT_SPELLING];

		if (!near && strlen(word) > 3)
			near = hvd_opt_near(word + 1);
		hvd_err_set(err, HVD_E_USAGE, "unknown option -%c in \"%.100s\"", letter, word);
		if (near)
			return hvd_err_hint(err, "did you mean %s?", hvd_opt_spelling(near, meant));
		return hvd_err_hint(err, "--help lists the options");
	}
	hit->end = scan->next + 1;
	if (*scan->cluster && hit->opt->arity != HVD_ARG_NONE) {
		hit->value = scan->cluster;
		scan->cluster += strlen(scan->cluster);
	}
	hit->word_ends = !*scan->cluster;
	if (!hit->word_ends)
		return 1;
	scan->cluster = NULL;
	scan->next++;
	return take_words(scan, hit, err) ? -1 : 1;
}

struct hvd_optscan hvd_optscan_begin(int argc, char *const *argv)
{
	const bool horovodrun = argc > 0 && strcmp(basename(argv[0]), "horovodrun") == 0;

	return (struct hvd_optscan){
		.argc = argc, .argv = argv, .next = 1, .primary = horovodrun ? HVD_FAMILY_HOROVOD : HVD_FAMILY_SRUN};
}

int hvd_optscan_next(struct hvd_optscan *scan, struct hvd_opthit *hit, struct hvd_err *err)
{
	const char *word;

	*hit = (struct hvd_opthit){.first = scan->next, .end = scan->next};
	if (scan->cluster)
		return one_letter(scan, hit, err);
	if (scan->next >= scan->argc)
		return 0;
	word = scan->argv[scan->next];
	if (word[0] != '-' || !word[1])
		return 0;
	if (strcmp(word, "--") == 0) {
		scan->dashdash = true;
		scan->next++;
		return 0;
	}
	if (word[1] == '-')
		return one_long(scan, hit, err);
	hit->opt = find_word(word + 1, &hit->value);
	if (!hit->opt) {
		hit->word_begins = true;
		scan->cluster = word + 1;
		return one_letter(scan, hit, err);
	}
	hit->word_begins = hit->word_ends = true;
	hit->end = ++scan->next;
	snprintf(hit->spelled, sizeof(hit->spelled), "-%s", hit->opt->word);
	if (hit->value && hit->opt->arity == HVD_ARG_NONE)
		return hvd_err_set(err, HVD_E_USAGE, "option %s takes no value", hit->spelled);
	return take_words(scan, hit, err) ? -1 : 1;
}

void hvd_opthit_words(const struct hvd_opthit *hit, char *const *argv, struct hvd_strv *sv)
{
	if (hit->word_begins && hit->word_ends) {
		for (int i = hit->first; i < hit->end; i++)
			hvd_strv_add(sv, argv[i]);
	} else if (hit->value && hit->end - hit->first > 1) {
		hvd_strv_add(sv, hit->spelled);
		hvd_strv_add(sv, hit->value);
	} else {
		hvd_strv_addf(sv, "%s%s", hit->spelled, hit->value ? hit->value : "");
	}
}
