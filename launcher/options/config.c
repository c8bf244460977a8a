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
#include "yaml_text.h"

#include <string.h>
#include <unistd.h>

#define SITE_FILE HVD_SYSCONFDIR "/hvd.conf"

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
	return hvd_yaml_complain(rd->err, rd->path, node, what);
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
	const yaml_node_t *bad = node;
	hvd_cleanup_free char *list = hvd_yaml_join(&rd->doc, node, &bad);

	if (!list)
		return complain(rd, bad, "a list must contain plain values, at most 256");
	return set_value(rd, node, key, list);
}

/* Was the file written for horovodrun? Then it has keys of horovodrun, and none that only hvdrun has. */
static bool is_horovodruns(struct reader *rd, const yaml_node_t *root)
{
	const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
	bool some = false;

	for (; pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *name = yaml_document_get_node(&rd->doc, pair->key);
		const char *text = hvd_yaml_plain(name) ? hvd_yaml_plain(name) : "";

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

	text = hvd_yaml_plain(name);
	if (!text)
		return complain(rd, name, "a key must be a plain name");
	key = hvd_xasprintf("%s%s%s", prefix, *prefix ? "." : "", text);
	if (rd->horovodruns && !hvd_options_setting(key) && (*prefix || !hvd_options_settings_below(key)))
		return pass_over(rd, name, key);
	if (value->type == YAML_MAPPING_NODE && !*prefix)
		return read_map(rd, value, key);
	if (value->type == YAML_MAPPING_NODE)
		return complain(rd, value, "maps cannot be nested any deeper");
	if (value->type == YAML_SEQUENCE_NODE)
		return set_list(rd, value, key);
	if (!hvd_yaml_plain(value))
		return complain(rd, value, "a value contains a NUL byte");
	return set_value(rd, name, key, hvd_yaml_plain(value));
}

static int read_map(struct reader *rd, const yaml_node_t *map, const char *prefix)
{
	const yaml_node_pair_t *pair = map->data.mapping.pairs.start;

	for (; pair < map->data.mapping.pairs.top; pair++)
		if (read_pair(rd, pair, prefix) != 0)
			return -1;
	return 0;
}

int hvd_config_parse(struct hvd_options *o, enum hvd_opt_source from, const char *text, size_t len, const char *path,
		     struct hvd_err *err)
{
	struct reader rd = {.o = o, .from = from, .path = path, .err = err};
	const yaml_node_t *root;
	int rc = 0;

	if (hvd_yaml_load(&rd.doc, text, len, path, err) != 0)
		return -1;
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
	size_t len;
	hvd_cleanup_free char *text = hvd_yaml_read(path, "the configuration file", &len, err);

	return text ? hvd_config_parse(o, from, text, len, path, err) : -1;
}

int hvd_config_load(struct hvd_options *o, struct hvd_err *err)
{
	if (access(SITE_FILE, F_OK) == 0 && read_file(o, HVD_FROM_SITE, SITE_FILE, err) != 0)
		return -1;
	if (o->config_file && read_file(o, HVD_FROM_CONFIG, o->config_file, err) != 0)
		return -1;
	return 0;
}
