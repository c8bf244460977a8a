/* SPDX-License-Identifier: Apache-2.0 */
/* role_report.h - for --dry-run: on which hosts the roles of a launch would run, and what. */
#ifndef HVD_ROLE_REPORT_H
#define HVD_ROLE_REPORT_H

#include "launcher/start/backend.h"

#include <jansson.h>

/* The hosts of launch->alloc, as comments for a shell: a line for each world, and its command. -1 with HVD_E_USAGE: there
 * are not enough hosts. The caller frees *text. */
int hvd_role_report_text(const struct hvd_launch *launch, char **text, struct hvd_err *err);
/* The same as a list with an object for each world; NULL: there are not enough hosts. A new reference. */
json_t *hvd_role_report_json(const struct hvd_launch *launch);

#endif
