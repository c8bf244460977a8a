/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_registry_internal.h"

#include "lib/base/hex.h"
#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "silence.h"
#include "spares.h"

#include <stdlib.h>
#include <string.h>

/* ---- what its user asks ---- */

void hvd_agent_registry_expect(struct hvd_agent_registry *agents, uint32_t host, const char *name)
{
	uint32_t had = agents->table.n;

	hvd_host_table_expect(&agents->table, host, name);
	hvd_plan_grow(&agents->plan, had, agents->table.n);
	agents->table.hosts[host].deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	hvd_agent_deadlines_update(agents);
}

void hvd_agent_registry_forget(struct hvd_agent_registry *agents, uint32_t host)
{
	if (host >= agents->table.n || agents->table.hosts[host].stage == HVD_STAGE_AWAY)
		return;
	hvd_agent_registry_drop(agents, host, NULL);
	hvd_agent_deadlines_update(agents);
	hvd_admission_check(agents);
}

void hvd_agent_registry_end(struct hvd_agent_registry *agents)
{
	hvd_clients_tell(agents->clients, "end");
	agents->ended = true;
	hvd_progress_stop(agents->rank_progress);
	hvd_agent_deadlines_stop(agents);
	for (uint32_t h = 0; h < agents->table.n; h++) {
		hvd_host_table_enter(&agents->table, h, HVD_STAGE_AWAY);
		if (agents->table.hosts[h].client)
			agents->table.hosts[h].client->role = HVD_ROLE_FORMER;
	}
}

void hvd_agent_registry_signal(struct hvd_agent_registry *agents, int sig)
{
	for (struct hvd_client *cl = hvd_clients_first(agents->clients); cl; cl = hvd_clients_next(cl))
		if (cl->role == HVD_ROLE_AGENT && cl->host < agents->table.n &&
		    agents->table.hosts[cl->host].stage == HVD_STAGE_HERE)
			hvd_conn_send(cl->conn, json_pack("{s:s, s:i}", "t", "signal", "sig", sig));
}

void hvd_agent_registry_boot(const struct hvd_agent_registry *agents, struct hvd_boot *boot)
{
	hvd_clients_boot(agents->clients, &agents->self, agents->opts, boot);
	hvd_plan_ports(agents->opts->spec, &boot->ports, &boot->store_port, &boot->rank_ports);
	boot->relays = (unsigned)agents->opts->spec->relay_fan_out;
	boot->network = hvd_relays_have_network(agents->opts);
}

unsigned hvd_agent_registry_silent_ms(const struct hvd_agent_registry *agents)
{
	return agents->silent_ms;
}

struct hvd_host_table *hvd_agent_registry_table(struct hvd_agent_registry *agents)
{
	return &agents->table;
}

const struct hvd_layout *hvd_agent_registry_layout(const struct hvd_agent_registry *agents)
{
	return &agents->plan.layout;
}

void hvd_agent_registry_ranks_begin(struct hvd_agent_registry *agents)
{
	const struct hvd_layout *layout = &agents->plan.layout;

	hvd_rv_service_size(&agents->service, layout);
	if (agents->init_watch)
		hvd_init_watch_begin(agents->init_watch, layout, &agents->table);
	hvd_progress_begin(agents->rank_progress, (uint32_t)layout->n_hosts);
}

void hvd_agent_registry_end_ranks(struct hvd_agent_registry *agents)
{
	hvd_clients_tell(agents->clients, "end");
}

char *hvd_agent_registry_cannot_init(const struct hvd_agent_registry *agents, uint32_t host)
{
	return agents->init_watch ? hvd_init_watch_expected(agents->init_watch, (int32_t)host) : NULL;
}

void hvd_agent_registry_missing_hint(const struct hvd_agent_registry *agents, struct hvd_err *why)
{
	hvd_missing_host_hint(agents, why);
}

struct hvd_stacks *hvd_agent_registry_stacks(const struct hvd_agent_registry *agents)
{
	return agents->stacks;
}

void hvd_agent_registry_init(struct hvd_agent_registry *agents, bool all)
{
	hvd_event(agents->opts->events, INIT_BEGAN, .index = 0);
	if (all)
		hvd_event(agents->opts->events, INIT_DONE, .index = 0);
}

/* ---- life ---- */

/* Hosts have gone, or the start has failed (departures.c). */
static void on_changed(void *arg)
{
	struct hvd_agent_registry *agents = arg;

	if (agents->phase == HVD_AGENTS_OVER) {
		hvd_agent_deadlines_stop(agents);
		return;
	}
	hvd_agent_deadlines_update(agents);
	hvd_admission_check(agents);
}

static void on_first(void *arg)
{
	hvd_agent_deadlines_begin(arg);
}

static void on_joined(const struct hvd_rv_init_event *join, void *arg)
{
	struct hvd_agent_registry *agents = arg;

	hvd_agent_registry_init(agents, hvd_init_watch_joined(agents->init_watch, join));
}

static void on_waits(const char *text, void *arg)
{
	struct hvd_agent_registry *agents = arg;

	hvd_init_watch_waits(agents->init_watch, text);
	hvd_stacks_waits(agents->stacks, text);
}

static void on_changes(uint64_t n, void *arg)
{
	hvd_progress_store(((struct hvd_agent_registry *)arg)->rank_progress, n);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	struct hvd_agent_registry *agents = arg;

	agents->ops->stalled(stall, agents->arg);
}

void hvd_agent_registry_progress(struct hvd_agent_registry *agents)
{
	hvd_progress_begin(agents->rank_progress, 0);
}

static void on_init_failed(const struct hvd_err *why, void *arg)
{
	hvd_agent_registry_fail(arg, why);
}

static void on_horovod(void *arg)
{
	struct hvd_agent_registry *agents = arg;

	hvd_own_names_horovod(&agents->own_names, &agents->table, agents->log);
}

/* The rendezvous is to answer PyTorch's ranks. */
static void serve_torch(struct hvd_agent_registry *agents)
{
	static const struct hvd_rv_service_ops ops = {on_joined, on_waits, on_changes};

	if (!hvd_launch_spec_has_store(agents->opts->spec))
		return;
	hvd_rv_service_tcpstore(&agents->service, &ops, agents);
	agents->init_watch = hvd_init_watch_create(agents->base, agents->opts->spec->init_timeout, &agents->service,
						   on_init_failed, agents, agents->log);
}

/* --network-interfaces lo: the hosts are names of one machine, whatever other interfaces it has. */
static bool over_loopback(const struct hvd_driver_opts *opts)
{
	bool lo = opts->spec->interfaces.n > 0;

	for (size_t i = 0; i < opts->spec->interfaces.n; i++)
		lo = lo && strcmp(opts->spec->interfaces.v[i], "lo") == 0;
	return lo || opts->loopback;
}

/* Not the session's id, which the driver tells to whoever connects. */
static int make_run_id(struct hvd_agent_registry *agents, struct hvd_err *err)
{
	unsigned char id[HVD_RUN_ID_LEN / 2];

	if (hvd_random(id, sizeof(id), err) != 0)
		return -1;
	hvd_hex(id, sizeof(id), agents->plan.run_id);
	return 0;
}

struct hvd_agent_registry *hvd_agent_registry_create(struct event_base *base, bool fails_without,
						     const struct hvd_driver_opts *opts, struct hvd_session *session,
						     const struct hvd_agent_registry_ops *ops, void *arg,
						     const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_clients_ops clients_ops = {on_first, hvd_agent_registry_message,
							   hvd_agent_registry_gone};
	struct hvd_agent_registry *agents = hvd_xcalloc(1, sizeof(*agents));

	*agents = (struct hvd_agent_registry){
		.base = base, .opts = opts, .session = session, .ops = ops, .arg = arg, .log = log};
	agents->open_relay = -1;
	agents->plan.elastic = !fails_without;
	agents->plan.loopback = agents->plan.elastic && over_loopback(opts);
	agents->plan.mpi = opts->spec->mpi.on && !agents->plan.elastic;
	agents->changed = hvd_timer_new(base, on_changed, agents);
	hvd_agent_deadlines_create(agents);
	hvd_agent_answers_create(agents);
	serve_torch(agents);
	agents->stacks = hvd_stacks_create(base, &agents->table, agents->init_watch ? &agents->service : NULL);
	hvd_rv_service_horovod(&agents->service, on_horovod, agents);
	if (opts->spec->hang_timeout > 0 && ops->stalled)
		agents->rank_progress = hvd_progress_create(base, opts->spec->hang_timeout, &agents->service,
							    &agents->table, on_stalled, agents);
	if (fails_without)
		hvd_host_table_init(&agents->table, opts->hosts, opts->ranks);
	agents->table.events = opts->events;
	for (uint32_t h = 0; fails_without && h < opts->names.n; h++)
		hvd_host_table_expect(&agents->table, h, opts->names.v[h]);
	if (make_run_id(agents, err) != 0 ||
	    hvd_this_host_query(&agents->self, HVD_BOOT_MAX_ADDRS, opts->loopback, opts->spec->interfaces.v, err) !=
		    0 ||
	    !(agents->clients = opts->clients ? opts->clients
					      : hvd_clients_create(base, session, opts->loopback, opts->port_lo,
								   opts->port_hi, &clients_ops, agents, log, err))) {
		hvd_agent_registry_destroy(agents);
		return NULL;
	}
	hvd_clients_use(agents->clients, &clients_ops, agents);
	if (!opts->queued)
		hvd_agent_deadlines_begin(agents);
	return agents;
}

void hvd_agent_registry_destroy(struct hvd_agent_registry *agents)
{
	if (!agents)
		return;
	if (agents->clients && agents->clients == agents->opts->clients)
		hvd_clients_use(agents->clients, NULL, NULL);
	else
		hvd_clients_destroy(agents->clients);
	hvd_timer_free(agents->changed);
	hvd_timer_free(agents->timer);
	hvd_timer_free(agents->ask);
	hvd_timer_free(agents->progress);
	hvd_spares_stop(agents);
	hvd_silence_destroy(agents->silence);
	hvd_init_watch_destroy(agents->init_watch);
	hvd_progress_destroy(agents->rank_progress);
	hvd_stacks_destroy(agents->stacks);
	hvd_rv_service_close(&agents->service);
	hvd_plan_clear(&agents->plan);
	hvd_layout_clear(&agents->layout);
	hvd_host_table_clear(&agents->table);
	hvd_this_host_clear(&agents->self);
	free(agents);
}
