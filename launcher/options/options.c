/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/multi_prog.h"
#include "options_rows.h"

#include <stdlib.h>
#include <string.h>

void hvd_options_init(struct hvd_options *o)
{
	const struct hvd_opt *row;

	*o = (struct hvd_options){.nodes_max = -1, .cooldown_max = -1};
	o->source = hvd_xcalloc(hvd_options_srun.n + hvd_options_horovod.n + hvd_options_hvd.n, 1);
	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		hvd_opt_clear(o, row);
	/* This cannot fail: a unit test stores each default. */
	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		if (row->def)
			hvd_opt_store(o, row, row->name, row->def, NULL);
}

void hvd_options_free(struct hvd_options *o)
{
	const struct hvd_opt *row;

	if (!o)
		return;
	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		hvd_opt_clear(o, row);
	hvd_strv_free(&o->srun_args);
	hvd_strv_free(&o->unknown);
	hvd_strv_free(&o->own_words);
	hvd_strv_free(&o->command);
	hvd_multi_prog_destroy(o->programs);
	hvd_strv_free(&o->notes);
	hvd_strv_free(&o->warnings);
	free(o->source);
	o->source = NULL;
	o->programs = NULL;
}

/* The strongest source among the spellings of one value. */
static enum hvd_opt_source source_of(const struct hvd_options *o, const struct hvd_opt *what)
{
	enum hvd_opt_source most = o->source[hvd_opt_number(what)];
	const struct hvd_opt *row;

	for (size_t i = 0; what->at && (row = hvd_opt_row(i)); i++)
		if (row->at == what->at && o->source[i] > most)
			most = o->source[i];
	return most;
}

/* Store a value unless a stronger source has given one. */
static int apply(struct hvd_options *o, const struct hvd_opt *row, enum hvd_opt_source source, const char *from,
		 const char *value, struct hvd_err *err)
{
	enum hvd_opt_source before = source_of(o, row);

	if (before > source)
		return 0;
	/* A list of a weaker source is replaced, not added to. */
	if (before < source && (row->type == HVD_OPT_LIST || row->type == HVD_OPT_COUNT))
		hvd_opt_clear(o, row);
	if (hvd_opt_store(o, row, from, value, err))
		return -1;
	o->source[hvd_opt_number(row)] = (unsigned char)source;
	return 0;
}

/*
 * An option that no table has may belong to a plugin of srun. It is passed on if
 * it is clear which words belong to it. If the next word could be its value or
 * the command, it is refused: a guess could run the wrong program.
 */
static int take_unknown(struct hvd_options *o, int argc, char *const *argv, const struct hvd_opthit *hit,
			struct hvd_err *err)
{
	const struct hvd_opt *near = hvd_opt_near(hit->spelled + 2);
	const char *next = hit->end < argc ? argv[hit->end] : NULL;
	char meant[HVD_OPT_SPELLING];

	if (hvd_options_elsewhere(hit->spelled, argc, argv, err) != 0)
		return -1;
	if (near)
		hvd_opt_spelling(near, meant);
	if (!hit->value && next && (next[0] != '-' || !next[1])) {
		hvd_err_set(err, HVD_E_USAGE, "unknown option %s, followed by \"%.200s\"", hit->spelled, next);
		return hvd_err_hint(
			err,
			"%s%s%sf it belongs to a plugin of srun, write %s=%.100s if that is its value, or put -- "
			"before the command",
			near ? "did you mean " : "", near ? meant : "", near ? "? I" : "i", hit->spelled, next);
	}
	hvd_strv_add(&o->srun_args, argv[hit->first]);
	hvd_strv_add(&o->unknown, argv[hit->first]);
	if (near)
		hvd_strv_addf(&o->warnings, "option %s is not known here: did you mean %s?", hit->spelled, meant);
	else
		hvd_strv_addf(&o->notes, "option %s is not known here and left to srun", hit->spelled);
	return 0;
}

static int take_known(struct hvd_options *o, const struct hvd_opthit *hit, struct hvd_err *err)
{
	hvd_cleanup_free char *from = hvd_xasprintf("option %s", hit->spelled);
	hvd_cleanup_free char *both = hit->value2 ? hvd_xasprintf("%s %s", hit->value, hit->value2) : NULL;

	return apply(o, hit->opt, HVD_FROM_COMMAND, from, both ? both : hit->value, err);
}

int hvd_options_parse(struct hvd_options *o, int argc, char *const *argv, struct hvd_err *err)
{
	struct hvd_optscan scan = hvd_optscan_begin(argc, argv);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv letters = {0};
	struct hvd_opthit hit;
	bool all_pass = true;
	int rc;

	o->as_horovodrun = scan.primary == HVD_FAMILY_HOROVOD;
	if (o->as_horovodrun) /* horovodrun's workers have no variables of PyTorch, and programs test for them */
		o->frameworks = HVD_FW_HOROVOD;

	while ((rc = hvd_optscan_next(&scan, &hit, err)) > 0) {
		if (!hit.opt) {
			if (take_unknown(o, argc, argv, &hit, err))
				return -1;
			continue;
		}
		if (take_known(o, &hit, err))
			return -1;
		o->counts_ranks = o->counts_ranks || hvd_options_counts_ranks(hit.opt);
		/* --help, --version and the like take effect whatever comes after them. */
		if (o->action != HVD_RUN)
			return 0;
		all_pass = (all_pass || hit.word_begins) && hit.opt->pass;
		if (!(hit.word_begins && hit.word_ends) && hit.opt->pass)
			hvd_opthit_words(&hit, argv, &letters);
		if (!hit.word_ends)
			continue;
		if (all_pass)
			for (int i = hit.first; i < hit.end; i++)
				hvd_strv_add(&o->srun_args, argv[i]);
		else
			hvd_strv_add_all(&o->srun_args, letters.v);
		hvd_strv_free(&letters);
	}
	if (rc < 0)
		return -1;
	o->dashdash = scan.dashdash;
	for (int i = 0; i < scan.next - scan.dashdash; i++)
		hvd_strv_add(&o->own_words, i == 0 ? hvd_options_program(o) : argv[i]);
	for (int i = scan.next; i < argc; i++) {
		if (!o->het_colon && o->command.n && strcmp(argv[i], ":") == 0)
			o->het_colon = o->command.n;
		hvd_strv_add(&o->command, argv[i]);
	}
	return 0;
}

static const char *lookup(char *const *envp, const char *name, size_t len)
{
	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return *envp + len + 1;
	return NULL;
}

/* Store the value of the first of the row's variables that is set. */
static int from_env(struct hvd_options *o, const struct hvd_opt *row, char *const *envp, struct hvd_err *err)
{
	for (const char *s = row->env; *s;) {
		size_t len = strcspn(s, ",");
		const char *value = lookup(envp, s, len);
		hvd_cleanup_free char *from = NULL;
		struct hvd_err e = {0};
		int rc;

		/* An empty variable counts as unset, except for flags of srun, for which srun counts it as set. */
		if (!value || (!*value && (row->family != HVD_FAMILY_SRUN || row->type != HVD_OPT_FLAG))) {
			s += len + (s[len] == ',');
			continue;
		}
		from = hvd_xasprintf("environment variable %.*s", (int)len, s);
		rc = apply(o, row, HVD_FROM_ENV, from, value, &e);
		if (rc && row->family == HVD_FAMILY_SRUN) {
			hvd_strv_addf(&o->notes, "%s: \"%.200s\" is passed on to srun, which will check it", from,
				      value);
			rc = 0;
		} else if (rc && err) {
			*err = e;
		}
		return rc;
	}
	return 0;
}

int hvd_options_env(struct hvd_options *o, char *const *envp, struct hvd_err *err)
{
	const struct hvd_opt *row;

	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		if (row->env && from_env(o, row, envp, err))
			return -1;
	return 0;
}

/* The row of a key in a configuration file; NULL when there is none. */
static const struct hvd_opt *find_setting(const char *key)
{
	const struct hvd_opt *row;

	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		if (row->config && strcmp(row->config, key) == 0)
			return row;
	return hvd_opt_find(HVD_FAMILY_HOROVOD, key);
}

static bool can_be_set(const struct hvd_opt *row)
{
	return row && !row->pass && row->type != HVD_OPT_SET && !row->negate && row->whose != HVD_OF_ROLES_ONLY &&
	       row->at != HVD_AT(roles_file);
}

bool hvd_options_setting(const char *key)
{
	return can_be_set(find_setting(key));
}

bool hvd_options_settings_below(const char *map)
{
	const struct hvd_opt *row;
	size_t len = strlen(map);

	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		if (row->config && strncmp(row->config, map, len) == 0 && row->config[len] == '.')
			return true;
	return false;
}

int hvd_options_config(struct hvd_options *o, enum hvd_opt_source source, const char *key, const char *value,
		       struct hvd_err *err)
{
	const struct hvd_opt *row = find_setting(key);
	hvd_cleanup_free char *from = hvd_xasprintf("setting %s", key);

	if (!can_be_set(row)) {
		const struct hvd_opt *near = row ? NULL : hvd_opt_near(key);

		hvd_err_set(err, HVD_E_NOENT, "there is no setting \"%.200s\"", key);
		if (row && row->pass)
			hvd_err_hint(err, "options of srun come from its environment variables or the command line");
		else if (near)
			hvd_err_hint(err, "did you mean %s?", near->name);
		return -1;
	}
	return apply(o, row, source, from, value, err);
}

enum hvd_opt_source hvd_options_source(const struct hvd_options *o, const char *name)
{
	const struct hvd_opt *row = hvd_opt_find(HVD_FAMILY_SRUN, name);

	return row ? source_of(o, row) : HVD_FROM_DEFAULT;
}

bool hvd_options_given(const struct hvd_options *o, const char *name)
{
	return hvd_options_source(o, name) == HVD_FROM_COMMAND;
}

static const struct hvd_opt *find_row(const char *name)
{

	return name ? hvd_opt_find(HVD_FAMILY_HOROVOD, name) : NULL;
}

char *hvd_options_text(const struct hvd_options *o, const char *name)
{
	const struct hvd_opt *row = find_row(name);

	return row ? hvd_opt_text(o, row) : NULL;
}

bool hvd_options_on(const struct hvd_options *o, const char *name)
{
	const struct hvd_opt *row = find_row(name);
	hvd_cleanup_free char *text = row ? hvd_opt_text(o, row) : NULL;

	return !row || (text && (row->type == HVD_OPT_STRING || strcmp(text, "0") != 0));
}

const char *hvd_options_program(const struct hvd_options *o)
{
	return o->as_horovodrun ? "horovodrun" : "hvdrun";
}

int hvd_options_np(const struct hvd_options *o)
{
	return o->num_proc > 0 ? o->num_proc : o->ntasks;
}

bool hvd_options_np_for_srun(const struct hvd_options *o)
{
	return o->num_proc > 0 && !hvd_options_given(o, "ntasks");
}

bool hvd_options_elastic(const struct hvd_options *o)
{
	return o->min_np > 0 || o->max_np > 0 || o->max_restarts >= 0 || o->discovery_script || o->discover;
}

void hvd_options_tunables(const struct hvd_options *o, struct hvd_strv *env)
{
	const struct hvd_opt *row;

	for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
		hvd_cleanup_free char *text = row->tunable ? hvd_opt_text(o, row) : NULL;

		if (text && hvd_options_on(o, row->needs))
			hvd_env_set(env, row->tunable, text);
	}
}

/* Append the words of those options in srun_args that `keep` wants. Its first argument is NULL for an unknown one. What is
 * said of one role is not for the processes of all. */
static void srun_words(const struct hvd_options *o, bool (*keep)(const struct hvd_opt *opt, const struct hvd_opt *but),
		       const struct hvd_opt *but, struct hvd_strv *args)
{
	struct hvd_optscan scan = {.argc = (int)o->srun_args.n,
				   .argv = o->srun_args.v,
				   .primary = o->as_horovodrun ? HVD_FAMILY_HOROVOD : HVD_FAMILY_SRUN};
	struct hvd_opthit hit;

	while (hvd_optscan_next(&scan, &hit, NULL) > 0) {
		if (keep(hit.opt, but) && !(o->of_role && hit.opt && hit.opt->whose != HVD_OF_LAUNCH))
			hvd_opthit_words(&hit, o->srun_args.v, args);
	}
}

static bool is_other(const struct hvd_opt *opt, const struct hvd_opt *but)
{
	return !opt || !but || opt->at != but->at;
}

void hvd_options_srun_args_but(const struct hvd_options *o, const char *name, struct hvd_strv *args)
{

	srun_words(o, is_other, hvd_opt_find(HVD_FAMILY_SRUN, name), args);
}

static bool is_of_agents(const struct hvd_opt *opt, const struct hvd_opt *but)
{
	return is_other(opt, but) && !(opt && hvd_options_srun_of_ranks(opt));
}

void hvd_options_srun_args_of_agents(const struct hvd_options *o, struct hvd_strv *args)
{

	srun_words(o, is_of_agents, hvd_opt_find(HVD_FAMILY_SRUN, "label"), args);
}

static bool is_of_salloc(const struct hvd_opt *opt, const struct hvd_opt *but)
{
	(void)but;
	return opt && hvd_options_srun_of_salloc(opt);
}

void hvd_options_salloc_args(const struct hvd_options *o, struct hvd_strv *args)
{
	const struct hvd_opt *row;

	/* salloc reads other variables than srun. */
	for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
		hvd_cleanup_free char *text = NULL;

		if (row->family == HVD_FAMILY_SRUN && row->env && row->type == HVD_OPT_STRING &&
		    row->group != HVD_G_S_TASKS && hvd_options_srun_of_salloc(row) &&
		    hvd_options_source(o, row->name) == HVD_FROM_ENV && (text = hvd_opt_text(o, row)))
			hvd_strv_addf(args, "--%s=%s", row->name, text);
	}
	if (hvd_options_np_for_srun(o) && o->spares <= 0 && !o->of_role)
		hvd_strv_addf(args, "--ntasks=%d", o->num_proc);
	srun_words(o, is_of_salloc, NULL, args);
}
