/* SPDX-License-Identifier: Apache-2.0 */
/* discovery_agents.c - the hosts of an elastic job are agents that come by themselves (launcher/backends/lobby.h). */
#include "discovery_kind.h"
#include "launcher/backends/lobby.h"

static void changed(void *arg)
{
	struct hvd_discovery *s = arg;
	struct hvd_slurm_hosts found = {0};

	hvd_lobby_hosts(s->opts.lobby, &found.hosts);
	hvd_discovery_found(s, &found);
	hvd_slurm_hosts_clear(&found);
}

static int begin(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	hvd_lobby_watch(s->opts.lobby, changed, s);
	return 0;
}

static void end(struct hvd_discovery *s)
{
	hvd_lobby_watch(s->opts.lobby, NULL, NULL);
}

const struct hvd_discovery_kind hvd_discovery_agents = {.name = "agents", .begin = begin, .end = end};
