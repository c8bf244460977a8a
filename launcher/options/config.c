/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - configuration files: hvd.conf of the site, and --config-file.
 *
 * The files are YAML, as horovodrun's --config-file is: "controller", and the maps "params", "autotune", "timeline",
 * "stall_check", "library_options" and "logging". Long option names are keys of the top level as well ("nics",
 * "start-timeout", "store"): hvd.conf(5). The option tables say which keys there are and which values they take.
 */
#include "options.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#define SITE_FILE HVD_SYSCONFDIR "/hvd.conf"
#define MAX_FILE  (64 * 1024)
#define MAX_LIST  256
/* Limits on what a file may hold: libyaml looks at every open bracket again for each word, and 300,000 brackets kept it
 * busy for minutes. */
#define MAX_DEPTH 8
#define MAX_NODES 4096

struct reader {
	yaml_document_t doc;
	bool horovodruns; /* the file was written for horovodrun: unknown keys are ignored */
	struct hvd_options *o;
	enum hvd_opt_source from;
	const char *path;
	struct hvd_err *err;
};

static int complain(struct reader *rd, const yaml_node_t *node, const char *what)
{
	return hvd_err_set(rd->err, HVD_E_USAGE, "%s:%zu: %s", rd->path, node->start_mark.line + 1, what);
}

static int set_value(struct reader *rd, const yaml_node_t *at, const char *key, const char *value)
{
	if (hvd_options_config(rd->o, rd->from, key, value, rd->err) == 0)
		return 0;
	hvd_err_prefix(rd->err, "%s:%zu", rd->path, at->start_mark.line + 1);
	rd->err->code = HVD_E_USAGE;
	return -1;
}

/* horovodrun ignores unknown keys, so a file that was written for it may have some. */
static int pass_over(struct reader *rd, const yaml_node_t *at, const char *key)
{
	hvd_strv_addf(&rd->o->warnings, "%s:%zu: there is no setting \"%.200s\"; ignoring it, as horovodrun does",
		      rd->path, at->start_mark.line + 1, key);
	return 0;
}

/* "key: [a, b]" gives the value "a,b". */
static int set_list(struct reader *rd, const yaml_node_t *node, const char *key)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;
	hvd_cleanup_free char *list = hvd_xstrdup("");
	int n = 0;

	for (; item < node->data.sequence.items.top; item++) {
		const yaml_node_t *entry = yaml_document_get_node(&rd->doc, *item);

		if (entry->type != YAML_SCALAR_NODE || ++n > MAX_LIST)
			return complain(rd, entry, "a list must contain plain values, at most 256");
		hvd_xappendf(&list, "%s%s", *list ? "," : "", (const char *)entry->data.scalar.value);
	}
	return set_value(rd, node, key, list);
}

/* Is it a text without a NUL byte? */
static bool plain(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE &&
	       strlen((const char *)node->data.scalar.value) == node->data.scalar.length;
}

/* Was the file written for horovodrun? Then it has keys of horovodrun, and none that only hvdrun has. */
static bool is_horovodruns(struct reader *rd, const yaml_node_t *root)
{
	const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
	bool some = false;

	for (; pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *name = yaml_document_get_node(&rd->doc, pair->key);
		const char *text = plain(name) ? (const char *)name->data.scalar.value : "";

		if (strcmp(text, "controller") == 0 || hvd_options_settings_below(text))
			some = true;
		else if (hvd_options_setting(text))
			return false;
	}
	return some;
}

static int read_map(struct reader *rd, const yaml_node_t *map, const char *prefix);

static int read_pair(struct reader *rd, const yaml_node_pair_t *pair, const char *prefix)
{
	const yaml_node_t *name = yaml_document_get_node(&rd->doc, pair->key);
	const yaml_node_t *value = yaml_document_get_node(&rd->doc, pair->value);
	hvd_cleanup_free char *key = NULL;
	const char *text;

	if (!plain(name))
		return complain(rd, name, "a key must be a plain name");
	text = (const char *)name->data.scalar.value;
	key = hvd_xasprintf("%s%s%s", prefix, *prefix ? "." : "", text);
	if (rd->horovodruns && !hvd_options_setting(key) && (*prefix || !hvd_options_settings_below(key)))
		return pass_over(rd, name, key);
	if (value->type == YAML_MAPPING_NODE && !*prefix)
		return read_map(rd, value, key);
	if (value->type == YAML_MAPPING_NODE)
		return complain(rd, value, "maps cannot be nested any deeper");
	if (value->type == YAML_SEQUENCE_NODE)
		return set_list(rd, value, key);
	if (!plain(value))
		return complain(rd, value, "a value contains a NUL byte");
	return set_value(rd, name, key, (const char *)value->data.scalar.value);
}

static int read_map(struct reader *rd, const yaml_node_t *map, const char *prefix)
{
	const yaml_node_pair_t *pair = map->data.mapping.pairs.start;

	for (; pair < map->data.mapping.pairs.top; pair++)
		if (read_pair(rd, pair, prefix) != 0)
			return -1;
	return 0;
}

static int not_valid(const yaml_parser_t *parser, const char *path, struct hvd_err *err)
{
	return hvd_err_set(err, HVD_E_USAGE, "%s:%zu: not valid YAML: %s", path, parser->problem_mark.line + 1,
			   parser->problem ? parser->problem : "unknown problem");
}

/* Check the depth and the number of nodes before libyaml builds a document of the text. */
static int check_extent(const char *text, size_t len, const char *path, struct hvd_err *err)
{
	HVD_CLEANUP(yaml_parser_delete) yaml_parser_t parser = {0};
	int depth = 0, nodes = 0;
	yaml_event_t event;
	bool end = false;

	if (!yaml_parser_initialize(&parser))
		return hvd_err_set(err, HVD_E_SYS, "cannot set up the YAML parser");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (!end) {
		size_t line;

		if (!yaml_parser_parse(&parser, &event))
			return not_valid(&parser, path, err);
		line = event.start_mark.line + 1;
		end = event.type == YAML_STREAM_END_EVENT;
		if (event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT)
			depth++;
		else if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT)
			depth--;
		yaml_event_delete(&event);
		if (depth > MAX_DEPTH)
			return hvd_err_set(err, HVD_E_USAGE, "%s:%zu: maps and lists cannot be nested any deeper", path,
					   line);
		if (++nodes > MAX_NODES)
			return hvd_err_set(err, HVD_E_USAGE, "%s:%zu: the file has more than %d keys and values", path,
					   line, MAX_NODES);
	}
	return 0;
}

int hvd_config_parse(struct hvd_options *o, enum hvd_opt_source from, const char *text, size_t len, const char *path,
		     struct hvd_err *err)
{
	struct reader rd = {.o = o, .from = from, .path = path, .err = err};
	HVD_CLEANUP(yaml_parser_delete) yaml_parser_t parser = {0};
	const yaml_node_t *root;
	int rc = 0;

	if (len > MAX_FILE)
		return hvd_err_set(err, HVD_E_USAGE, "the configuration file %s is larger than %d bytes", path,
				   MAX_FILE);
	if (check_extent(text, len, path, err) != 0)
		return -1;
	if (!yaml_parser_initialize(&parser))
		return hvd_err_set(err, HVD_E_SYS, "cannot set up the YAML parser");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &rd.doc))
		return not_valid(&parser, path, err);
	root = yaml_document_get_root_node(&rd.doc); /* NULL for an empty file */
	if (root && root->type != YAML_MAPPING_NODE) {
		rc = complain(&rd, root, "the file must be a map of keys and values");
	} else if (root) {
		rd.horovodruns = from == HVD_FROM_CONFIG && (o->as_horovodrun || is_horovodruns(&rd, root));
		rc = read_map(&rd, root, "");
	}
	yaml_document_delete(&rd.doc);
	return rc;
}

static int read_file(struct hvd_options *o, enum hvd_opt_source from, const char *path, struct hvd_err *err)
{
	hvd_cleanup_fclose FILE *file = fopen(path, "re");
	hvd_cleanup_free char *text = NULL;
	size_t n;

	if (!file) {
		hvd_err_sys(err, "cannot open the configuration file %s", path);
		err->code = HVD_E_USAGE;
		return -1;
	}
	text = hvd_xcalloc(MAX_FILE + 1, 1);
	n = fread(text, 1, MAX_FILE + 1, file);
	if (ferror(file))
		return hvd_err_sys(err, "cannot read the configuration file %s", path);
	return hvd_config_parse(o, from, text, n, path, err);
}

int hvd_config_load(struct hvd_options *o, struct hvd_err *err)
{
	if (access(SITE_FILE, F_OK) == 0 && read_file(o, HVD_FROM_SITE, SITE_FILE, err) != 0)
		return -1;
	if (o->config_file && read_file(o, HVD_FROM_CONFIG, o->config_file, err) != 0)
		return -1;
	return 0;
}
