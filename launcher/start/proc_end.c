/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_end.c - how processes of the job are ended.
 *
 * A process that was told to end has a deadline. When it passes, a process that nobody has asked yet gets SIGTERM and
 * a new deadline; then it gets SIGKILL. A process of an elastic job may still have output to pass on to a reader who is
 * slow. While hvdrun's own output is blocked, its deadline is moved; when the output is not blocked, it gets a minute
 * (or a third of that, where its node agent has not left) for what lies between, and then it is killed.
 */
#include "lib/base/timer.h"
#include "output_mux.h"
#include "procs_internal.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* From one look at whether hvdrun's own output is blocked to the next; and how many looks in a row at which it is not
 * a process gets whose node agent has left, or which may not have heard that it is to end. */
#define LOOK_SECONDS 10
#define LEFT_LOOKS   6
#define QUIET_LOOKS  2
/* For output that is on its way, where the process waits for nothing else in vain. */
#define STUCK_SECONDS 3
/* For the node agent of a host without ranks to leave. */
#define IDLE_SECONDS 5

void hvd_proc_signal(const struct hvd_started_proc *p, int sig)
{
	if (p->proc->agent)
		hvd_pool_agent_signal(p->proc->agent, sig);
	else if (p->pid > 0)
		kill(p->procs->backend->launch_proc_ignores_signals ? -p->pid : p->pid, sig);
}

void hvd_proc_set_deadline(struct hvd_started_proc *p, int seconds)
{
	hvd_timer_in_ms(p->deadline, seconds * 1000);
}

/* May the process have output left that is worth waiting for? */
static bool grant_more_time(struct hvd_started_proc *p)
{
	struct hvd_procs *procs = p->procs;
	bool blocked = !hvd_output_mux_has_room(STDOUT_FILENO) || !hvd_output_mux_has_room(STDERR_FILENO);

	if (!procs->opts->elastic || procs->output_dropped || p->cut_short || !(p->agent_left || procs->ending))
		return false;
	p->quiet = blocked ? 0 : p->quiet + 1;
	if (p->stuck)
		return blocked;
	if (p->quiet < (p->agent_left ? LEFT_LOOKS : QUIET_LOOKS))
		return true;
	p->cut_short = true;
	procs->ops->cut_short(p->host, procs->arg);
	return false;
}

void hvd_proc_deadline_passed(void *arg)
{
	struct hvd_started_proc *p = arg;

	if (p->stage == HVD_STAGE_AWAY)
		return;
	if (grant_more_time(p)) {
		hvd_proc_set_deadline(p, LOOK_SECONDS);
		return;
	}
	hvd_proc_signal(p, p->asked ? SIGKILL : SIGTERM);
	p->asked = true;
	hvd_proc_set_deadline(p, (int)p->procs->opts->kill_wait + HVD_PROC_RELEASE_SECONDS);
}

void hvd_procs_end(struct hvd_procs *procs, int seconds)
{
	procs->n = procs->next;
	procs->ending = true;
	for (struct hvd_started_proc *p = procs->first; p; p = p->next) {
		/* Its host was given up: of that nothing is to come. */
		p->stuck |= procs->opts->elastic && p->stage == HVD_STAGE_LEAVING && p->asked;
		p->asked = true;
		if (procs->opts->elastic)
			p->ranks_left = 0; /* their ends are told to the state machine, and not here */
		hvd_proc_set_deadline(p, p->stuck && seconds > STUCK_SECONDS ? STUCK_SECONDS : seconds);
	}
}

void hvd_procs_lost(struct hvd_procs *procs, const char *host)
{
	for (struct hvd_started_proc *p = procs->first; p; p = p->next) {
		if (!p->proc->host || strcmp(p->proc->host, host) != 0 || p->stage == HVD_STAGE_AWAY)
			continue;
		p->stuck = true;
		if (procs->ending)
			hvd_proc_set_deadline(p, STUCK_SECONDS);
	}
}

void hvd_procs_idle(struct hvd_procs *procs, uint32_t host)
{
	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		if (p->host == host && !p->stuck) {
			p->quiet = QUIET_LOOKS; /* as if it had been waited for already */
			hvd_proc_set_deadline(p, IDLE_SECONDS);
		}
}

void hvd_procs_drop_output(struct hvd_procs *procs)
{
	procs->output_dropped = true;
}

void hvd_procs_agent_left(struct hvd_procs *procs, uint32_t host)
{
	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		if (p->host == host && !p->agent_left &&
		    (procs->ending || p->stage == HVD_STAGE_LEAVING || p->stage == HVD_STAGE_AWAY)) {
			p->agent_left = true; /* the oldest of the host's */
			return;
		}
}

bool hvd_procs_stuck(struct hvd_procs *procs, uint32_t host)
{
	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		if (p->host == host && !p->stuck && p->stage != HVD_STAGE_AWAY &&
		    (procs->ending || p->stage == HVD_STAGE_LEAVING)) {
			p->stuck = true;
			hvd_proc_set_deadline(p, STUCK_SECONDS);
			return true;
		}
	return false;
}

void hvd_procs_signal(struct hvd_procs *procs, int sig)
{
	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		hvd_proc_signal(p, sig);
}
