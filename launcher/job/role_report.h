/* SPDX-License-Identifier: Apache-2.0 */
/* role_report.h - for --dry-run: on which hosts the roles of a launch would run, and what. */
#ifndef HVD_ROLE_REPORT_H
#define HVD_ROLE_REPORT_H

#include "launcher/roles/role_hosts.h"
#include "launcher/start/backend.h"

#include <jansson.h>

/* Comments for a shell: a line for each world, with its places in launch->alloc, and its command. The caller frees them. */
char *hvd_role_report_text(const struct hvd_launch *launch, const struct hvd_role_hosts *hosts);
/* The same as a list with an object for each world; a new reference. */
json_t *hvd_role_report_json(const struct hvd_launch *launch, const struct hvd_role_hosts *hosts);

#endif
