/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_procs.c - a launch of one host for each of them (procs.h). One that has ended is put away from the event loop.
 *
 * What runs a shim is killed when it does not end in time. Where only output is left to be passed on, that is as long
 * as the reader takes, and a minute for what lies between.
 */
#include "agent_procs.h"

#include "lib/base/xalloc.h"
#include "output_mux.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A shim that was told to end has its ranks' grace of five seconds, and then this. */
#define RELEASE_SECONDS 8
/* The same at the end of the job; and how often it is looked whether there is still output on its way. */
#define END_SECONDS 10
#define DRAIN_TIMES 6
/* … and whether shims that were told to end have heard of it. */
#define SILENT_TIMES 3

struct agent_proc {
	struct hvd_agent_procs *owner;
	struct agent_proc *next;
	uint32_t host;
	struct hvd_launch launch;
	struct hvd_procs *procs;
	struct event *patience;
	bool wanted, asked, over; /* asked: by SIGTERM, or need not be */
	bool left;                /* the shim has ended */
	bool cut;
	int drained; /* so many times, nobody had to wait for our own reader */
};

struct hvd_agent_procs {
	struct event_base *base;
	const struct hvd_launch *launch;
	const struct hvd_backend *backend;
	const struct hvd_procs_opts *opts;
	const struct hvd_agent_procs_ops *ops;
	void *arg;
	struct agent_proc *first;
	struct event *sweep;
	unsigned running;
	bool any; /* … has ever been started */
	bool ending, at_once;
};

static void put_away(struct agent_proc *s)
{
	if (hvd_procs_destroy(s->procs) != 0)
		s->owner->ops->output_lost(s->owner->arg);
	event_free(s->patience);
	hvd_launch_clear(&s->launch);
	free(s);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_agent_procs *agent_procs = arg;

	(void)fd;
	(void)what;
	for (struct agent_proc **at = &agent_procs->first; *at;) {
		struct agent_proc *s = *at;

		if (!s->over) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		put_away(s);
	}
}

static void on_ended(int status, void *arg)
{
	(void)status;
	(void)arg;
}

static void on_lost(const struct hvd_err *why, void *arg)
{
	struct agent_proc *s = arg;

	if (s->wanted)
		s->owner->ops->lost(s->host, why, s->owner->arg);
	s->wanted = false;
}

static void on_all_ended(void *arg)
{
	struct agent_proc *s = arg;
	struct hvd_agent_procs *agent_procs = s->owner;

	s->over = true;
	s->wanted = false;
	event_active(agent_procs->sweep, EV_TIMEOUT, 0);
	if (--agent_procs->running == 0)
		agent_procs->ops->none_left(agent_procs->arg);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct timeval tv = {.tv_sec = RELEASE_SECONDS};
	struct agent_proc *s = arg;

	(void)fd;
	(void)what;
	if (s->over)
		return;
	if ((s->left || s->owner->ending) && !s->owner->at_once && !s->cut) {
		s->drained = hvd_output_mux_has_room(STDOUT_FILENO) && hvd_output_mux_has_room(STDERR_FILENO)
				     ? s->drained + 1
				     : 0;
		if (s->drained < (s->left ? DRAIN_TIMES : SILENT_TIMES)) {
			tv.tv_sec = END_SECONDS;
			evtimer_add(s->patience, &tv);
			return;
		}
		s->cut = true;
		s->owner->ops->cut_short(s->host, s->owner->arg);
	}
	hvd_procs_signal(s->procs, s->asked ? SIGKILL : SIGTERM);
	s->asked = true;
	evtimer_add(s->patience, &tv);
}

int hvd_agent_procs_start(struct hvd_agent_procs *agent_procs, uint32_t host, const char *name, int slots, uint32_t job,
			  struct hvd_err *err)
{
	static const struct hvd_procs_ops ops = {.ended = on_ended, .lost = on_lost, .all_ended = on_all_ended};
	struct agent_proc *s = hvd_xcalloc(1, sizeof(*s));

	s->owner = agent_procs;
	s->host = host;
	s->launch = *agent_procs->launch;
	s->launch.procs = NULL;
	s->launch.n_procs = 0;
	s->launch.first_host = (int)host;
	s->launch.job = job;
	s->launch.another = agent_procs->any;
	memset(&s->launch.alloc, 0, sizeof(s->launch.alloc));
	memset(&s->launch.lsf, 0, sizeof(s->launch.lsf));
	s->patience = evtimer_new(agent_procs->base, on_patience, s);
	if (hvd_alloc_add(&s->launch.alloc, name, slots, err) == 0) {
		hvd_alloc_merge(&s->launch.alloc);
		if (hvd_backend_add_host(agent_procs->backend, &s->launch, err) == 0) {
			s->procs = hvd_procs_create(agent_procs->base, &s->launch, agent_procs->backend,
						    agent_procs->opts, &ops, s);
			s->wanted = true;
			if (hvd_procs_start(s->procs, err) == 0) {
				s->next = agent_procs->first;
				agent_procs->first = s;
				agent_procs->running++;
				agent_procs->any = true;
				return 0;
			}
		}
	}
	hvd_err_host(err, name);
	put_away(s);
	return -1;
}

static struct agent_proc *find(struct hvd_agent_procs *agent_procs, uint32_t host)
{
	struct agent_proc *s = agent_procs->first;

	while (s && !(s->host == host && s->wanted))
		s = s->next;
	return s;
}

void hvd_agent_procs_came(struct hvd_agent_procs *agent_procs, uint32_t host)
{
	struct agent_proc *s = find(agent_procs, host);

	if (s)
		hvd_procs_came(s->procs, 0);
}

void hvd_agent_procs_release(struct hvd_agent_procs *agent_procs, uint32_t host, bool hard)
{
	struct timeval tv = {.tv_sec = RELEASE_SECONDS};
	struct agent_proc *s = find(agent_procs, host);

	if (!s)
		return;
	s->wanted = false;
	s->asked = hard;
	hvd_procs_release(s->procs);
	if (hard)
		hvd_procs_signal(s->procs, SIGTERM);
	evtimer_add(s->patience, &tv);
}

void hvd_agent_procs_end(struct hvd_agent_procs *agent_procs, bool at_once)
{
	struct timeval tv = {.tv_sec = END_SECONDS};

	for (struct agent_proc *s = agent_procs->first; s; s = s->next) {
		if (agent_procs->ending) {
			hvd_procs_signal(s->procs, SIGTERM);
			continue;
		}
		s->asked = true;
		hvd_procs_release(s->procs);
		evtimer_add(s->patience, &tv);
	}
	agent_procs->ending = true;
	agent_procs->at_once |= at_once;
}

void hvd_agent_procs_left(struct hvd_agent_procs *agent_procs, uint32_t host)
{
	struct agent_proc *oldest = NULL;

	for (struct agent_proc *s = agent_procs->first; s; s = s->next)
		if (s->host == host && !s->left && (agent_procs->ending || !s->wanted))
			oldest = s;
	if (oldest)
		oldest->left = true;
}

void hvd_agent_procs_reap(struct hvd_agent_procs *agent_procs)
{
	for (struct agent_proc *s = agent_procs->first; s; s = s->next)
		hvd_procs_reap(s->procs);
}

unsigned hvd_agent_procs_running(const struct hvd_agent_procs *agent_procs)
{
	return agent_procs->running;
}

struct hvd_agent_procs *hvd_agent_procs_create(struct event_base *base, const struct hvd_launch *launch,
					       const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
					       const struct hvd_agent_procs_ops *ops, void *arg)
{
	struct hvd_agent_procs *agent_procs = hvd_xcalloc(1, sizeof(*agent_procs));

	agent_procs->base = base;
	agent_procs->launch = launch;
	agent_procs->backend = backend;
	agent_procs->opts = opts;
	agent_procs->ops = ops;
	agent_procs->arg = arg;
	agent_procs->sweep = evtimer_new(base, on_sweep, agent_procs);
	return agent_procs;
}

void hvd_agent_procs_destroy(struct hvd_agent_procs *agent_procs)
{
	if (!agent_procs)
		return;
	while (agent_procs->first) {
		struct agent_proc *next = agent_procs->first->next;

		put_away(agent_procs->first);
		agent_procs->first = next;
	}
	event_free(agent_procs->sweep);
	free(agent_procs);
}
