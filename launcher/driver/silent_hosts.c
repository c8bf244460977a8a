/* SPDX-License-Identifier: Apache-2.0 */
#include "silent_hosts.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"
#include "node_agents_internal.h"

#include <stdlib.h>

struct hvd_silent_hosts {
	struct hvd_node_agents *agents;
	void (*lost)(const struct hvd_strv *hosts, const struct hvd_err *why, void *arg);
	void *arg;
	struct event *timer; /* pending: no host is connected */
};

/* The hosts that are not connected, and may have been lost before that. */
static void add_silent(const struct hvd_silent_hosts *silent, struct hvd_strv *names)
{
	const struct hvd_node_table *table = &silent->agents->table;

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_node_agent *host = &table->hosts[h];

		if (host->node.stays && !host->heard && host->ended < host->node.n_ranks)
			hvd_strv_add(names, host->node.name);
	}
}

static void add_connected(const struct hvd_silent_hosts *silent, struct hvd_strv *names)
{
	const struct hvd_client *cl = hvd_clients_first(silent->agents->clients);

	for (; cl; cl = hvd_clients_next(cl))
		if (cl->role == HVD_ROLE_STAY && !silent->agents->table.hosts[cl->host].done)
			hvd_strv_add(names, silent->agents->table.hosts[cl->host].node.name);
}

static bool any_ended(const struct hvd_node_table *table)
{
	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].done)
			return true;
	return false;
}

char *hvd_silent_hosts_behind(const struct hvd_silent_hosts *silent)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	if (!any_ended(&silent->agents->table))
		return NULL;
	add_connected(silent, &names);
	if (names.n == 0)
		add_silent(silent, &names);
	return names.n ? hvd_strv_join(&names, ",") : NULL;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	struct hvd_silent_hosts *silent = arg;
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	add_silent(silent, &names);
	if (names.n == 0)
		return;
	hvd_err_set(&why, HVD_E_TIMEOUT, "its node agent has not connected again after the start");
	silent->lost(&names, &why, silent->arg);
}

void hvd_silent_hosts_heard(struct hvd_silent_hosts *silent, uint32_t host)
{
	silent->agents->table.hosts[host].heard = true;
	event_del(silent->timer);
}

void hvd_silent_hosts_alone(struct hvd_silent_hosts *silent)
{
	evtimer_add(silent->timer, &(struct timeval){.tv_sec = HVD_STAY_SECONDS + HVD_CONN_WATCH_SECONDS});
}

struct hvd_silent_hosts *
hvd_silent_hosts_create(struct event_base *base, struct hvd_node_agents *agents,
			void (*lost)(const struct hvd_strv *hosts, const struct hvd_err *why, void *arg), void *arg)
{
	struct hvd_silent_hosts *silent = hvd_xcalloc(1, sizeof(*silent));

	*silent = (struct hvd_silent_hosts){.agents = agents, .lost = lost, .arg = arg};
	silent->timer = evtimer_new(base, on_timer, silent);
	if (!silent->timer)
		abort();
	return silent;
}

void hvd_silent_hosts_destroy(struct hvd_silent_hosts *silent)
{
	if (!silent)
		return;
	event_free(silent->timer);
	free(silent);
}
