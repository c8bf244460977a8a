/* SPDX-License-Identifier: Apache-2.0 */
/* optdump.c - the option tables as text: for --help, the manual page and completion. */
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "optable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN 34 /* the column of --help in which texts begin */

/* Does the row's name mean this row, and not one of another family? */
static bool reachable(const struct hvd_optset *set, enum hvd_opt_family primary, const struct hvd_opt *o)
{
	const struct hvd_opt *first = hvd_optset_find(set, primary, o->name, NULL);

	return first == o || first->arity != o->arity;
}

static char letter_of(const struct hvd_optset *set, enum hvd_opt_family primary, const struct hvd_opt *o)
{
	return o->letter && hvd_optset_letter(set, primary, o->letter) == o ? o->letter : '\0';
}

/* Further facts about an option: "horovodrun; default 30; $A; $B; needs --autotune", or a part of it. `family`:
 * also that horovodrun has the option. */
static char *facts(const struct hvd_opt *o, bool family)
{
	const char *def = o->def ? o->def : o->shown;
	struct hvd_strv parts = {0};
	char *text;

	if (family && o->family == HVD_FAMILY_HOROVOD)
		hvd_strv_add(&parts, "horovodrun");
	if (o->choices && strcmp(o->choices, o->arg) != 0)
		hvd_strv_addf(&parts, "%s of %s", o->type == HVD_OPT_ENUM ? "one" : "some", o->choices);
	if (def)
		hvd_strv_addf(&parts, "default %s", def);
	for (const char *s = o->env; s && *s;) {
		size_t n = strcspn(s, ",");

		hvd_strv_addf(&parts, "$%.*s", (int)n, s);
		s += n + (s[n] == ',');
	}
	if (o->needs)
		hvd_strv_addf(&parts, "needs --%s", o->needs);
	if (o->since)
		hvd_strv_addf(&parts, "Slurm %d.%02d", o->since / 100, o->since % 100);
	text = hvd_xstrdup("");
	for (size_t i = 0; i < parts.n; i++)
		hvd_xappendf(&text, "%s%s", i ? "; " : "", parts.v[i]);
	hvd_strv_free(&parts);
	return text;
}

/* The length of the first word; of a list of values that is longer than a line, the length of as many as fit. */
static int word(const char *text, int width)
{
	int n = (int)strcspn(text, " ");

	if (n <= width)
		return n;
	for (int i = width; i > 0; i--)
		if (text[i - 1] == '|')
			return i;
	return n;
}

/* Write the words of `text` into the columns from COLUMN to width; `at` is the column that the line has reached. */
static void fill(FILE *f, const char *text, int at, int width)
{
	if (at >= COLUMN - 1) {
		fputc('\n', f);
		at = 0;
	}
	fprintf(f, "%*s", COLUMN - at, "");
	at = COLUMN;
	while (*text) {
		int n = word(text, width - COLUMN);

		if (at > COLUMN && at + 1 + n > width) {
			fprintf(f, "\n%*s", COLUMN, "");
			at = COLUMN;
		}
		if (at > COLUMN && text[-1] == ' ')
			at += fprintf(f, " ");
		at += fprintf(f, "%.*s", n, text);
		text += n + (text[n] == ' ');
	}
	fputc('\n', f);
}

static void help_row(FILE *f, const struct hvd_optset *set, enum hvd_opt_family primary, const struct hvd_opt *o,
		     bool brief, int width)
{
	char letter = letter_of(set, primary, o);
	char *brackets = facts(o, true);
	char *text = brief ? hvd_xstrdup(o->help)
			   : hvd_xasprintf("%s%s%s%s%s%s", o->help, o->more ? ". " : "", o->more ? o->more : "",
					   *brackets ? " [" : "", brackets, *brackets ? "]" : "");
	int at;

	if (letter)
		at = fprintf(f, "  -%c, --%s", letter, o->name);
	else if (o->word && strcmp(o->word, o->name) != 0)
		at = fprintf(f, " -%s, --%s", o->word, o->name);
	else
		at = fprintf(f, "      --%s", o->name);
	if (o->arity == HVD_ARG_OPTIONAL)
		at += fprintf(f, "[=%s]", o->arg);
	else if (o->arity != HVD_ARG_NONE)
		at += fprintf(f, "%c%s", o->arity == HVD_ARG_TWO ? ' ' : '=', o->arg);
	fill(f, text, at, width);
	free(text);
	free(brackets);
}

static FILE *open_text(char **text, size_t *len)
{
	FILE *f = open_memstream(text, len);

	if (!f)
		abort();
	return f;
}

char *hvd_opt_help(const struct hvd_optset *set, enum hvd_opt_family primary,
		   bool (*wants)(const struct hvd_opt *o, int topic), int topic, bool brief, int width)
{
	const struct hvd_opt *o;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	if (width < COLUMN + 30)
		width = COLUMN + 30;
	for (int g = 0; g < set->n_titles; g++) {
		bool titled = false;

		for (size_t i = 0; (o = hvd_optset_row(set, i)); i++) {
			if (o->group != g || o->hidden || o->alias || !wants(o, topic) || !reachable(set, primary, o))
				continue;
			if (!titled)
				fprintf(f, "\n%s:\n", set->titles[g]);
			titled = true;
			help_row(f, set, primary, o, brief, width);
		}
	}
	fclose(f);
	return text;
}

/* Text for troff: no dash may turn into a hyphen, no line may begin with a request. Long lines are broken, as
 * troff's own style asks, and a sentence begins a line. */
static void man_text(FILE *f, const char *s)
{
	bool begins = true;
	int at = 0;

	for (; *s; s++) {
		if (*s == ' ' && (at > 55 || (at && s[-1] == '.'))) {
			fputc('\n', f);
			begins = true;
			at = 0;
			continue;
		}
		if (begins && (*s == '.' || *s == '\''))
			at += fprintf(f, "\\&");
		begins = false;
		if (*s == '-')
			at += fprintf(f, "\\-");
		else if (*s == '\\')
			at += fprintf(f, "\\e");
		else
			at += fprintf(f, "%c", *s);
	}
}

static void man_sentence(FILE *f, const char *s)
{
	man_text(f, s);
	fputs(".\n", f);
}

/* The text of an option. */
static void man_about(FILE *f, const struct hvd_opt *o, bool family)
{
	char *brackets = facts(o, family);

	man_sentence(f, o->help);
	if (o->more)
		man_sentence(f, o->more);
	if (o->collide) {
		fputs("Note: ", f);
		man_sentence(f, o->collide);
	}
	if (*brackets) {
		fputc('[', f);
		man_text(f, brackets);
		fputs("]\n", f);
	}
	free(brackets);
}

static void man_row(FILE *f, const struct hvd_optset *set, enum hvd_opt_family primary, const struct hvd_opt *o)
{
	char letter = letter_of(set, primary, o);

	fputs(".TP\n", f);
	if (letter)
		fprintf(f, "\\fB\\-%c\\fR, ", letter);
	if (o->word) {
		fputs("\\fB\\-", f);
		man_text(f, o->word);
		fputs("\\fR, ", f);
	}
	fputs("\\fB\\-\\-", f);
	man_text(f, o->name);
	fputs("\\fR", f);
	if (o->arg) {
		fputs(o->arity == HVD_ARG_OPTIONAL ? "[=\\fI" : o->arity == HVD_ARG_TWO ? " \\fI" : "=\\fI", f);
		man_text(f, o->arg);
		fputs(o->arity == HVD_ARG_OPTIONAL ? "\\fR]" : "\\fR", f);
	}
	fputc('\n', f);
	man_about(f, o, true);
}

char *hvd_opt_man(const struct hvd_optset *set, enum hvd_opt_family primary)
{
	const struct hvd_opt *o;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	for (int g = 0; g < set->n_titles; g++) {
		bool titled = false;

		for (size_t i = 0; (o = hvd_optset_row(set, i)); i++) {
			if (o->group != g || o->hidden || o->alias || !reachable(set, primary, o))
				continue;
			if (!titled)
				fprintf(f, ".SS \"%s\"\n", set->titles[g]);
			titled = true;
			man_row(f, set, primary, o);
		}
	}
	fclose(f);
	return text;
}

char *hvd_opt_alias_man(const struct hvd_optset *set)
{
	const struct hvd_opt *o, *alias;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	for (size_t i = 0; (alias = hvd_optset_row(set, i)); i++) {
		if (!alias->alias || !alias->arg)
			continue;
		for (size_t j = 0; (o = hvd_optset_row(set, j)) && (o->alias || o->at != alias->at);)
			j++;
		fprintf(f, ".It Fl -%s Ns = Ns Ar %s\n", alias->name, alias->arg);
		man_about(f, o, false);
	}
	fclose(f);
	return text;
}

char *hvd_opt_completion(const struct hvd_optset *set, enum hvd_opt_family primary)
{
	static const char *const arity[] = {"none", "required", "optional", "two"};
	const struct hvd_opt *o;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	for (size_t i = 0; (o = hvd_optset_row(set, i)); i++) {
		char letter = letter_of(set, primary, o);
		char *tail = hvd_xasprintf("%s\t%s\t%s", arity[o->arity], o->arg ? o->arg : "",
					   o->choices ? o->choices : "");

		if (!o->hidden && !o->alias && reachable(set, primary, o)) {
			fprintf(f, "--%s\t%s\n", o->name, tail);
			if (letter)
				fprintf(f, "-%c\t%s\n", letter, tail);
			if (o->word)
				fprintf(f, "-%s\t%s\n", o->word, tail);
		}
		free(tail);
	}
	fclose(f);
	return text;
}
