/* SPDX-License-Identifier: Apache-2.0 */
/* report_command.h - hvdrun --report-of: makes the page of --report of a file of --events, or of a part of one. */
#ifndef HVD_REPORT_COMMAND_H
#define HVD_REPORT_COMMAND_H

#include "lib/base/err.h"
#include "lib/base/log.h"

/* Read the events, and write the page to `path`; NULL: to stdout. Lines that are no events are counted, and the page says
 * so. -1 with err set: HVD_E_USAGE if the file cannot be read, or holds no event at all. */
int hvd_report_command(const char *events, const char *path, const struct hvd_log *log, struct hvd_err *err);

#endif
