/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_file.c - reads a file of --roles into the words that a command line would have. So the tables and the rules behind
 * them see one form only; the file and the line of a wrong key or value are known here.
 */
#include "lib/base/cleanup.h"
#include "lib/base/values.h"
#include "lib/base/xalloc.h"
#include "options_rows.h"
#include "role_parts.h"
#include "yaml_text.h"

#include <string.h>

struct role_reader {
	yaml_document_t doc;
	struct hvd_role_parts *parts;
	struct hvd_strv launch;    /* options of the launch */
	struct hvd_options values; /* where values are tried */
	const char *path;
	struct hvd_err *err;
};

static int complain(struct role_reader *rd, const yaml_node_t *node, const char *what)
{
	return hvd_yaml_complain(rd->err, rd->path, node, what);
}

static yaml_node_t *node_of(struct role_reader *rd, int index)
{
	return yaml_document_get_node(&rd->doc, index);
}

/* The option that this key sets, in the launch or in a role (`part`). NULL with err set. */
static const struct hvd_opt *find_option(struct role_reader *rd, const yaml_node_t *at, const char *key,
					 const struct hvd_role_part *part)
{
	const struct hvd_opt *row = hvd_opt_find(HVD_FAMILY_SRUN, key), *near;
	const bool of_role = row && row->whose != HVD_OF_LAUNCH;
	hvd_cleanup_free char *what = NULL;

	if (!row || row->type == HVD_OPT_SET || row->negate || row->at == HVD_AT(roles_file) ||
	    row->at == HVD_AT(role)) {
		near = row ? NULL : hvd_opt_near(key);
		what = hvd_xasprintf("there is no setting \"%.100s\" of %s", key, part ? "a role" : "a launch");
		complain(rd, at, what);
		if (near)
			hvd_err_hint(rd->err, "did you mean %s?", near->name);
		return NULL;
	}
	if (of_role == (part != NULL))
		return row;
	what = hvd_xasprintf("%s belongs to %s", key, part ? "the launch, not to one of its roles" : "a role");
	complain(rd, at, what);
	hvd_err_hint(rd->err, part ? "write it beside \"roles\"" : "write it into each role that needs it");
	return NULL;
}

static int add_option(struct role_reader *rd, const yaml_node_t *at, const struct hvd_opt *row, const char *value,
		      struct hvd_strv *words)
{
	hvd_cleanup_free char *from = hvd_xasprintf("setting %s", row->name);

	if (row->arity == HVD_ARG_NONE) {
		if (hvd_value_index("yes|true|on|1", value) >= 0)
			hvd_strv_addf(words, "--%s", row->name);
		else if (hvd_value_index("no|false|off|0", value) < 0)
			return complain(rd, at, "the value is neither yes nor no");
		return 0;
	}
	if (hvd_opt_store(&rd->values, row, from, value, rd->err) != 0) {
		hvd_err_prefix(rd->err, "%s:%zu", rd->path, at->start_mark.line + 1);
		return -1;
	}
	hvd_strv_addf(words, "--%s=%s", row->name, value);
	return 0;
}

/* "python train.py", as a shell splits it, or [python, train.py] */
static int read_command(struct role_reader *rd, const yaml_node_t *node, struct hvd_role_part *part)
{
	if (part->command.n)
		return complain(rd, node, "the role has a second command");
	if (hvd_yaml_plain(node)) {
		if (hvd_shell_split(hvd_yaml_plain(node), &part->command) != 0)
			return complain(rd, node, "a quote in the command is not closed");
	} else if (node->type == YAML_SEQUENCE_NODE) {
		const yaml_node_item_t *item = node->data.sequence.items.start;

		for (; item < node->data.sequence.items.top; item++) {
			const yaml_node_t *word = node_of(rd, *item);

			if (!hvd_yaml_plain(word))
				return complain(rd, word, "a command must be a list of plain words");
			hvd_strv_add(&part->command, hvd_yaml_plain(word));
		}
	} else {
		return complain(rd, node, "a command must be a text or a list of words");
	}
	return part->command.n ? 0 : complain(rd, node, "the command is empty");
}

/* A pair of the launch, or of a role (`part`). */
static int read_pair(struct role_reader *rd, const yaml_node_t *name, const yaml_node_t *value,
		     struct hvd_role_part *part)
{
	const char *key = hvd_yaml_plain(name);
	const yaml_node_t *bad = value;
	hvd_cleanup_free char *list = NULL;
	const struct hvd_opt *row;

	if (!key)
		return complain(rd, name, "a key must be a plain name");
	if (part && strcmp(key, "command") == 0)
		return read_command(rd, value, part);
	row = find_option(rd, name, key, part);
	if (!row)
		return -1;
	if (value->type == YAML_SEQUENCE_NODE)
		list = hvd_yaml_join(&rd->doc, value, &bad);
	else if (hvd_yaml_plain(value))
		list = hvd_xstrdup(hvd_yaml_plain(value));
	if (!list)
		return complain(rd, bad, "a value must be plain, or a list of at most 256 plain values");
	return add_option(rd, value, row, list, part ? &part->options : &rd->launch);
}

static int read_role(struct role_reader *rd, const yaml_node_t *name, const yaml_node_t *map)
{
	struct hvd_role_part *part;
	const yaml_node_pair_t *pair;

	if (!hvd_yaml_plain(name) || map->type != YAML_MAPPING_NODE)
		return complain(rd, name, "a role must be a name with a map of options and a command");
	part = hvd_role_parts_add(rd->parts);
	part->where = hvd_xasprintf("%s:%zu", rd->path, name->start_mark.line + 1);
	part->named = true;
	hvd_strv_addf(&part->options, "--role=%s", hvd_yaml_plain(name));
	for (pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++)
		if (read_pair(rd, node_of(rd, pair->key), node_of(rd, pair->value), part) != 0)
			return -1;
	if (part->command.n)
		return 0;
	complain(rd, name, "the role has no command");
	return hvd_err_hint(rd->err, "as in command: [python, train.py]");
}

static int read_roles(struct role_reader *rd, const yaml_node_t *map)
{
	const yaml_node_pair_t *pair;

	if (map->type != YAML_MAPPING_NODE)
		return complain(rd, map, "\"roles\" must be a map of names and roles");
	for (pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++)
		if (read_role(rd, node_of(rd, pair->key), node_of(rd, pair->value)) != 0)
			return -1;
	return 0;
}

static int read_root(struct role_reader *rd)
{
	const yaml_node_t *root = yaml_document_get_root_node(&rd->doc); /* NULL for an empty file */
	const yaml_node_pair_t *pair;

	if (!root || root->type != YAML_MAPPING_NODE)
		return hvd_err_set(rd->err, HVD_E_USAGE, "%s: the file must be a map with the key \"roles\"", rd->path);
	for (pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *name = node_of(rd, pair->key), *value = node_of(rd, pair->value);
		const char *key = hvd_yaml_plain(name);
		int rc = key && strcmp(key, "roles") == 0 ? read_roles(rd, value) : read_pair(rd, name, value, NULL);

		if (rc != 0)
			return -1;
	}
	if (rd->parts->n)
		return 0;
	return hvd_err_set(rd->err, HVD_E_USAGE, "%s: the file has no roles", rd->path);
}

int hvd_role_file_parse(struct hvd_role_parts *parts, const char *text, size_t len, const char *path,
			struct hvd_err *err)
{
	struct role_reader rd = {.parts = parts, .path = path, .err = err};
	int rc;

	if (hvd_yaml_load(&rd.doc, text, len, path, err) != 0)
		return -1;
	hvd_options_init(&rd.values);
	rc = read_root(&rd);
	hvd_options_free(&rd.values);
	yaml_document_delete(&rd.doc);
	/* On a command line the later of two words wins: that of the user's own command line. */
	hvd_strv_add_all(&rd.launch, parts->launch.v);
	hvd_strv_free(&parts->launch);
	parts->launch = rd.launch;
	return rc;
}
