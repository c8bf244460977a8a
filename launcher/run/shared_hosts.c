/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_hosts.h"

#include "launcher/driver/relays.h"
#include "lib/base/cleanup.h"
#include "lib/process/call.h"
#include "slurm/slurm.h"

#include <stdio.h>
#include <string.h>

#define MAX_ANSWER 4096

/* Write "0", "1" or why Slurm cannot tell. */
static void ask(int out, void *arg)
{
	const uint32_t job = *(const uint32_t *)arg;
	struct hvd_err err = {0};
	bool shared = false;

	if (hvd_slurm_job_shared(job, &shared, &err) == 0)
		dprintf(out, "%d", shared);
	else
		dprintf(out, "%s", err.msg);
}

bool hvd_shared_hosts_own(uint32_t job, double seconds, const struct hvd_log *log)
{
	struct hvd_err err = {0};
	size_t len;
	hvd_cleanup_free char *said =
		hvd_call(ask, &job, "Slurm", MAX_ANSWER, hvd_deadline_in(seconds), &len, NULL, &err);

	if (!said || (strcmp(said, "0") != 0 && strcmp(said, "1") != 0))
		hvd_verbose(log, "cannot tell whether other users have processes on these hosts: %s",
			    said ? said : err.msg);
	return said && strcmp(said, "0") == 0;
}

void hvd_shared_hosts_ask(uint32_t job, double seconds, struct hvd_driver_opts *opts, const struct hvd_log *log)
{
	if (hvd_relays_ask_own(opts))
		opts->hosts_own = hvd_shared_hosts_own(job, seconds, log);
}
