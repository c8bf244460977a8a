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

struct shim {
	struct hvd_shims *owner;
	struct shim *next;
	uint32_t host;
	struct hvd_launch launch;
	struct hvd_procs *procs;
	struct event *patience;
	bool wanted, asked, over; /* asked: by SIGTERM, or need not be */
	bool left;                /* the shim has ended */
	bool cut;
	int drained; /* so many times, nobody had to wait for our own reader */
};

struct hvd_shims {
	struct event_base *base;
	const struct hvd_launch *launch;
	const struct hvd_backend *backend;
	const struct hvd_procs_opts *opts;
	const struct hvd_shims_ops *ops;
	void *arg;
	struct shim *first;
	struct event *sweep;
	unsigned running;
	bool any; /* … has ever been started */
	bool ending, at_once;
};

static void put_away(struct shim *s)
{
	if (hvd_procs_destroy(s->procs) != 0)
		s->owner->ops->output_lost(s->owner->arg);
	event_free(s->patience);
	hvd_launch_clear(&s->launch);
	free(s);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_shims *shims = arg;

	(void)fd;
	(void)what;
	for (struct shim **at = &shims->first; *at;) {
		struct shim *s = *at;

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
	struct shim *s = arg;

	if (s->wanted)
		s->owner->ops->lost(s->host, why, s->owner->arg);
	s->wanted = false;
}

static void on_all_ended(void *arg)
{
	struct shim *s = arg;
	struct hvd_shims *shims = s->owner;

	s->over = true;
	s->wanted = false;
	event_active(shims->sweep, EV_TIMEOUT, 0);
	if (--shims->running == 0)
		shims->ops->none_left(shims->arg);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct timeval tv = {.tv_sec = RELEASE_SECONDS};
	struct shim *s = arg;

	(void)fd;
	(void)what;
	if (s->over)
		return;
	if ((s->left || s->owner->ending) && !s->owner->at_once && !s->cut) {
		s->drained =
			hvd_relay_has_room(STDOUT_FILENO) && hvd_relay_has_room(STDERR_FILENO) ? s->drained + 1 : 0;
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

int hvd_shims_start(struct hvd_shims *shims, uint32_t host, const char *name, int slots, uint32_t job,
		    struct hvd_err *err)
{
	static const struct hvd_procs_ops ops = {.ended = on_ended, .lost = on_lost, .all_ended = on_all_ended};
	struct shim *s = hvd_xcalloc(1, sizeof(*s));

	s->owner = shims;
	s->host = host;
	s->launch = *shims->launch;
	s->launch.procs = NULL;
	s->launch.n_procs = 0;
	s->launch.first_host = (int)host;
	s->launch.job = job;
	s->launch.another = shims->any;
	memset(&s->launch.alloc, 0, sizeof(s->launch.alloc));
	memset(&s->launch.lsf, 0, sizeof(s->launch.lsf));
	s->patience = evtimer_new(shims->base, on_patience, s);
	if (hvd_alloc_add(&s->launch.alloc, name, slots, err) == 0) {
		hvd_alloc_merge(&s->launch.alloc);
		if (hvd_backend_add_host(shims->backend, &s->launch, err) == 0) {
			s->procs = hvd_procs_create(shims->base, &s->launch, shims->backend, shims->opts, &ops, s);
			s->wanted = true;
			if (hvd_procs_start(s->procs, err) == 0) {
				s->next = shims->first;
				shims->first = s;
				shims->running++;
				shims->any = true;
				return 0;
			}
		}
	}
	hvd_err_host(err, name);
	put_away(s);
	return -1;
}

static struct shim *find(struct hvd_shims *shims, uint32_t host)
{
	struct shim *s = shims->first;

	while (s && !(s->host == host && s->wanted))
		s = s->next;
	return s;
}

void hvd_shims_came(struct hvd_shims *shims, uint32_t host)
{
	struct shim *s = find(shims, host);

	if (s)
		hvd_procs_came(s->procs, 0);
}

void hvd_shims_release(struct hvd_shims *shims, uint32_t host, bool hard)
{
	struct timeval tv = {.tv_sec = RELEASE_SECONDS};
	struct shim *s = find(shims, host);

	if (!s)
		return;
	s->wanted = false;
	s->asked = hard;
	hvd_procs_release(s->procs);
	if (hard)
		hvd_procs_signal(s->procs, SIGTERM);
	evtimer_add(s->patience, &tv);
}

void hvd_shims_end(struct hvd_shims *shims, bool at_once)
{
	struct timeval tv = {.tv_sec = END_SECONDS};

	for (struct shim *s = shims->first; s; s = s->next) {
		if (shims->ending) {
			hvd_procs_signal(s->procs, SIGTERM);
			continue;
		}
		s->asked = true;
		hvd_procs_release(s->procs);
		evtimer_add(s->patience, &tv);
	}
	shims->ending = true;
	shims->at_once |= at_once;
}

void hvd_shims_left(struct hvd_shims *shims, uint32_t host)
{
	struct shim *oldest = NULL;

	for (struct shim *s = shims->first; s; s = s->next)
		if (s->host == host && !s->left && (shims->ending || !s->wanted))
			oldest = s;
	if (oldest)
		oldest->left = true;
}

void hvd_shims_reap(struct hvd_shims *shims)
{
	for (struct shim *s = shims->first; s; s = s->next)
		hvd_procs_reap(s->procs);
}

unsigned hvd_shims_running(const struct hvd_shims *shims)
{
	return shims->running;
}

struct hvd_shims *hvd_shims_create(struct event_base *base, const struct hvd_launch *launch,
				   const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
				   const struct hvd_shims_ops *ops, void *arg)
{
	struct hvd_shims *shims = hvd_xcalloc(1, sizeof(*shims));

	shims->base = base;
	shims->launch = launch;
	shims->backend = backend;
	shims->opts = opts;
	shims->ops = ops;
	shims->arg = arg;
	shims->sweep = evtimer_new(base, on_sweep, shims);
	return shims;
}

void hvd_shims_destroy(struct hvd_shims *shims)
{
	if (!shims)
		return;
	while (shims->first) {
		struct shim *next = shims->first->next;

		put_away(shims->first);
		shims->first = next;
	}
	event_free(shims->sweep);
	free(shims);
}
