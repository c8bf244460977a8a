/* SPDX-License-Identifier: Apache-2.0 */
#include "job_store.h"

#include "lib/base/xalloc.h"
#include "lib/protocol/worlds.h"
#include "lib/rendezvous/service.h"
#include "rank_plan.h"

#include <stdlib.h>

struct hvd_job_store {
	struct event_base *base;
	const struct hvd_log *log;
	struct hvd_rank_plan plan; /* of no ranks: where the relays are */
	struct hvd_rv_service service;
};

/* ---- what the hosts tell ---- */

/* Clients are served, and nobody watches who comes. */
static void on_init_event(void *store, const struct hvd_rv_init_event *event)
{
	(void)store;
	(void)event;
}

static int on_open(void *arg, struct hvd_err *err)
{
	static const struct hvd_rv_service_ops ops = {.init_event = on_init_event};
	struct hvd_job_store *store = arg;

	return hvd_rv_service_open(&store->service, store->base, store->plan.relays.world, &ops, store, store->log,
				   err);
}

/* Ranks use the relay of their own host only. */
static int on_decided(void *arg, struct hvd_err *err)
{
	struct hvd_job_store *store = arg;
	struct hvd_relays *relays = &store->plan.relays;

	(void)err;
	hvd_relays_make(relays, relays->world, store->plan.opts, store->plan.table, NULL);
	relays->network = false;
	hvd_relays_admit(relays, store->service.rv);
	return 0;
}

static void on_admitted(uint32_t host, json_t *plan, void *arg)
{
	struct hvd_job_store *store = arg;
	struct hvd_relays *relays = &store->plan.relays;

	if (!hvd_relays_at(relays, host)) {
		hvd_relays_join(relays, store->plan.table, host);
		hvd_relays_admit(relays, store->service.rv);
	}
	if (!plan)
		return;
	json_object_set_new(hvd_world_add_part(plan, relays->world), "relay", hvd_rank_plan_relay(&store->plan, host));
	hvd_client_relay(store->plan.table->hosts[host].client, relays->world, store->service.rv);
}

static void on_left(uint32_t host, void *arg)
{
	struct hvd_job_store *store = arg;

	hvd_relays_leave(&store->plan.relays, host);
	hvd_relays_admit(&store->plan.relays, store->service.rv);
}

static void on_relay(void *arg, struct hvd_client *cl, const json_t *msg)
{
	const struct hvd_job_store *store = arg;

	(void)msg;
	if (hvd_relays_at(&store->plan.relays, cl->host))
		hvd_client_relay(cl, store->plan.relays.world, store->service.rv);
}

/* ---- life ---- */

struct hvd_job_store *hvd_job_store_create(struct event_base *base, struct hvd_agent_registry *agents,
					   const struct hvd_driver_opts *opts, struct hvd_world *const *worlds,
					   unsigned n, const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_driver_message messages[] = {{"relay", HVD_FROM_AGENT, false, on_relay},
							     {NULL, 0, false, NULL}};
	static const struct hvd_host_listener listener = {
		.open = on_open, .decided = on_decided, .admitted = on_admitted, .left = on_left, .messages = messages};
	struct hvd_job_store *store = hvd_xcalloc(1, sizeof(*store));
	int number = hvd_agent_registry_listen(agents, &listener, store, err);

	if (number < 0) {
		free(store);
		return NULL;
	}
	*store = (struct hvd_job_store){.base = base, .log = log};
	store->plan.opts = opts;
	store->plan.table = hvd_agent_registry_table(agents);
	store->plan.networks = hvd_agent_registry_networks(agents);
	store->plan.relays.world = (unsigned)number;
	for (unsigned w = 0; w < n; w++)
		hvd_world_share_store(worlds[w], (unsigned)number);
	return store;
}

void hvd_job_store_destroy(struct hvd_job_store *store)
{
	if (!store)
		return;
	hvd_rv_service_close(&store->service);
	hvd_rank_plan_clear(&store->plan);
	free(store);
}
