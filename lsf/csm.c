/* SPDX-License-Identifier: Apache-2.0 */
#include "csm.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml.h>

#define TOOLS   "/opt/ibm/csm/bin"
#define MAX_OUT (16u << 20)
/* Hosts in one call: their names stay far below the limit on a command line. */
#define NAMES_AT_ONCE 128
/* CSM allows no more isolated cores per socket (csmi_allocation.def). */
#define MAX_ISOLATED 4

/* ---- lines ---- */

static bool known_key(const char *key, size_t len)
{
	static const char *const keys[] = {
		"Total_Records",    "allocation_id",    "num_nodes",       "compute_nodes",
		"launch_node_name", "smt_mode",         "num_gpus",        "isolated_cores",
		"node_name",        "discovered_cores", "discovered_gpus", "discovered_sockets",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strlen(keys[i]) == len && memcmp(keys[i], key, len) == 0)
			return true;
	return len > 7 && memcmp(key, "Record_", 7) == 0;
}

/* Does the line have a known key, or is it an item of a list? */
static bool keep(const char *line, size_t len)
{
	size_t at = 0, end;

	while (at < len && line[at] == ' ')
		at++;
	/* " - node" is an item of a list. */
	if (at < len && line[at] == '-' && at + 1 < len && line[at + 1] == ' ')
		return true;
	for (end = at; end < len && line[end] != ':';)
		end++;
	return end < len && known_key(line + at, end - at);
}

/* The lines of `text` that have known keys, and the items of their lists. The caller frees them. */
static char *filter(const char *text, size_t len, size_t *out_len)
{
	char *out = hvd_xcalloc(len + 1, 1);
	bool dropped = true;
	size_t n = 0;

	while (len > 0) {
		const char *eol = memchr(text, '\n', len);
		size_t line = eol ? (size_t)(eol - text) + 1 : len;
		bool item = line > 1 && keep(text, line) && memchr(text, ':', line) == NULL;

		/* An item of a list is dropped with the key in front of it. */
		if (keep(text, line) && !(item && dropped)) {
			memcpy(out + n, text, line);
			n += line;
			dropped = false;
		} else {
			dropped = true;
		}
		text += line;
		len -= line;
	}
	*out_len = n;
	return out;
}

/* ---- YAML ---- */

/* Parse YAML. On success the caller deletes *doc; an empty document has no root. */
static int load(yaml_document_t *doc, const char *text, size_t len, struct hvd_err *err)
{
	yaml_parser_t parser;
	hvd_cleanup_free char *lines = NULL;
	size_t n;
	int rc = 0;

	if (!yaml_parser_initialize(&parser))
		return hvd_err_set(err, HVD_E_SYS, "cannot set up the YAML parser");
	lines = filter(text, len, &n);
	yaml_parser_set_input_string(&parser, (const unsigned char *)lines, n);
	if (!yaml_parser_load(&parser, doc))
		rc = hvd_err_set(err, HVD_E_PROTO, "it is not valid YAML: %s",
				 parser.problem ? parser.problem : "unknown problem");
	yaml_parser_delete(&parser);
	return rc;
}

/* The text of a scalar node; NULL when the node is something else, or has a zero byte in it. */
static const char *scalar(const yaml_node_t *node)
{
	if (!node || node->type != YAML_SCALAR_NODE ||
	    strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
		return NULL;
	return (const char *)node->data.scalar.value;
}

static const yaml_node_t *get(yaml_document_t *doc, const yaml_node_t *map, const char *key)
{
	if (!map || map->type != YAML_MAPPING_NODE)
		return NULL;
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
		const char *name = scalar(yaml_document_get_node(doc, p->key));

		if (name && strcmp(name, key) == 0)
			return yaml_document_get_node(doc, p->value);
	}
	return NULL;
}

/* The number under `key`, from 0 to max; -1: there is none. */
static int get_number(yaml_document_t *doc, const yaml_node_t *map, const char *key, int max)
{
	const char *s = scalar(get(doc, map, key));

	return s ? (int)hvd_digits(s, strlen(s), max) : -1;
}

/* ---- csm_allocation_query ---- */

static int read_nodes(struct hvd_alloc *nodes, yaml_document_t *doc, const yaml_node_t *root, struct hvd_err *err)
{
	const yaml_node_t *list = get(doc, root, "compute_nodes");
	int said = get_number(doc, root, "num_nodes", HVD_MAX_HOSTS);

	if (!list || list->type != YAML_SEQUENCE_NODE)
		return hvd_err_set(err, HVD_E_NOENT, "it lists no compute_nodes");
	for (const yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
		const char *name = scalar(yaml_document_get_node(doc, *i));

		if (!name)
			return hvd_err_set(err, HVD_E_PROTO, "an entry of compute_nodes is not a name");
		if (hvd_alloc_add(nodes, name, 1, err) != 0)
			return -1;
	}
	if (said >= 0 && said != nodes->n_hosts)
		return hvd_err_set(err, HVD_E_PROTO, "it lists %d compute_nodes where num_nodes is %d", nodes->n_hosts,
				   said);
	if (nodes->n_hosts == 0)
		return hvd_err_set(err, HVD_E_NOENT, "it lists no compute_nodes");
	hvd_alloc_merge(nodes);
	if (nodes->slots != nodes->n_hosts)
		return hvd_err_set(err, HVD_E_PROTO, "it lists a node twice");
	return 0;
}

int hvd_csm_parse_job(struct hvd_alloc *nodes, struct hvd_lsf *facts, int *gpus, const char *text, size_t len,
		      struct hvd_err *err)
{
	const yaml_node_t *root;
	yaml_document_t doc;
	const char *launch;
	int rc, isolated;

	memset(nodes, 0, sizeof(*nodes));
	if (load(&doc, text, len, err) != 0)
		return -1;
	root = yaml_document_get_root_node(&doc);
	isolated = get_number(&doc, root, "isolated_cores", INT32_MAX);
	if (get_number(&doc, root, "Total_Records", INT32_MAX) == 0)
		rc = hvd_err_set(err, HVD_E_NOENT, "CSM has no such allocation");
	else
		rc = read_nodes(nodes, &doc, root, err);
	if (rc == 0 && isolated > MAX_ISOLATED)
		rc = hvd_err_set(err, HVD_E_PROTO, "isolated_cores is %d, more than %d per socket", isolated,
				 MAX_ISOLATED);
	if (rc == 0) {
		launch = scalar(get(&doc, root, "launch_node_name"));
		facts->launch_host = launch && *launch ? hvd_xstrdup(launch) : NULL;
		facts->isolated = isolated > 0 ? isolated : 0; /* older releases do not print it */
		facts->smt = get_number(&doc, root, "smt_mode", 64);
		facts->smt = facts->smt > 0 ? facts->smt : 0;
		*gpus = get_number(&doc, root, "num_gpus", HVD_MAX_RANKS);
	} else {
		hvd_alloc_clear(nodes);
	}
	yaml_document_delete(&doc);
	return rc;
}

/* ---- csm_node_attributes_query ---- */

static int read_record(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, yaml_document_t *doc,
		       const yaml_node_t *record, struct hvd_err *err)
{
	const char *name = scalar(get(doc, record, "node_name"));
	int cores = get_number(doc, record, "discovered_cores", 65536);
	int gpus = get_number(doc, record, "discovered_gpus", HVD_MAX_RANKS);
	int sockets = get_number(doc, record, "discovered_sockets", 1024);
	int host = name ? hvd_alloc_find(a, name) : -1;

	if (!name)
		return hvd_err_set(err, HVD_E_PROTO, "a record has no node_name");
	if (host < 0)
		return 0;
	if (cores < 0 || gpus < 0 || sockets < 0)
		return hvd_err_set(err, HVD_E_PROTO, "%.80s: its %s is missing or not a number", name,
				   cores < 0  ? "discovered_cores"
				   : gpus < 0 ? "discovered_gpus"
					      : "discovered_sockets");
	if (cores - sockets * isolated < 1)
		return hvd_err_set(err, HVD_E_PROTO, "%.80s: %d cores on %d sockets, of which %d each are isolated",
				   name, cores, sockets, isolated);
	hosts[host].cores = cores - sockets * isolated;
	hosts[host].sockets = sockets;
	hosts[host].gpus = gpus;
	return 0;
}

int hvd_csm_parse_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, const char *text,
			size_t len, struct hvd_err *err)
{
	const yaml_node_t *root;
	yaml_document_t doc;
	int rc = 0;

	if (load(&doc, text, len, err) != 0)
		return -1;
	root = yaml_document_get_root_node(&doc);
	if (!root || root->type != YAML_MAPPING_NODE || get_number(&doc, root, "Total_Records", INT32_MAX) < 0) {
		yaml_document_delete(&doc);
		return hvd_err_set(err, HVD_E_PROTO, "it has no Total_Records");
	}
	for (const yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top && rc == 0;
	     p++) {
		const char *key = scalar(yaml_document_get_node(&doc, p->key));

		if (key && strncmp(key, "Record_", 7) == 0)
			rc = read_record(hosts, a, isolated, &doc, yaml_document_get_node(&doc, p->value), err);
	}
	yaml_document_delete(&doc);
	return rc;
}

/* ---- the tools ---- */

/* Set an error with the first line of what the tool printed: it writes errors to stdout too. */
static int failed(const char *tool, const char *text, int status, struct hvd_err *err)
{
	char how[64];

	hvd_status_text(status, how, sizeof(how));
	return hvd_err_set(err, HVD_E_FAILED, "%s: %s%s%.*s", tool, how, *text ? ": " : "",
			   strcspn(text, "\n") < 300 ? (int)strcspn(text, "\n") : 300, text);
}

/* The output of `tool option value`. The caller frees it; NULL with err set. */
static char *ask(const char *tool, const char *option, const char *value, char *const *envp, hvd_time deadline,
		 size_t *len, struct hvd_err *err)
{
	const char *const argv[] = {tool, option, value, NULL};
	struct hvd_spawn spawn = {.path = tool, .argv = (char *const *)argv, .envp = envp};
	hvd_cleanup_free char *beside = hvd_xasprintf(TOOLS "/%s", tool), *text = NULL;
	struct hvd_err why = {0};
	int status = 0;

	text = hvd_capture(&spawn, MAX_OUT, deadline, len, &status, &why);
	if (!text && why.code == HVD_E_SYS && access(beside, X_OK) == 0) {
		spawn.path = beside;
		text = hvd_capture(&spawn, MAX_OUT, deadline, len, &status, &why);
	}
	if (!text) {
		if (err)
			*err = why;
		return NULL;
	}
	/* Some releases end with a failure when they find nothing, but print an answer. */
	if (status == 0 || strstr(text, "Total_Records: 0"))
		return hvd_take_ptr(&text);
	failed(tool, text, status, err);
	return NULL;
}

int hvd_csm_query_job(struct hvd_alloc *nodes, struct hvd_lsf *facts, int *gpus, const char *id, char *const *envp,
		      hvd_time deadline, struct hvd_err *err)
{
	static const char tool[] = "csm_allocation_query";
	hvd_cleanup_free char *text = NULL;
	size_t len;

	memset(nodes, 0, sizeof(*nodes));
	if (strlen(id) > 19 || strspn(id, "0123456789") != strlen(id))
		return hvd_err_set(err, HVD_E_PROTO, "CSM_ALLOCATION_ID is '%.40s', not a number", id);
	text = ask(tool, "-a", id, envp, deadline, &len, err);
	if (!text)
		return -1;
	if (hvd_csm_parse_job(nodes, facts, gpus, text, len, err) != 0)
		return hvd_err_prefix(err, "%s -a %s", tool, id);
	return 0;
}

int hvd_csm_query_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, char *const *envp,
			hvd_time deadline, struct hvd_err *err)
{
	static const char tool[] = "csm_node_attributes_query";

	for (int i = 0; i < a->n_hosts;) {
		hvd_cleanup_free char *names = hvd_xstrdup(a->hosts[i++].name), *text = NULL;
		size_t len;

		for (; i < a->n_hosts && i % NAMES_AT_ONCE != 0; i++)
			hvd_xappendf(&names, ",%s", a->hosts[i].name);
		text = ask(tool, "-n", names, envp, deadline, &len, err);
		if (!text)
			return -1;
		if (hvd_csm_parse_nodes(hosts, a, isolated, text, len, err) != 0)
			return hvd_err_prefix(err, "%s", tool);
	}
	for (int i = 0; i < a->n_hosts; i++)
		if (hosts[i].cores < 0)
			return hvd_err_set(err, HVD_E_NOENT, "%s: CSM has no record of %.80s", tool, a->hosts[i].name);
	return 0;
}
