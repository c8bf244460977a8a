/* SPDX-License-Identifier: Apache-2.0 */
/* machine_opts.c - the state machine as the launch spec has it, with its policy. */
#include "elastic.h"
#include "lib/base/xalloc.h"
#include "machine_internal.h"

/* After a failure: how long the others wait for a rank that is silent before it is replaced, unless the launch spec
 * says otherwise; */
#define SILENT_SECONDS 1.0
/* … where its connections were killed: then it does not wait for a dead peer, but is at work. */
#define KILL_SECONDS 15.0
/* How long those that train wait for a worker that should arrive, and for one that should end; --elastic-timeout may be
 * longer. */
#define PATIENCE_SECONDS 600.0
/* A worker that is ended gets SIGTERM, and SIGKILL so many seconds later. Where all are started anew a worker may write
 * a checkpoint; torchrun gives it as long. */
#define GRACE_SECONDS      1.0
#define CHECKPOINT_SECONDS 30.0
/* Hosts that come one after the other within this time change the job once. */
#define SETTLE_SECONDS 3.0

struct hvd_machine_opts hvd_elastic_machine_opts(const struct hvd_launch_spec *spec)
{
	const double silent = spec->elastic.silent, timeout = spec->elastic.timeout;

	return (struct hvd_machine_opts){
		.np = spec->elastic.first_np,
		.min_np = spec->elastic.min_np ? spec->elastic.min_np : spec->elastic.first_np,
		.max_np = spec->elastic.max_np,
		.reset_limit = spec->elastic.reset_limit,
		.restart = spec->elastic.max_restarts >= 0,
		.max_restarts = spec->elastic.max_restarts,
		.grace = spec->elastic.max_restarts >= 0 ? CHECKPOINT_SECONDS : GRACE_SECONDS,
		.elastic_timeout = timeout,
		.patience = timeout > PATIENCE_SECONDS ? timeout : PATIENCE_SECONDS,
		.cooldown_min = spec->elastic.cooldown_min,
		.cooldown_max = spec->elastic.cooldown_max,
		.silent_grace = silent > 0 ? silent : SILENT_SECONDS,
		.kill_grace = silent > 0 ? silent : KILL_SECONDS,
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
