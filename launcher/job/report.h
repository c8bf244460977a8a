/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what hvdrun prints of a launch besides its messages: --dry-run, --json, --check-build, and the message
 * with which horovodrun ends.
 */
#ifndef HVD_REPORT_H
#define HVD_REPORT_H

#include "launcher/start/backend.h"
#include "run.h"

/* Print what would run to standard output: for people, or as one JSON object. Returns hvdrun's exit status; -1 with err
 * set: there are not enough hosts for all roles. */
int hvd_report_dry_run(const struct hvd_launch *launch, const struct hvd_backend *backend, bool json,
		       struct hvd_err *err);

/* Print one line of JSON about a launch that has ended. It goes to standard error, since standard output is the ranks'.
 * `backend` may be NULL. */
void hvd_report_result(const struct hvd_result *result, const struct hvd_backend *backend);

/* When hvdrun was called as horovodrun and the job has failed: print the sentence with which horovodrun ends, which
 * scripts look for. */
void hvd_report_as_horovodrun(const struct hvd_launch *launch, const struct hvd_backend *backend,
			      const struct hvd_result *result);

/* The text of --check-build: what this build can do, and what Horovod says that it was built for. Waits for Horovod,
 * two minutes at most. Caller frees. */
char *hvd_report_build(char *const *envp);

#endif
