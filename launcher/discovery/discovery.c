/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery.c - what all kinds of discovery share: reporting changes, and the end.
 *
 * A discovery that is destroyed from within one of its callbacks is freed when the callback has returned.
 */
#include "discovery_kind.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL 1.0  /* seconds */
#define SHARE    0.02 /* of the time, for queries */

/* ---- reporting ---- */

static void append(struct hvd_alloc *to, const struct hvd_alloc_host *host)
{
	if (host->slots >= 1)
		hvd_alloc_append(to, host, NULL);
}

/* The hosts that were found. Those of the last list keep their order; new ones follow. *moved: a host now belongs to
 * another job; with without_moved such hosts are left out. */
static void arrange(const struct hvd_discovery *s, const struct hvd_alloc *found, bool without_moved, bool *moved,
		    struct hvd_alloc *out)
{
	hvd_cleanup_free int *now = hvd_alloc_find_all(found, &s->hosts),
			     *before = hvd_alloc_find_all(&s->hosts, found);

	*moved = false;
	for (int i = 0; i < s->hosts.n_hosts; i++) {
		const struct hvd_alloc_host *host = now[i] < 0 ? NULL : &found->hosts[now[i]];
		const bool moves = host && host->slurm_job != s->hosts.hosts[i].slurm_job;

		*moved |= moves;
		if (host && !(moves && without_moved))
			append(out, host);
	}
	for (int i = 0; i < found->n_hosts; i++)
		if (before[i] < 0)
			append(out, &found->hosts[i]);
}

/* Report the list if it differs from the last one. Takes over the list. */
static void report(struct hvd_discovery *s, struct hvd_alloc *hosts)
{
	if (s->any && hvd_alloc_same(hosts, &s->hosts)) {
		hvd_alloc_clear(hosts);
		return;
	}
	hvd_alloc_clear(&s->hosts);
	s->hosts = *hosts;
	s->any = true;
	if (s->hosts.n_hosts > 0)
		hvd_timer_stop(s->silent);
	s->ops.hosts(&s->hosts, s->arg);
}

/* Report which hosts in use will go, each of them once. */
static void report_leaving(struct hvd_discovery *s, const struct hvd_slurm_hosts *found)
{
	struct hvd_strv now = {0}, before = s->leaving;

	for (size_t i = 0; i < found->n_leaving; i++)
		hvd_strv_add(&now, found->leaving[i].host);
	s->leaving = now;
	for (size_t i = 0; !s->unwanted && i < found->n_leaving; i++)
		if (!hvd_strv_has(&before, found->leaving[i].host) &&
		    hvd_alloc_find(&s->hosts, found->leaving[i].host) >= 0)
			s->ops.leaving(found->leaving[i].host, found->leaving[i].seconds, s->arg);
	hvd_strv_free(&before);
}

static void leave(struct hvd_discovery *s)
{
	s->busy = false;
	if (s->unwanted)
		hvd_discovery_destroy(s);
}

void hvd_discovery_found(struct hvd_discovery *s, const struct hvd_slurm_hosts *found)
{
	struct hvd_alloc hosts = {0};
	bool moved = false;

	s->busy = true;
	if (s->said[0])
		hvd_info(s->log, "host discovery works again (%s)", s->kind->name);
	s->said[0] = '\0';
	report_leaving(s, found);
	if (!s->unwanted) {
		arrange(s, &found->hosts, true, &moved, &hosts);
		report(s, &hosts);
	}
	if (moved && !s->unwanted) {
		memset(&hosts, 0, sizeof(hosts));
		arrange(s, &found->hosts, false, &moved, &hosts);
		report(s, &hosts);
	}
	leave(s);
}

void hvd_discovery_failed(struct hvd_discovery *s, const struct hvd_err *why)
{
	if (!s->any) {
		s->busy = true;
		s->ops.failed(why, s->arg);
		leave(s);
		return;
	}
	if (strcmp(s->said, why->msg) == 0)
		return;
	hvd_warn(s->log, "host discovery is failing; keeping the hosts known so far: %s", why->msg);
	memcpy(s->said, why->msg, sizeof(s->said));
}

double hvd_discovery_pause(const struct hvd_discovery_opts *opts, double cost, double most)
{
	const double due = cost / SHARE;

	if (opts->interval > 0)
		return opts->interval;
	return due < INTERVAL ? INTERVAL : due < most ? due : most;
}

/* ---- lifetime ---- */

void hvd_discovery_destroy(struct hvd_discovery *s)
{
	if (!s)
		return;
	s->unwanted = true;
	if (s->busy)
		return;
	s->kind->end(s);
	hvd_timer_free(s->silent);
	hvd_discovery_opts_clear(&s->opts);
	hvd_alloc_clear(&s->hosts);
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

void hvd_discovery_nudge(struct hvd_discovery *s)
{
	if (s->kind->nudge && !s->unwanted)
		s->kind->nudge(s);
}
