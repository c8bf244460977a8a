/* SPDX-License-Identifier: Apache-2.0 */
/* machine_opts.c - the options of the state machine, from the launch spec. */
#include "elastic.h"
#include "launcher/world/machine_internal.h"
#include "lib/base/xalloc.h"

/* After a failure: how long the others wait for a silent rank before it is replaced, unless the launch spec sets
 * another time; */
#define SILENT_SECONDS 1.0
/* The same if its connections were killed: then it does not wait for a dead peer, but is at work. */
#define KILL_SECONDS 15.0
/* How long training ranks wait for a worker to arrive, and for one to end; --elastic-timeout may be longer. */
#define PATIENCE_SECONDS 600.0
/* How long a next generation waits for the checks of hosts after the last rank has ended. */
#define CHECK_SECONDS 2.0
/* New hosts that appear one after the other within this time change the job once. */
#define SETTLE_SECONDS 3.0

struct hvd_machine_opts hvd_elastic_machine_opts(const struct hvd_launch_spec *spec, double kill_wait)
{
	const double silent = spec->elastic.silent, timeout = spec->elastic.timeout;
	/* How many ranks there are without the spare hosts is known when the hosts are. */
	const int first = spec->spares > 0 && !spec->ranks.n ? 0 : spec->elastic.first_np;

	return (struct hvd_machine_opts){
		.np = first,
		.min_np = spec->elastic.min_np ? spec->elastic.min_np : first,
		.max_np = spec->elastic.max_np,
		.spares = spec->spares,
		.reset_limit = spec->elastic.reset_limit,
		.restart = spec->max_restarts >= 0,
		.max_restarts = spec->max_restarts,
		.max_idle = spec->max_idle_restarts,
		.progress_after = spec->progress_file ? -1 : spec->restart_window,
		.grace = kill_wait,
		.elastic_timeout = timeout,
		.patience = timeout > PATIENCE_SECONDS ? timeout : PATIENCE_SECONDS,
		.cooldown_min = spec->elastic.cooldown_min,
		.cooldown_max = spec->elastic.cooldown_max,
		.silent_grace = silent > 0 ? silent : SILENT_SECONDS,
		.kill_grace = silent > 0 ? silent : KILL_SECONDS,
		.check_wait = spec->preflight ? CHECK_SECONDS : 0,
		.settle = SETTLE_SECONDS,
	};
}

struct hvd_machine *hvd_machine_create(const struct hvd_machine_opts *opts, hvd_time now,
				       const struct hvd_machine_ops *ops, void *arg, const struct hvd_log *log)
{
	struct hvd_machine *m = hvd_xcalloc(1, sizeof(*m));

	m->opts = *opts;
	m->policy = opts->restart ? &hvd_policy_restart : &hvd_policy_horovod;
	m->ops = ops;
	m->arg = arg;
	m->log = log;
	m->phase = HVD_WAITING;
	m->waiting_since = now;
	m->due = hvd_after(now, opts->elastic_timeout);
	return m;
}
