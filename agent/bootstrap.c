/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap.h"

#include "lib/protocol/preamble.h"
#include "stdin_bootstrap.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Take over what the launcher has sent on stdin. */
static int read_stdin(struct hvd_bootstrap *start, const struct hvd_bootstrap_opts *opts)
{
	struct hvd_err err = {0};
	int status = hvd_stdin_bootstrap_enter(&start->boot, &start->args, &err);

	/* LSF's launchers may lose this process's output and exit status, so the driver is told. */
	if (status == HVD_PREAMBLE_NO_DIRECTORY && opts->refuses) {
		start->refusal = err;
		hvd_err_hint(&start->refusal,
			     "start hvdrun in a directory that exists under the same path on all hosts");
		return 0;
	}
	if (status == 0 && opts->input && hvd_stdin_bootstrap_input(opts->input, start->info.rank, &err) != 0)
		status = 1;
	else if (status != 0)
		hvd_err_host(&err, start->info.name);
	if (status != 0)
		hvd_log_err(&start->log, &err);
	return status;
}

enum hvd_log_level hvd_bootstrap_level(const struct hvd_boot *boot)
{
	return boot->verbose > 1 ? HVD_LOG_DEBUG : boot->verbose ? HVD_LOG_VERBOSE : HVD_LOG_INFO;
}

/* Returns 0, or the exit status to end with, after saying why. */
static int find_out(struct hvd_bootstrap *start, const struct hvd_bootstrap_opts *opts, const struct hvd_log *log)
{
	const char *text = opts->from_stdin ? "" : getenv(HVD_BOOT_ENV);
	struct hvd_err err = {0};
	char host[256] = "";
	int status = 0;

	*start = (struct hvd_bootstrap){.log = *log};
	/* That a peer is gone is an error to handle here; the command starts with the default. */
	signal(SIGPIPE, SIG_IGN);
	if (!text) {
		hvd_error(log, "%s is not set: hvd-agent is started by srun --hvd and hvdrun, not by hand",
			  HVD_BOOT_ENV);
		return 2;
	}
	if ((!opts->from_stdin && hvd_boot_parse(text, &start->boot, &err) != 0) ||
	    opts->find(opts->arg, &start->info, &err) != 0) {
		/* It is not known here what the scheduler calls this host. */
		if (!err.host[0] && gethostname(host, sizeof(host) - 1) == 0)
			hvd_err_host(&err, host);
		hvd_log_err(log, &err);
		return 1;
	}
	if (opts->from_stdin)
		status = read_stdin(start, opts);
	start->log.level = hvd_bootstrap_level(&start->boot);
	return status;
}

int hvd_bootstrap_run(const struct hvd_bootstrap_opts *opts, const struct hvd_log *log)
{
	struct hvd_bootstrap start;
	int status = find_out(&start, opts, log);

	if (status == 0)
		status = opts->run(&start, opts->arg);
	hvd_strv_free(&start.args);
	hvd_taskinfo_free(&start.info);
	return status;
}
