/* SPDX-License-Identifier: Apache-2.0 */
/* discovery_create.c - which kinds of discovery there are, with those that need not look for hosts, and the begin of one. */
#include "discovery_kind.h"

#include "launcher/start/agent_pool.h"
#include "lib/base/xalloc.h"

#include <string.h>

/* Where no host is found within this time, the user learns what the job waits for. */
#define SILENT_SECONDS 2

/* ---- a list of hosts ---- */

static void report_fixed(void *arg)
{
	struct hvd_discovery *s = arg;
	const struct hvd_slurm_hosts found = {.hosts = s->opts.hosts};

	hvd_discovery_found(s, &found);
}

static int begin_fixed(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	s->own = hvd_timer_new(s->base, report_fixed, s);
	hvd_timer_soon(s->own);
	return 0;
}

static void end_fixed(struct hvd_discovery *s)
{
	hvd_timer_free(s->own);
}

static const struct hvd_discovery_kind fixed = {.name = "hosts", .begin = begin_fixed, .end = end_fixed};

/* ---- self-registering agents ---- */

static void report_agents(void *arg)
{
	struct hvd_discovery *s = arg;
	struct hvd_slurm_hosts found = {0};

	hvd_agent_pool_hosts(s->opts.agent_pool, &found.hosts);
	if (s->any || found.hosts.slots >= s->opts.first_slots)
		hvd_discovery_found(s, &found);
	else if (found.hosts.slots > 0)
		hvd_info(s->log,
			 "%d of %d slots have joined; --preflight=full measures the network between the first hosts",
			 found.hosts.slots, s->opts.first_slots);
	hvd_slurm_hosts_clear(&found);
}

static int begin_agents(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	hvd_agent_pool_watch(s->opts.agent_pool, report_agents, s);
	return 0;
}

static void end_agents(struct hvd_discovery *s)
{
	hvd_agent_pool_watch(s->opts.agent_pool, NULL, NULL);
}

static const struct hvd_discovery_kind agents = {.name = "agents", .begin = begin_agents, .end = end_agents};

/* ---- nothing found ---- */

/* Say what is waited for. */
static void on_silent(void *arg)
{
	const struct hvd_discovery *s = arg;

	if (s->opts.from == HVD_DISCOVER_SCRIPT)
		hvd_info(s->log, "waiting for hosts: the discovery script %s",
			 s->any ? "names none yet" : "has not ended yet");
	else if (!s->any)
		hvd_info(s->log, "waiting for hosts: Slurm's controller has not answered yet");
	else if (s->opts.jobs)
		hvd_info(s->log,
			 "waiting for hosts: no running job of yours has the name or comment %s yet "
			 "(--discover=jobs:%s)",
			 s->opts.jobs, s->opts.jobs);
	else
		hvd_info(s->log, "waiting for hosts: job %u has no usable node", s->opts.job);
}

/* ---- the begin ---- */

struct hvd_discovery *hvd_discovery_create(struct event_base *base, const struct hvd_discovery_opts *opts,
					   const struct hvd_discovery_ops *ops, void *arg, const struct hvd_log *log,
					   struct hvd_err *err)
{
	static const struct hvd_discovery_kind *const kinds[] = {
		[HVD_DISCOVER_HOSTS] = &fixed,
		[HVD_DISCOVER_SCRIPT] = &hvd_discovery_script,
		[HVD_DISCOVER_SLURM] = &hvd_discovery_slurm,
		[HVD_DISCOVER_JOBS] = &hvd_discovery_slurm,
		[HVD_DISCOVER_AGENTS] = &agents,
	};
	struct hvd_discovery *s = hvd_xcalloc(1, sizeof(*s));

	s->kind = kinds[opts->from];
	s->base = base;
	s->ops = *ops;
	s->arg = arg;
	s->log = log;
	s->opts = *opts;
	memset(&s->opts.hosts, 0, sizeof(s->opts.hosts));
	s->opts.script = opts->script ? hvd_xstrdup(opts->script) : NULL;
	s->opts.jobs = opts->jobs ? hvd_xstrdup(opts->jobs) : NULL;
	hvd_alloc_copy(&opts->hosts, &s->opts.hosts);
	s->silent = hvd_timer_new(base, on_silent, s);
	if (opts->from != HVD_DISCOVER_AGENTS) /* the user was told how to start some */
		hvd_timer_in_ms(s->silent, SILENT_SECONDS * 1000);
	if (s->kind->begin(s, err) == 0)
		return s;
	hvd_discovery_destroy(s);
	return NULL;
}
