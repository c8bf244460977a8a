/* SPDX-License-Identifier: Apache-2.0 */
/* discovery_agents.c - the hosts of an elastic job are self-registering agents (launcher/start/agent_pool.h). */
#include "discovery_kind.h"
#include "launcher/start/agent_pool.h"

static void changed(void *arg)
{
	struct hvd_discovery *s = arg;
	struct hvd_slurm_hosts found = {0};

	hvd_agent_pool_hosts(s->opts.agent_pool, &found.hosts);
	hvd_discovery_found(s, &found);
	hvd_slurm_hosts_clear(&found);
}

static int begin(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	hvd_agent_pool_watch(s->opts.agent_pool, changed, s);
	return 0;
}

static void end(struct hvd_discovery *s)
{
	hvd_agent_pool_watch(s->opts.agent_pool, NULL, NULL);
}

const struct hvd_discovery_kind hvd_discovery_agents = {.name = "agents", .begin = begin, .end = end};
