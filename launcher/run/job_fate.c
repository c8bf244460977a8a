/* SPDX-License-Identifier: Apache-2.0 */
#include "job_fate.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "slurm/slurm.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_SECONDS 2.0
#define MAX_ANSWER     4096

char *hvd_job_fate(uint32_t job)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};

	if (!job || hvd_slurm_job_get(job, &info, NULL) != 0 || (!info.fate && !info.preempted))
		return NULL;
	return hvd_xasprintf("job %u %s", (unsigned)job, info.fate ? info.fate : "is being preempted");
}

/* Write "0", "1" or why Slurm cannot tell. */
static void ask(int out, void *arg)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	struct hvd_err err = {0};

	if (hvd_slurm_job_get(*(const uint32_t *)arg, &info, &err) == 0)
		dprintf(out, "%d", info.paused);
	else
		dprintf(out, "%s", err.msg);
}

bool hvd_job_paused(uint32_t job, const struct hvd_log *log)
{
	struct hvd_err err = {0};
	size_t len;
	hvd_cleanup_free char *said =
		hvd_call(ask, &job, "Slurm", MAX_ANSWER, hvd_deadline_in(ANSWER_SECONDS), &len, NULL, &err);

	if (!said || (strcmp(said, "0") != 0 && strcmp(said, "1") != 0))
		hvd_verbose(log, "cannot tell whether job %u is suspended: %s", (unsigned)job, said ? said : err.msg);
	return said && strcmp(said, "1") == 0;
}
