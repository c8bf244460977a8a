/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_help.c - what hvdrun shows of its options: --help, the rows of the manual pages, and the lines for completion.
 *
 * Names and letters that always mean another row, one of the primary family, are left out.
 */
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/values.h"
#include "lib/base/xalloc.h"
#include "options_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const titles[HVD_GROUPS] = {
	[HVD_G_RUN] = "Running",
	[HVD_G_HOSTS] = "Hosts",
	[HVD_G_ROLES] = "Roles",
	[HVD_G_START] = "Start",
	[HVD_G_OUTPUT] = "Output",
	[HVD_G_FAILURE] = "Failures",
	[HVD_G_ELASTIC] = "Elastic training",
	[HVD_G_CONTROLLER] = "Controller",
	[HVD_G_SSH] = "ssh",
	[HVD_G_TUNE] = "Tunables",
	[HVD_G_AUTOTUNE] = "Automatic tuning",
	[HVD_G_TIMELINE] = "Timeline",
	[HVD_G_STALL] = "Stall check",
	[HVD_G_LIBRARY] = "Libraries",
	[HVD_G_LOGGING] = "Logging of Horovod",
	[HVD_G_INFO] = "Information",
	[HVD_G_S_TASKS] = "srun: tasks",
	[HVD_G_S_NODES] = "srun: nodes",
	[HVD_G_S_RESOURCES] = "srun: resources",
	[HVD_G_S_BINDING] = "srun: binding",
	[HVD_G_S_IO] = "srun: input and output",
	[HVD_G_S_STEP] = "srun: the step",
	[HVD_G_S_JOB] = "srun: the job",
	[HVD_G_S_PLUGIN] = "srun: options of the plugin pyxis",
};

#define COLUMN 34 /* the column of --help in which texts begin */

/* Does the row's name mean this row, and not one of another family? */
static bool reachable(enum hvd_opt_family primary, const struct hvd_opt *o)
{
	const struct hvd_opt *first = hvd_opt_find(primary, o->name);

	return first == o || first->arity != o->arity;
}

static bool is_shown(enum hvd_opt_family primary, const struct hvd_opt *o)
{
	return !o->hidden && !o->alias && reachable(primary, o);
}

static char letter_of(enum hvd_opt_family primary, const struct hvd_opt *o)
{
	return o->letter && hvd_opt_letter(primary, o->letter) == o ? o->letter : '\0';
}

/* Further facts about an option: "horovodrun; default 30; $A; $B; needs --autotune", or a part of it. `family`:
 * also that horovodrun has the option. */
static char *facts(const struct hvd_opt *o, bool family)
{
	const char *def = o->def ? o->def : o->shown;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv parts = {0};

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
	return hvd_strv_join(&parts, "; ");
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

static void help_row(FILE *f, enum hvd_opt_family primary, const struct hvd_opt *o, bool brief, int width)
{
	char letter = letter_of(primary, o);
	hvd_cleanup_free char *brackets = facts(o, true);
	hvd_cleanup_free char *text =
		brief ? hvd_xstrdup(o->help)
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
}

static FILE *open_text(char **text, size_t *len)
{
	FILE *f = open_memstream(text, len);

	if (!f)
		abort();
	return f;
}

static enum hvd_opt_family primary_of(const struct hvd_options *o)
{
	return o->as_horovodrun ? HVD_FAMILY_HOROVOD : HVD_FAMILY_SRUN;
}

char *hvd_options_usage(const struct hvd_options *o)
{
	const char *name = hvd_options_program(o);

	return hvd_xasprintf("Usage: %s [options] command [arguments]\n"
			     "       %s -np 4 python train.py\n"
			     "       %s -N 2 --ntasks-per-node=4 --gpus-per-node=4 python train.py\n"
			     "Options are srun's, horovodrun's, and its own: see %s --help=all.\n",
			     name, name, name, name);
}

#define COMMON_HEAD                                                                                                    \
	"Usage: hvdrun [options] command [arguments]\n"                                                                \
	"Start the ranks of a training job in this job, in a new one, or on listed hosts.\n"                           \
	"\n"                                                                                                           \
	"Examples:\n"                                                                                                  \
	"  hvdrun python train.py                              in a batch job\n"                                       \
	"  hvdrun -N2 --ntasks-per-node=4 python train.py      as a new Slurm job\n"                                   \
	"  hvdrun --hosts n1:8,n2:8 python train.py            through ssh\n"
#define COMMON_FOOT                                                                                                    \
	"\n"                                                                                                           \
	"--help=all shows all options, with defaults and variables; --help=srun those of\n"                            \
	"srun, --help=horovod those of horovodrun, --help=tunables those for Horovod's\n"                              \
	"workers. See hvdrun(1).\n"

static bool is_of_topic(const struct hvd_opt *o, int topic)
{
	/* The options that most jobs need, and useful ones that few users know. */
	static const char common[] =
		"num-proc|launcher|keep-going|dry-run|selftest|hosts|hostfile|network-interfaces|frameworks|store|"
		"start-timeout|preflight|spares|config-file|output-filename|verbose|report|status|watch|stacks|hang-"
		"timeout|"
		"hang-action|"
		"signal-ranks|requeue-on|min-np|max-np|max-restarts|discover|help|version";

	switch ((enum hvd_help_topic)topic) {
	case HVD_HELP_COMMON:
		/* Without a value, --help is an option of srun, which has no topic. */
		return hvd_value_index(common, o->name) >= 0 &&
		       (o->family != HVD_FAMILY_SRUN || strcmp(o->name, "help") != 0);
	case HVD_HELP_SRUN:
		return o->family == HVD_FAMILY_SRUN;
	case HVD_HELP_HOROVOD:
		return o->family == HVD_FAMILY_HOROVOD;
	case HVD_HELP_TUNABLES:
		return o->group >= HVD_G_TUNE && o->group <= HVD_G_LOGGING;
	case HVD_HELP_ALL:
		break;
	}
	return true;
}

char *hvd_options_help(const struct hvd_options *o, int width)
{
	const enum hvd_opt_family primary = primary_of(o);
	const bool brief = o->help_topic == HVD_HELP_COMMON && !o->as_horovodrun;
	const enum hvd_help_topic topic = o->help_topic || brief ? o->help_topic : HVD_HELP_HOROVOD;
	hvd_cleanup_free char *head = brief ? hvd_xstrdup(COMMON_HEAD) : hvd_options_usage(o);
	const struct hvd_opt *row;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	if (width < COLUMN + 30)
		width = COLUMN + 30;
	fputs(head, f);
	for (int g = 0; g < HVD_GROUPS; g++) {
		bool titled = false;

		for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
			if (!is_shown(primary, row) || row->group != g || !is_of_topic(row, topic))
				continue;
			if (!titled)
				fprintf(f, "\n%s:\n", titles[g]);
			titled = true;
			help_row(f, primary, row, brief, width);
		}
	}
	fputs(brief ? COMMON_FOOT : "", f);
	fclose(f);
	return text;
}

/* ---- manual pages ---- */

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
	hvd_cleanup_free char *brackets = facts(o, family);

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
}

static void man_row(FILE *f, enum hvd_opt_family primary, const struct hvd_opt *o)
{
	char letter = letter_of(primary, o);

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

char *hvd_options_man(const struct hvd_options *o)
{
	const enum hvd_opt_family primary = primary_of(o);
	const struct hvd_opt *row;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	for (int g = 0; g < HVD_GROUPS; g++) {
		bool titled = false;

		for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
			if (!is_shown(primary, row) || row->group != g)
				continue;
			if (!titled)
				fprintf(f, ".SS \"%s\"\n", titles[g]);
			titled = true;
			man_row(f, primary, row);
		}
	}
	fclose(f);
	return text;
}

/* The options that are aliases and take a value, with the text of the rows that they are aliases of. */
char *hvd_options_plugin_man(void)
{
	const struct hvd_opt *o, *alias;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	for (size_t i = 0; (alias = hvd_opt_row(i)); i++) {
		if (!alias->alias || !alias->arg)
			continue;
		for (size_t j = 0; (o = hvd_opt_row(j)) && (o->alias || o->at != alias->at);)
			j++;
		fprintf(f, ".It Fl -%s Ns = Ns Ar %s\n", alias->name, alias->arg);
		man_about(f, o, false);
	}
	fclose(f);
	return text;
}

/* ---- completion ---- */

char *hvd_options_completion(const struct hvd_options *o)
{
	static const char *const arity[] = {"none", "required", "optional", "two"};
	const enum hvd_opt_family primary = primary_of(o);
	const struct hvd_opt *row;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_text(&text, &len);

	for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
		char letter = letter_of(primary, row);
		hvd_cleanup_free char *tail = hvd_xasprintf("%s\t%s\t%s", arity[row->arity], row->arg ? row->arg : "",
							    row->choices ? row->choices : "");

		if (!is_shown(primary, row))
			continue;
		fprintf(f, "--%s\t%s\n", row->name, tail);
		if (letter)
			fprintf(f, "-%c\t%s\n", letter, tail);
		if (row->word)
			fprintf(f, "-%s\t%s\n", row->word, tail);
	}
	fclose(f);
	return text;
}
