/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml_text.h - the YAML files that users write, within limits. Only files of this folder include it.
 */
#ifndef HVD_YAML_TEXT_H
#define HVD_YAML_TEXT_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

/* The text of a file of at most 64 KiB, which the caller frees; `what` is as in hvd_read_file(). NULL with err set,
 * HVD_E_USAGE. */
char *hvd_yaml_read(const char *path, const char *what, size_t *len, struct hvd_err *err);

/* Load a text of at most 64 KiB, whose maps and lists are not nested too deeply; `path` is for messages.
 * Returns 0, and the caller deletes the document; -1 with err set, HVD_E_USAGE but for the lack of resources. Untrusted
 * input is fine. */
int hvd_yaml_load(yaml_document_t *doc, const char *text, size_t len, const char *path, struct hvd_err *err);

/* Is it a text without a NUL byte? Then the text, which belongs to the document, else NULL. */
const char *hvd_yaml_plain(const yaml_node_t *node);

/* The values of a list, with commas between them; the caller frees the text. NULL with *bad set to the first entry that is
 * no plain value, or one too many: more than 256. */
char *hvd_yaml_join(yaml_document_t *doc, const yaml_node_t *list, const yaml_node_t **bad);

/* Complain of a node: "PATH:LINE: what". Always returns -1. */
int hvd_yaml_complain(struct hvd_err *err, const char *path, const yaml_node_t *node, const char *what);

#endif
