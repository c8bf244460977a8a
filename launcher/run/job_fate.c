/* SPDX-License-Identifier: Apache-2.0 */
#include "job_fate.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "slurm/slurm.h"

#include <stdlib.h>

#define ANSWER_SECONDS 2.0

char *hvd_job_fate(uint32_t job)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	const char *fate;

	if (!job || hvd_slurm_job_get(job, &info, hvd_deadline_in(ANSWER_SECONDS), NULL) != 0)
		return NULL;
	fate = info.fate ? info.fate : info.preempted ? "is being preempted" : NULL;
	return fate ? hvd_xasprintf("job %u %s", (unsigned)job, fate) : NULL;
}

bool hvd_job_paused(uint32_t job, const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	struct hvd_err err = {0};

	if (hvd_slurm_job_get(job, &info, hvd_deadline_in(ANSWER_SECONDS), &err) == 0)
		return info.paused;
	hvd_verbose(log, "cannot tell whether job %u is suspended: %s", (unsigned)job, err.msg);
	return false;
}
