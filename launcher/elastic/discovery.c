/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery.c - what all sources share: which one, and telling what is new.
 *
 * A source that is destroyed from within one of its callbacks goes when that has returned.
 */
#include "discovery_kind.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- hosts that are known from the beginning ---- */

static void tell_fixed(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_discovery *s = arg;
	const struct hvd_slurm_hosts view = {.hosts = s->opts.hosts};

	(void)fd;
	(void)what;
	hvd_discovery_looked(s, &view);
}

static int begin_fixed(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	s->own = evtimer_new(s->base, tell_fixed, s);
	event_active(s->own, EV_TIMEOUT, 0);
	return 0;
}

static void end_fixed(struct hvd_discovery *s)
{
	if (s->own)
		event_free(s->own);
}

static const struct hvd_discovery_kind fixed = {.name = "hosts", .begin = begin_fixed, .end = end_fixed};

static const struct hvd_discovery_kind *const kinds[] = {
	[HVD_DISCOVERY_HOSTS] = &fixed,
	[HVD_DISCOVERY_SCRIPT] = &hvd_discovery_script,
	[HVD_DISCOVERY_SLURM] = &hvd_discovery_slurm,
	[HVD_DISCOVERY_JOBS] = &hvd_discovery_slurm,
};

/* ---- telling ---- */

static uint32_t job_of(const uint32_t *jobs, int i)
{
	return jobs ? jobs[i] : 0;
}

static void append(struct hvd_alloc *to, uint32_t **jobs, const struct hvd_alloc *from, int i, uint32_t job)
{
	if (from->hosts[i].slots < 1 || hvd_alloc_add(to, from->hosts[i].name, from->hosts[i].slots, NULL) != 0)
		return;
	*jobs = hvd_xrealloc(*jobs, (size_t)to->n_hosts, sizeof(**jobs));
	(*jobs)[to->n_hosts - 1] = job;
}

/* The view with hosts that stay in the order in which they were told. *moved: a host has gone to another job; with
 * without_moved such hosts are left out. */
static void arrange(const struct hvd_discovery *s, const struct hvd_slurm_hosts *view, bool without_moved, bool *moved,
		    struct hvd_alloc *out, uint32_t **jobs)
{
	*moved = false;
	for (int i = 0; i < s->hosts.n_hosts; i++) {
		int at = hvd_alloc_find(&view->hosts, s->hosts.hosts[i].name);

		if (at < 0)
			continue;
		if (job_of(view->jobs, at) != job_of(s->jobs, i)) {
			*moved = true;
			if (without_moved)
				continue;
		}
		append(out, jobs, &view->hosts, at, job_of(view->jobs, at));
	}
	for (int i = 0; i < view->hosts.n_hosts; i++)
		if (hvd_alloc_find(&s->hosts, view->hosts.hosts[i].name) < 0)
			append(out, jobs, &view->hosts, i, job_of(view->jobs, i));
}

static bool same(const struct hvd_alloc *a, const uint32_t *a_jobs, const struct hvd_alloc *b, const uint32_t *b_jobs)
{
	if (a->n_hosts != b->n_hosts)
		return false;
	for (int i = 0; i < a->n_hosts; i++)
		if (a->hosts[i].slots != b->hosts[i].slots || job_of(a_jobs, i) != job_of(b_jobs, i) ||
		    strcmp(a->hosts[i].name, b->hosts[i].name) != 0)
			return false;
	return true;
}

/* Takes over hosts and jobs. */
static void tell(struct hvd_discovery *s, struct hvd_alloc *hosts, uint32_t *jobs)
{
	if (s->any && same(hosts, jobs, &s->hosts, s->jobs)) {
		hvd_alloc_clear(hosts);
		free(jobs);
		return;
	}
	if (!jobs)
		jobs = hvd_xcalloc(1, sizeof(*jobs));
	hvd_alloc_clear(&s->hosts);
	free(s->jobs);
	s->hosts = *hosts;
	s->jobs = jobs;
	s->any = true;
	s->ops.hosts(&s->hosts, s->jobs, s->arg);
}

static bool is_in(const struct hvd_strv *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->v[i], name) == 0)
			return true;
	return false;
}

/* Hosts in use that will go, if that was not said yet. */
static void tell_leaving(struct hvd_discovery *s, const struct hvd_slurm_hosts *view)
{
	struct hvd_strv now = {0}, before = s->leaving;

	for (size_t i = 0; i < view->n_leaving; i++)
		hvd_strv_add(&now, view->leaving[i].host);
	s->leaving = now;
	for (size_t i = 0; !s->unwanted && i < view->n_leaving; i++)
		if (!is_in(&before, view->leaving[i].host) && hvd_alloc_find(&s->hosts, view->leaving[i].host) >= 0)
			s->ops.leaving(view->leaving[i].host, view->leaving[i].seconds, s->arg);
	hvd_strv_free(&before);
}

static void leave(struct hvd_discovery *s)
{
	s->busy = false;
	if (s->unwanted)
		hvd_discovery_destroy(s);
}

void hvd_discovery_looked(struct hvd_discovery *s, const struct hvd_slurm_hosts *view)
{
	struct hvd_alloc hosts = {0};
	uint32_t *jobs = NULL;
	bool moved;

	s->busy = true;
	if (s->said[0])
		hvd_info(s->log, "hosts are being found again (%s)", s->kind->name);
	s->said[0] = '\0';
	tell_leaving(s, view);
	arrange(s, view, true, &moved, &hosts, &jobs);
	if (s->unwanted) {
		hvd_alloc_clear(&hosts);
		free(jobs);
	} else {
		tell(s, &hosts, jobs);
	}
	if (moved && !s->unwanted) {
		memset(&hosts, 0, sizeof(hosts));
		jobs = NULL;
		arrange(s, view, false, &moved, &hosts, &jobs);
		tell(s, &hosts, jobs);
	}
	leave(s);
}

void hvd_discovery_missed(struct hvd_discovery *s, const struct hvd_err *why)
{
	if (!s->any) {
		s->busy = true;
		s->ops.failed(why, s->arg);
		leave(s);
		return;
	}
	if (strcmp(s->said, why->msg) == 0)
		return;
	hvd_warn(s->log, "hosts cannot be looked for at the moment, those known are used on: %s", why->msg);
	memcpy(s->said, why->msg, sizeof(s->said));
}

/* ---- lifetime ---- */

static int copy_alloc(const struct hvd_alloc *from, struct hvd_alloc *to, struct hvd_err *err)
{
	for (int i = 0; i < from->n_hosts; i++)
		if (hvd_alloc_add(to, from->hosts[i].name, from->hosts[i].slots, err) != 0)
			return -1;
	memcpy(to->source, from->source, sizeof(to->source));
	return 0;
}

struct hvd_discovery *hvd_discovery_create(struct event_base *base, const struct hvd_discovery_opts *opts,
					   const struct hvd_discovery_ops *ops, void *arg, const struct hvd_log *log,
					   struct hvd_err *err)
{
	struct hvd_discovery *s = hvd_xcalloc(1, sizeof(*s));

	s->kind = kinds[opts->id];
	s->base = base;
	s->ops = *ops;
	s->arg = arg;
	s->log = log;
	s->opts = *opts;
	memset(&s->opts.hosts, 0, sizeof(s->opts.hosts));
	s->opts.script = opts->script ? hvd_xstrdup(opts->script) : NULL;
	s->opts.jobs = opts->jobs ? hvd_xstrdup(opts->jobs) : NULL;
	if (copy_alloc(&opts->hosts, &s->opts.hosts, err) == 0 && s->kind->begin(s, err) == 0)
		return s;
	hvd_discovery_destroy(s);
	return NULL;
}

void hvd_discovery_destroy(struct hvd_discovery *s)
{
	if (!s)
		return;
	s->unwanted = true;
	if (s->busy)
		return;
	s->kind->end(s);
	hvd_discovery_opts_clear(&s->opts);
	hvd_alloc_clear(&s->hosts);
	free(s->jobs);
	hvd_strv_free(&s->leaving);
	free(s);
}

void hvd_discovery_opts_clear(struct hvd_discovery_opts *opts)
{
	if (!opts)
		return;
	hvd_alloc_clear(&opts->hosts);
	free(opts->script);
	free(opts->jobs);
	memset(opts, 0, sizeof(*opts));
}

const char *hvd_discovery_name(const struct hvd_discovery *s)
{
	return s->opts.id == HVD_DISCOVERY_JOBS ? "jobs" : s->kind->name;
}

void hvd_discovery_nudge(struct hvd_discovery *s)
{
	if (s->kind->nudge && !s->unwanted)
		s->kind->nudge(s);
}
