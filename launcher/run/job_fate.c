/* SPDX-License-Identifier: Apache-2.0 */
#include "job_fate.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "slurm/slurm.h"

char *hvd_job_fate(uint32_t job)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};

	if (!job || hvd_slurm_job_get(job, &info, NULL) != 0 || !info.fate)
		return NULL;
	return hvd_xasprintf("job %u %s", (unsigned)job, info.fate);
}
