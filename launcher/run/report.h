/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what hvdrun tells of a launch besides its messages: --dry-run, --json, --check-build, and the last
 * words of horovodrun.
 */
#ifndef HVD_REPORT_H
#define HVD_REPORT_H

#include "launcher/backends/backend.h"
#include "launcher/driver/driver.h"
#include "run.h"

/* Print what would run, to standard output: for people, or as one JSON object. Returns the exit status. */
int hvd_report_dry_run(const struct hvd_launch *launch, const struct hvd_backend *backend, bool json);

/* One line of JSON about a launch that has ended, to standard error: standard output is the ranks'. */
void hvd_report_result(const struct hvd_result *result, const struct hvd_backend *backend);

/* Called as horovodrun, and the job has failed: say it in the sentence of horovodrun's that scripts look for, behind
 * what was said of the failure itself. */
void hvd_report_as_horovodrun(const struct hvd_launch *launch, const struct hvd_backend *backend,
			      const struct hvd_result *result);

/* What this build can do, and what Horovod was built for, as it says itself; takes as long as that does. Caller frees.
 */
char *hvd_report_build(char *const *envp);

#endif
