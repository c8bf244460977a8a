/* SPDX-License-Identifier: Apache-2.0 */
/* procs.c - the table of a job's processes. Entries of processes that have ended are freed from the event loop, since
 * callers may be at work on the table when that happens. */
#include "procs_internal.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "output_mux.h"
#include "stdin_forward.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* How long after a process has ended the driver may still hear what its node agent said last. */
#define LATE_MS 200
/* How often processes are woken up whose hosts have not registered (wake_signal). */
#define WAKE_MS 250

/* ---- entries ---- */

static void settle(struct hvd_started_proc *p);

static void on_late(void *arg)
{
	settle(arg);
}

static struct hvd_started_proc *new_proc(struct hvd_procs *procs, uint32_t host)
{
	struct hvd_started_proc *p = hvd_xcalloc(1, sizeof(*p));

	p->procs = procs;
	p->host = host;
	p->stage = HVD_STAGE_COMING;
	p->late = hvd_timer_new(procs->base, on_late, p);
	p->deadline = hvd_timer_new(procs->base, hvd_proc_deadline_passed, p);
	return p;
}

static void free_proc(struct hvd_started_proc *p)
{
	if (p->proc && p->proc->agent)
		hvd_pool_agent_stop(p->proc->agent);
	hvd_stdin_forward_destroy(p->stdin_forward);
	if (p->pid > 0)
		hvd_end(p->pid, 1, NULL);
	hvd_timer_free(p->late);
	hvd_timer_free(p->deadline);
	hvd_launch_clear(&p->launch);
	free(p);
}

static void on_sweep(void *arg)
{
	struct hvd_procs *procs = arg;

	procs->last = &procs->first;
	while (*procs->last) {
		struct hvd_started_proc *p = *procs->last;

		if (p->stage == HVD_STAGE_AWAY) {
			*procs->last = p->next;
			free_proc(p);
		} else {
			procs->last = &p->next;
		}
	}
}

/* The process of a host that is still needed. */
static struct hvd_started_proc *find(const struct hvd_procs *procs, uint32_t host)
{
	struct hvd_started_proc *p = procs->first;

	while (p && (p->host != host || p->stage == HVD_STAGE_LEAVING || p->stage == HVD_STAGE_AWAY))
		p = p->next;
	return p;
}

/* ---- starting ---- */

static void on_wake(void *arg)
{
	struct hvd_procs *procs = arg;
	bool any = false;

	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		if (p->pid > 0 && p->stage != HVD_STAGE_HERE) {
			kill(-p->pid, procs->backend->wake_signal);
			any = true;
		}
	if (any)
		hvd_timer_in_ms(procs->wake, WAKE_MS);
}

/* Takes over `p`, also when it cannot be started. */
static int start_proc(struct hvd_started_proc *p, struct hvd_err *err)
{
	struct hvd_procs *procs = p->procs;

	if (hvd_proc_start(p, !procs->launch->another, err) != 0) {
		free_proc(p);
		return -1;
	}
	*procs->last = p;
	procs->last = &p->next;
	procs->running++;
	procs->under_way++;
	procs->launch->another = true;
	if (procs->wake && !hvd_timer_runs(procs->wake))
		hvd_timer_in_ms(procs->wake, WAKE_MS);
	return 0;
}

int hvd_procs_start(struct hvd_procs *procs, struct hvd_err *err)
{
	const struct hvd_alloc *alloc = &procs->launch->alloc;
	unsigned most = procs->backend->fan_out;

	while (procs->next < procs->n && (!most || procs->under_way < most)) {
		struct hvd_started_proc *p = new_proc(procs, (uint32_t)procs->next);

		p->proc = &procs->launch->procs[procs->next];
		if (procs->backend->mode == HVD_START_HOSTS && procs->next < (size_t)alloc->n_hosts)
			p->ranks_left = alloc->hosts[procs->next].slots;
		if (procs->backend->mode == HVD_START_SUPERVISED_RANKS)
			p->ranks_left = alloc->slots;
		if (start_proc(p, err) != 0)
			return -1;
		procs->next++;
	}
	return 0;
}

static void start_more(struct hvd_procs *procs)
{
	struct hvd_err why = {0};

	if (hvd_procs_start(procs, &why) != 0) {
		procs->n = procs->next;
		procs->ops->lost((uint32_t)procs->next, &why, procs->arg);
	}
}

int hvd_procs_start_host(struct hvd_procs *procs, uint32_t host, const struct hvd_alloc_host *listed,
			 struct hvd_err *err)
{
	struct hvd_started_proc *p = new_proc(procs, host);

	if (hvd_launch_for_host(&p->launch, procs->launch, procs->backend, (int)host, listed, err) != 0) {
		free_proc(p);
		return -1;
	}
	p->proc = &p->launch.procs[0];
	p->ranks_left = listed->slots;
	return start_proc(p, err) == 0 ? 0 : hvd_err_host(err, listed->name);
}

void hvd_procs_registered(struct hvd_procs *procs, uint32_t host)
{
	struct hvd_started_proc *p = find(procs, host);

	if (!p || p->stage != HVD_STAGE_COMING)
		return;
	p->stage = HVD_STAGE_HERE;
	procs->under_way--;
	start_more(procs);
}

/* ---- ended ---- */

static void explain(const struct hvd_started_proc *p, struct hvd_err *why)
{
	const struct hvd_procs *procs = p->procs;
	const bool registered = p->stage == HVD_STAGE_HERE;
	char text[64];

	if (procs->backend->explain) {
		procs->backend->explain(procs->launch, p->proc, p->status, registered, why);
	} else {
		hvd_status_text(p->status, text, sizeof(text));
		hvd_err_set(why, HVD_E_FAILED,
			    registered ? "its node agent ended before its ranks did: %s"
				       : "its node agent could not be started: %s",
			    text);
		if (!registered)
			hvd_err_hint(why, "a line of the starter's, or of hvd-agent, above says why");
	}
	if (p->proc->host)
		hvd_err_host(why, p->proc->host);
}

static void settle(struct hvd_started_proc *p)
{
	struct hvd_procs *procs = p->procs;
	const enum hvd_stage stage = p->stage;
	struct hvd_err why = {0};

	procs->running--;
	if (stage == HVD_STAGE_COMING)
		procs->under_way--;
	if (p->ranks_left > 0)
		explain(p, &why);
	p->stage = HVD_STAGE_AWAY;
	if (p->ranks_left > 0)
		procs->ops->lost(p->host, &why, procs->arg);
	if (procs->ops->ended && stage != HVD_STAGE_LEAVING)
		procs->ops->ended(p->status, procs->arg);
	start_more(procs);
	hvd_timer_soon(procs->sweep);
	if (procs->running == 0)
		procs->ops->none_left(procs->arg);
}

void hvd_procs_reap(struct hvd_procs *procs)
{
	int status;

	for (struct hvd_started_proc *p = procs->first; p; p = p->next) {
		/* Only these: other parts of this process may have children, too. */
		if (p->pid <= 0 || waitpid(p->pid, &status, WNOHANG) != p->pid)
			continue;
		p->pid = 0;
		p->status = status;
		/* A process that was killed is itself the reason, whatever is reported of its ranks after that. */
		if (p->ranks_left > 0 && !WIFSIGNALED(status))
			hvd_timer_in_ms(p->late, LATE_MS);
		else
			settle(p);
	}
}

void hvd_procs_rank_ended(struct hvd_procs *procs, const char *host)
{
	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		if (p->ranks_left > 0 && (procs->backend->mode == HVD_START_SUPERVISED_RANKS ||
					  (p->proc->host && strcmp(p->proc->host, host) == 0))) {
			p->ranks_left--;
			return;
		}
}

void hvd_procs_set_ranks(struct hvd_procs *procs, uint32_t host, int ranks)
{
	struct hvd_started_proc *p = find(procs, host);

	if (p)
		p->ranks_left = ranks;
}

void hvd_procs_release(struct hvd_procs *procs, uint32_t host, bool ask)
{
	struct hvd_started_proc *p = find(procs, host);

	if (!p)
		return;
	if (p->stage == HVD_STAGE_COMING)
		procs->under_way--;
	p->stage = HVD_STAGE_LEAVING;
	p->ranks_left = 0;
	p->asked = ask;
	if (ask)
		hvd_proc_signal(p, SIGTERM);
	hvd_proc_set_deadline(p, (int)procs->opts->kill_wait + HVD_PROC_RELEASE_SECONDS);
}

bool hvd_procs_ending(const struct hvd_procs *procs)
{
	return procs->ending;
}

unsigned hvd_procs_running(const struct hvd_procs *procs)
{
	return procs->running;
}

pid_t hvd_procs_pid(const struct hvd_procs *procs)
{
	return procs->first ? procs->first->pid : 0;
}

/* ---- life ---- */

struct hvd_procs *hvd_procs_create(struct event_base *base, struct hvd_launch *launch,
				   const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
				   const struct hvd_procs_ops *ops, void *arg)
{
	struct hvd_procs *procs = hvd_xcalloc(1, sizeof(*procs));

	procs->base = base;
	procs->launch = launch;
	procs->backend = backend;
	procs->opts = opts;
	procs->ops = ops;
	procs->arg = arg;
	procs->last = &procs->first;
	procs->n = launch->n_procs;
	procs->sweep = hvd_timer_new(base, on_sweep, procs);
	if (backend->wake_signal)
		procs->wake = hvd_timer_new(base, on_wake, procs);
	return procs;
}

void hvd_procs_drain(struct hvd_procs *procs)
{
	for (int s = 0; s < 2; s++)
		hvd_output_mux_drain(procs->out[s]);
}

int hvd_procs_destroy(struct hvd_procs *procs)
{
	int rc = 0;

	if (!procs)
		return 0;
	while (procs->first) {
		struct hvd_started_proc *next = procs->first->next;

		free_proc(procs->first);
		procs->first = next;
	}
	hvd_timer_free(procs->sweep);
	hvd_timer_free(procs->wake);
	for (int s = 0; s < 2; s++) {
		errno = hvd_output_mux_finish(procs->out[s]);
		if (!errno)
			continue;
		rc = -1;
		hvd_error(procs->launch->log, "output of ranks is lost: cannot write to standard %s: %s",
			  s ? "error" : "output", strerror(errno));
	}
	free(procs);
	return rc;
}
