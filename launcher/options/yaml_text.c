/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml_text.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <string.h>

/* Limits on what a file may hold: libyaml looks at every open bracket again for each word, and 300,000 brackets kept it
 * busy for minutes. */
#define MAX_FILE  (64 * 1024)
#define MAX_DEPTH 8
#define MAX_NODES 4096
#define MAX_LIST  256

int hvd_yaml_complain(struct hvd_err *err, const char *path, const yaml_node_t *node, const char *what)
{
	return hvd_err_set(err, HVD_E_USAGE, "%s:%zu: %s", path, node->start_mark.line + 1, what);
}

const char *hvd_yaml_plain(const yaml_node_t *node)
{
	if (node->type != YAML_SCALAR_NODE || strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
		return NULL;
	return (const char *)node->data.scalar.value;
}

char *hvd_yaml_join(yaml_document_t *doc, const yaml_node_t *list, const yaml_node_t **bad)
{
	const yaml_node_item_t *item = list->data.sequence.items.start;
	hvd_cleanup_free char *text = hvd_xstrdup("");
	int n = 0;

	for (; item < list->data.sequence.items.top; item++) {
		*bad = yaml_document_get_node(doc, *item);
		if (!hvd_yaml_plain(*bad) || ++n > MAX_LIST)
			return NULL;
		hvd_xappendf(&text, "%s%s", *text ? "," : "", hvd_yaml_plain(*bad));
	}
	return hvd_take_ptr(&text);
}

char *hvd_yaml_read(const char *path, const char *what, size_t *len, struct hvd_err *err)
{
	char *text = hvd_read_file(path, MAX_FILE, what, len, err);

	if (!text && err)
		err->code = HVD_E_USAGE;
	return text;
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

int hvd_yaml_load(yaml_document_t *doc, const char *text, size_t len, const char *path, struct hvd_err *err)
{
	HVD_CLEANUP(yaml_parser_delete) yaml_parser_t parser = {0};

	if (len > MAX_FILE)
		return hvd_err_set(err, HVD_E_USAGE, "the configuration file %s is larger than %d bytes", path,
				   MAX_FILE);
	if (check_extent(text, len, path, err) != 0)
		return -1;
	if (!yaml_parser_initialize(&parser))
		return hvd_err_set(err, HVD_E_SYS, "cannot set up the YAML parser");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, doc))
		return not_valid(&parser, path, err);
	return 0;
}
