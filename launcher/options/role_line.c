/* SPDX-License-Identifier: Apache-2.0 */
/* role_line.c - splits a command line of several roles at its colons, and the first options into those of the launch and
 * those of the first role. */
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "options_rows.h"
#include "role_parts.h"
#include "role_specs.h"

#include <stdlib.h>
#include <string.h>

struct hvd_role_part *hvd_role_parts_add(struct hvd_role_parts *parts)
{
	parts->v = hvd_xgrow(parts->v, parts->n, &parts->room, sizeof(*parts->v));
	parts->v[parts->n] = (struct hvd_role_part){0};
	return &parts->v[parts->n++];
}

void hvd_role_parts_clear(struct hvd_role_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++) {
		hvd_strv_free(&parts->v[i].options);
		hvd_strv_free(&parts->v[i].command);
		free(parts->v[i].where);
	}
	free(parts->v);
	hvd_strv_free(&parts->launch);
	*parts = (struct hvd_role_parts){0};
}

static bool is_colon(const char *word)
{
	return strcmp(word, ":") == 0;
}

bool hvd_role_specs_wanted(int argc, char *const *argv)
{
	struct hvd_optscan scan = hvd_optscan_begin(argc, argv);
	struct hvd_opthit hit;
	bool wanted = false;

	while (hvd_optscan_next(&scan, &hit, NULL) > 0) {
		if (hit.opt && hit.opt->at == HVD_AT(action))
			return false;
		wanted = wanted ||
			 (hit.opt && (hit.opt->whose == HVD_OF_ROLES_ONLY || hit.opt->at == HVD_AT(roles_file)));
	}
	for (int i = scan.next; !wanted && i + 1 < argc; i++)
		wanted = is_colon(argv[i]) &&
			 (strcmp(argv[i + 1], "--role") == 0 || strncmp(argv[i + 1], "--role=", 7) == 0);
	return wanted;
}

/* For messages: "the command in front of the first colon". */
static int complain(struct hvd_err *err, size_t part, const char *what, const char *hint)
{
	if (part == 0)
		hvd_err_set(err, HVD_E_USAGE, "the part in front of the first colon %s", what);
	else
		hvd_err_set(err, HVD_E_USAGE, "the part behind colon number %zu %s", part, what);
	return hvd_err_hint(err, "%s", hint);
}

static int refuse_unknown(const struct hvd_opthit *hit, int argc, char *const *argv, struct hvd_err *err)
{
	const struct hvd_opt *near = hvd_opt_near(hit->spelled + 2);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	char meant[HVD_OPT_SPELLING];

	hvd_strv_add(&words, argv[0]);
	for (int i = hit->first; i < argc && !is_colon(argv[i]); i++)
		hvd_strv_add(&words, argv[i]);
	if (hvd_options_elsewhere(hit->spelled, (int)words.n, words.v, err) != 0)
		return -1;
	hvd_err_set(err, HVD_E_USAGE, "unknown option %s of a role", hit->spelled);
	if (near)
		return hvd_err_hint(err, "did you mean %s?", hvd_opt_spelling(near, meant));
	return hvd_err_hint(err,
			    "if it belongs to a plugin of srun, write it in front of the first colon, with its value "
			    "behind an equals sign");
}

/* Put an option's words where they belong. */
static int take(struct hvd_role_parts *parts, const struct hvd_opthit *hit, int argc, char *const *argv,
		struct hvd_err *err)
{
	struct hvd_role_part *part = &parts->v[parts->n - 1];
	const bool of_role = hit->opt && hit->opt->whose != HVD_OF_LAUNCH;
	struct hvd_strv *words = of_role ? &part->options : &parts->launch;

	if (!of_role && parts->n > 1) {
		if (!hit->opt)
			return refuse_unknown(hit, argc, argv, err);
		hvd_err_set(err, HVD_E_USAGE, "option %s belongs to the launch, not to one of its roles", hit->spelled);
		return hvd_err_hint(err, "write it in front of the first colon");
	}
	if (hit->opt && hit->opt->at == HVD_AT(roles_file)) {
		parts->file = hit->value;
		return 0;
	}
	if (hit->opt && hit->opt->at == HVD_AT(ray) && parts->n == 1) {
		parts->ray = hit->value ? hit->value : "";
		return 0;
	}
	if (hit->opt && hit->opt->at == HVD_AT(role)) {
		if (part->named)
			return complain(err, parts->n - 1, "has two --role",
					"write a command and a colon between two roles");
		part->named = true;
	}
	hvd_opthit_words(hit, argv, words);
	return 0;
}

/* Read the part that begins at argv[at]. Returns the word behind it, a colon or the end; -1 with err set. */
static int read_part(struct hvd_role_parts *parts, int at, int argc, char *const *argv, struct hvd_err *err)
{
	struct hvd_optscan scan = hvd_optscan_begin(argc, argv);
	struct hvd_role_part *part = hvd_role_parts_add(parts);
	struct hvd_opthit hit;
	int rc;

	scan.next = at;
	while ((rc = hvd_optscan_next(&scan, &hit, err)) > 0)
		if (take(parts, &hit, argc, argv, err) != 0)
			return -1;
	if (rc < 0)
		return -1;
	for (at = scan.next; at < argc && !is_colon(argv[at]); at++)
		hvd_strv_add(&part->command, argv[at]);
	if (parts->file || parts->ray)
		return at;
	if (!part->command.n)
		return complain(err, parts->n - 1, "has no command",
				"write it after the options: hvdrun --role=a -N2 ./train : --role=b -N1 ./serve");
	if (!part->named)
		return complain(
			err, parts->n - 1, "has no --role=NAME",
			"name each role; a command with a colon of its own goes into a script, or into a file of "
			"--roles");
	return at;
}

/* --roles=FILE: the roles are in the file. */
static int check_file(struct hvd_role_parts *parts, bool colon, struct hvd_err *err)
{
	struct hvd_role_part *part = &parts->v[0];

	if (part->command.n || colon) {
		hvd_err_set(err, HVD_E_USAGE,
			    "--roles=%.200s has the commands of all roles, but there is a command \"%.200s\"",
			    parts->file, part->command.n ? part->command.v[0] : ":");
		return hvd_err_hint(err, "leave out the command, or --roles");
	}
	if (part->options.n) {
		hvd_err_set(err, HVD_E_USAGE, "option %.200s belongs to a role, and the roles are in --roles=%.200s",
			    part->options.v[0], parts->file);
		return hvd_err_hint(err, "write it into the file, for each role that needs it");
	}
	parts->n = 0;
	return 0;
}

int hvd_role_line_split(struct hvd_role_parts *parts, int argc, char *const *argv, struct hvd_err *err)
{
	int at = 1;

	parts->primary = hvd_optscan_begin(argc, argv).primary;
	for (;;) {
		at = read_part(parts, at, argc, argv, err);
		if (at < 0)
			return -1;
		if (parts->file && !parts->ray)
			return check_file(parts, at < argc, err);
		if (at >= argc)
			return 0;
		at++;
	}
}
