/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_parts.h - the words of each role of a command line or a file, before the tables read their values. Only files of
 * this folder include it; role_specs.h is for all others.
 */
#ifndef HVD_ROLE_PARTS_H
#define HVD_ROLE_PARTS_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "optable.h"

#include <stdbool.h>
#include <stddef.h>

struct hvd_role_specs;

struct hvd_role_part {
	struct hvd_strv options; /* of this role, as on a command line */
	struct hvd_strv command; /* has a word */
	bool named;              /* the options have --role */
	char *where;             /* "FILE:LINE", for messages; NULL: a command line */
};

/* A zeroed struct has no parts. */
struct hvd_role_parts {
	struct hvd_strv launch; /* options of the launch, as on a command line */
	struct hvd_role_part *v;
	size_t n, room;
	const char *file;            /* --roles; points into the command line. Then there are no parts yet */
	enum hvd_opt_family primary; /* how letters were read */
	const char *ray;             /* --ray, "" without a value; points into the command line or is constant */
};

/* A new part at the end; valid until the next call. */
struct hvd_role_part *hvd_role_parts_add(struct hvd_role_parts *parts);
void hvd_role_parts_clear(struct hvd_role_parts *parts);

/* role_line.c: split a command line at its colons. -1 with HVD_E_USAGE. */
int hvd_role_line_split(struct hvd_role_parts *parts, int argc, char *const *argv, struct hvd_err *err);
/* role_ray.c: replace the only part, whose command line has --ray, by its roles. -1 with HVD_E_USAGE. */
int hvd_role_ray_expand(struct hvd_role_parts *parts, struct hvd_err *err);
/* role_file.c: add the parts of a file, and put the options of the launch that it has in front of those that are there. `path`
 * is for messages. -1 with HVD_E_USAGE. */
int hvd_role_file_parse(struct hvd_role_parts *parts, const char *text, size_t len, const char *path,
			struct hvd_err *err);
/* role_check.c: the rules between roles. -1 with HVD_E_USAGE. */
int hvd_role_specs_check(const struct hvd_role_specs *specs, struct hvd_err *err);

#endif
