/* SPDX-License-Identifier: Apache-2.0 */
#include "job_fate.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "slurm/slurm.h"

#include <stdio.h>

#define ANSWER_SECONDS 2.0
#define MAX_ANSWER     4096

/* Write whether the job is paused, "0" or "1", and behind it its fate; or why Slurm cannot tell. */
static void ask(int out, void *arg)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	struct hvd_err err = {0};
	const char *fate;

	if (hvd_slurm_job_get(*(const uint32_t *)arg, &info, &err) != 0) {
		dprintf(out, "%s", err.msg);
		return;
	}
	fate = info.fate ? info.fate : info.preempted ? "is being preempted" : "";
	dprintf(out, "%d%s", info.paused, fate);
}

/* What ask() writes, with '0' or '1' in front; NULL with err set. The caller frees it. libslurm knows no deadline, so a
 * process of its own asks. */
static char *answer(uint32_t job, struct hvd_err *err)
{
	size_t len;
	hvd_cleanup_free char *said =
		hvd_call(ask, &job, "Slurm", MAX_ANSWER, hvd_deadline_in(ANSWER_SECONDS), &len, NULL, err);

	if (said && *said != '0' && *said != '1') {
		hvd_err_set(err, HVD_E_SYS, "%s", said);
		return NULL;
	}
	return hvd_take_ptr(&said);
}

char *hvd_job_fate(uint32_t job)
{
	struct hvd_err err = {0};
	hvd_cleanup_free char *said = job ? answer(job, &err) : NULL;

	return said && said[1] ? hvd_xasprintf("job %u %s", (unsigned)job, said + 1) : NULL;
}

bool hvd_job_paused(uint32_t job, const struct hvd_log *log)
{
	struct hvd_err err = {0};
	hvd_cleanup_free char *said = answer(job, &err);

	if (!said)
		hvd_verbose(log, "cannot tell whether job %u is suspended: %s", (unsigned)job, err.msg);
	return said && *said == '1';
}
