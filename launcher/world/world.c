/* SPDX-License-Identifier: Apache-2.0 */
#include "world_internal.h"

#include "launcher/options/rank_commands.h"
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/random.h"
#include "lib/base/xalloc.h"
#include "lib/process/multi_prog.h"
#include "lib/protocol/worlds.h"
#include "lib/rendezvous/server.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the commands of a host's ranks, which are in one message (HVD_WIRE_MAX), some of them escaped. */
#define COMMANDS_MAX (1024 * 1024)

/* ---- what the store tells ---- */

static void on_joined(void *arg, const struct hvd_rv_init_event *join)
{
	struct hvd_world *world = arg;

	hvd_world_init(world, hvd_init_watch_joined(world->init_watch, join));
}

static void on_horovod(void *arg)
{
	hvd_agent_registry_horovod(((struct hvd_world *)arg)->agents);
}

static void on_init_failed(const struct hvd_err *why, void *arg)
{
	const struct hvd_world *world = arg;

	world->ops->init_failed(why, world->arg);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	struct hvd_world *world = arg;

	world->ops->stalled(stall, world->arg);
}

/* ---- what the hosts tell ---- */

static int on_open(void *arg, struct hvd_err *err)
{
	/* PyTorch's ranks are served if there is somebody to watch them. */
	static const struct hvd_rv_service_ops with_torch = {on_joined, on_horovod}, without = {.horovod = on_horovod};
	struct hvd_world *world = arg;

	if (hvd_rv_service_open(&world->service, world->base, world->number, world->init_watch ? &with_torch : &without,
				world, world->log, err) != 0)
		return -1;
	return world->ops->opened ? world->ops->opened(world->service.rv, world->arg, err) : 0;
}

/* From now on only the relays of the job's hosts may use the rendezvous. */
static void open_to_relays(const struct hvd_world *world)
{
	hvd_relays_admit(&world->plan.relays, world->service.rv);
}

/* With --multi-prog: each rank has a command, and those of a host fit into a message. */
static int check_programs(const struct hvd_world *world, const struct hvd_multi_prog *programs, struct hvd_err *err)
{
	const struct hvd_layout *layout = &world->plan.layout;
	hvd_cleanup_free size_t *bytes = hvd_xcalloc((size_t)layout->n_hosts, sizeof(*bytes));

	if (hvd_multi_prog_check(programs, layout->size, err) != 0)
		return -1;
	for (int r = 0; r < layout->size; r++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
		const int host = layout->rank_slots[r].host;

		hvd_multi_prog_command(programs, r, &argv);
		for (size_t i = 0; i < argv.n; i++)
			bytes[host] += strlen(argv.v[i]) + 1;
		if (bytes[host] <= COMMANDS_MAX)
			continue;
		hvd_err_set(err, HVD_E_USAGE, "%s: the commands of the ranks on %s have more than %d KB",
			    hvd_multi_prog_name(programs), layout->hosts[host].name, COMMANDS_MAX / 1024);
		return hvd_err_hint(err, "pass long arguments in files that the ranks read");
	}
	return 0;
}

/* The commands of a launch of srun's or mpirun's, whose layout is known now. */
static int check_command(const struct hvd_world *world, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = world->plan.opts->spec;
	const struct hvd_layout *layout = &world->plan.layout;
	bool crowded = false;

	for (int i = 0; i < layout->n_hosts; i++)
		crowded = crowded || layout->hosts[i].n > 1;
	if (spec->programs && check_programs(world, spec->programs, err) != 0)
		return -1;
	return hvd_rank_commands_refuse(spec, layout->size, crowded, err);
}

static int on_decided(void *arg, struct hvd_err *err)
{
	struct hvd_world *world = arg;

	if (!world->plan.networks->elastic &&
	    (hvd_host_table_layout(world->table, &world->plan.layout, err) != 0 || check_command(world, err) != 0 ||
	     hvd_rank_plan_servers(&world->plan, err) != 0))
		return -1;
	hvd_relays_make(&world->plan.relays, world->number, world->plan.opts, world->table, world->log);
	open_to_relays(world);
	return 0;
}

static void on_admitted(uint32_t host, json_t *plan, void *arg)
{
	struct hvd_world *world = arg;

	if (!hvd_relays_at(&world->plan.relays, host)) {
		hvd_relays_join(&world->plan.relays, world->table, host);
		open_to_relays(world);
	}
	if (plan)
		hvd_rank_messages_plan(world, host, plan);
}

static void on_left(uint32_t host, void *arg)
{
	struct hvd_world *world = arg;

	hvd_relays_leave(&world->plan.relays, host);
	hvd_usage_gone(world->usage, host);
	open_to_relays(world);
}

static void on_registered(struct hvd_client *cl, void *arg)
{
	hvd_progress_add(((struct hvd_world *)arg)->progress, cl);
}

static void on_disconnected(const struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_world *world = arg;

	hvd_progress_remove(world->progress, cl);
	hvd_stacks_gone(world->stacks, cl, why);
	hvd_host_questions_gone(world->questions, cl, why);
	if (cl->host < world->table->n && world->table->hosts[cl->host].client == cl)
		hvd_usage_gone(world->usage, cl->host);
}

static void on_over(void *arg)
{
	struct hvd_world *world = arg;

	hvd_ready_stop(world->ready);
	if (world->init_watch)
		hvd_init_watch_stop(world->init_watch);
	hvd_progress_stop(world->progress);
	hvd_straggler_watch_stop(world->stragglers);
	hvd_usage_log_stop(world->usage_log);
}

/* ---- what its user asks ---- */

void hvd_worlds_boot(struct hvd_world *const *worlds, unsigned n, struct hvd_boot *boot)
{
	struct hvd_rank_ports ports = {0};

	hvd_agent_registry_boot(worlds[0]->agents, boot);
	boot->relays = (unsigned)worlds[0]->plan.opts->spec->relay_fan_out;
	for (unsigned w = 0; w < n; w++) {
		hvd_rank_plan_add_ports(&worlds[w]->plan, &ports);
		boot->network |= hvd_relays_have_network(worlds[w]->plan.opts);
	}
	for (unsigned w = 0; w < n; w++)
		worlds[w]->plan.ports = ports;
	boot->store_ports = ports.stores;
	boot->ports = ports.stores + ports.others;
	boot->rank_ports = ports.each;
	boot->role_ports = ports.roles;
}

const struct hvd_layout *hvd_world_layout(const struct hvd_world *world)
{
	return world->plan.networks->elastic ? &world->layout : &world->plan.layout;
}

const struct hvd_launch_spec *hvd_world_spec(const struct hvd_world *world)
{
	return world->plan.opts->spec;
}

const char *hvd_world_role(const struct hvd_world *world)
{
	return world->plan.opts->role;
}

const struct hvd_log *hvd_world_log(const struct hvd_world *world)
{
	return world->log;
}

struct hvd_stacks *hvd_world_stacks(const struct hvd_world *world)
{
	return world->stacks;
}

const struct hvd_usage *hvd_world_usage(const struct hvd_world *world)
{
	return world->usage;
}

const struct hvd_straggler *hvd_world_straggler(const struct hvd_world *world, uint32_t rank)
{
	return hvd_straggler_watch_get(world->stragglers, rank);
}

char *hvd_world_cannot_init(const struct hvd_world *world, uint32_t host)
{
	return world->init_watch ? hvd_init_watch_expected(world->init_watch, (int32_t)host) : NULL;
}

struct hvd_store_waits *hvd_world_store_waits(const struct hvd_world *world)
{
	return world->waits;
}

struct hvd_host_questions *hvd_world_host_questions(const struct hvd_world *world)
{
	return world->questions;
}

void hvd_world_share_store(struct hvd_world *world, unsigned store)
{
	world->plan.job_store = store;
}

in_port_t hvd_world_rank_port(const struct hvd_world *world, uint32_t host, int local_rank, unsigned i)
{
	return hvd_rank_plan_port(&world->plan, host, local_rank, i);
}

void hvd_world_init(struct hvd_world *world, bool all)
{
	hvd_event(world->plan.opts->events, INIT_BEGAN, .world = world->number);
	if (all)
		hvd_event(world->plan.opts->events, INIT_DONE, .world = world->number);
}

/* ---- generations ---- */

void hvd_world_begin(struct hvd_world *world)
{
	const struct hvd_layout *layout = &world->plan.layout;

	hvd_rv_service_size(&world->service, layout);
	hvd_usage_begin(world->usage, layout);
	hvd_straggler_watch_begin(world->stragglers);
	hvd_usage_log_begin(world->usage_log);
	if (world->init_watch)
		hvd_init_watch_begin(world->init_watch, layout, world->table);
	hvd_progress_begin(world->progress, (uint32_t)layout->n_hosts);
}

static void take_layout(struct hvd_layout *to, struct hvd_layout *from)
{
	hvd_layout_clear(to);
	*to = *from;
	memset(from, 0, sizeof(*from));
}

void hvd_world_prepare(struct hvd_world *world, struct hvd_layout *layout)
{
	take_layout(&world->plan.layout, layout);
	hvd_rv_clear_scope(world->service.rv, "global"); /* from ranks that were given up */
}

void hvd_world_generation(struct hvd_world *world, struct hvd_layout *layout, bool prepared)
{
	if (world->init_watch)
		hvd_init_watch_stop(world->init_watch);
	take_layout(&world->layout, layout);
	hvd_rv_clear(world->service.rv, prepared ? "global" : NULL);
	hvd_rv_service_size(&world->service, &world->layout);
	hvd_usage_begin(world->usage, &world->layout);
	hvd_straggler_watch_begin(world->stragglers);
	hvd_usage_log_begin(world->usage_log);
	hvd_ready_begin(world->ready, &world->layout);
}

void hvd_world_ready_stop(struct hvd_world *world)
{
	hvd_ready_stop(world->ready);
}

void hvd_world_renew(struct hvd_world *world, int restarts)
{
	world->plan.restarts = restarts;
	hvd_rv_tcpstore_reset(world->service.rv);
	if (world->init_watch)
		hvd_init_watch_begin(world->init_watch, &world->layout, world->table);
}

void hvd_world_progress(struct hvd_world *world)
{
	hvd_progress_begin(world->progress, 0);
}

/* ---- ranks ---- */

/* Send an order about ranks, or the store, of this world. */
static void order(const struct hvd_world *world, uint32_t host, json_t *msg)
{
	hvd_agent_registry_command(world->agents, host, hvd_world_mark(msg, world->number));
}

/* From now on all ranks rendezvous through the relay of rank 0's host, and through no other. */
static void open_relay(struct hvd_world *world)
{
	int32_t open = hvd_rank_plan_open_relay(&world->plan);

	if (world->open_relay >= 0 && world->open_relay != open)
		order(world, (uint32_t)world->open_relay, json_pack("{s:s, s:[]}", "t", "network", "addrs"));
	if (open >= 0)
		order(world, (uint32_t)open,
		      json_pack("{s:s, s:o}", "t", "network", "addrs", hvd_rank_plan_host_addrs(&world->plan)));
	world->open_relay = open;
}

void hvd_world_start(struct hvd_world *world, uint32_t id, int rank, int slots, const struct hvd_host_share *share)
{
	const struct hvd_rank_slot *slot = &world->plan.layout.rank_slots[rank];
	json_t *msg, *command;

	if (!hvd_agent_registry_admitted(world->agents, (uint32_t)slot->host))
		return; /* the plan has no endpoint for the host */
	if (rank == 0)
		open_relay(world);
	/* The host has more ranks than slots when slots were taken away from the job. */
	msg = json_pack("{s:s, s:I, s:i, s:i, s:i, s:o}", "t", "start", "id", (json_int_t)id, "rank", rank, "slot",
			slot->local_rank, "slots", slots > slot->local_rank ? slots : slot->local_rank + 1, "env",
			hvd_rank_plan_env(&world->plan, (uint32_t)rank));
	/* The agent's command line has that of the first world. */
	command = hvd_rank_command(world->plan.opts->spec, rank, world->number > 0);
	if (command)
		json_object_set_new(msg, "command", command);
	if (hvd_world_role(world))
		json_object_set_new(msg, "label", json_string(hvd_world_role(world)));
	if (share) {
		hvd_host_share_add(msg, share);
		json_object_set_new(msg, "bind", json_string(world->plan.opts->spec->binding.ranks));
	}
	order(world, (uint32_t)slot->host, msg);
}

void hvd_world_stop(struct hvd_world *world, uint32_t host, uint32_t id, bool kill)
{
	order(world, host, json_pack("{s:s, s:I, s:b}", "t", "stop", "id", (json_int_t)id, "kill", kill));
}

void hvd_world_notify(struct hvd_world *world, uint32_t host, uint32_t id, const char *to, int64_t when)
{
	order(world, host,
	      json_pack("{s:s, s:I, s:s, s:I}", "t", "notify", "id", (json_int_t)id, "to", to, "time",
			(json_int_t)when));
}

int hvd_world_kill_connections(struct hvd_world *world, const struct hvd_gloo_peers *peers)
{
	int count = 0;

	for (uint32_t h = 0; h < world->table->n; h++) {
		json_t *at = hvd_agent_registry_admitted(world->agents, h)
				     ? hvd_gloo_peers_at(peers, &world->table->hosts[h].node)
				     : NULL;

		if (at)
			order(world, h, json_pack("{s:s, s:o}", "t", "kill-connections", "at", at));
		count += at != NULL;
	}
	return count;
}

/* ---- life ---- */

/* Not the session's id, which the driver tells to whoever connects. */
static int make_run_id(struct hvd_world *world, struct hvd_err *err)
{
	unsigned char id[HVD_RUN_ID_LEN / 2];

	if (hvd_random(id, sizeof(id), err) != 0)
		return -1;
	hvd_hex(id, sizeof(id), world->plan.run_id);
	return 0;
}

struct hvd_world *hvd_world_create(struct event_base *base, struct hvd_agent_registry *agents,
				   const struct hvd_driver_opts *opts, const struct hvd_world_ops *ops, void *arg,
				   const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_host_listener listener = {.open = on_open,
							  .renumber = hvd_rank_numbers_make,
							  .decided = on_decided,
							  .admitted = on_admitted,
							  .left = on_left,
							  .registered = on_registered,
							  .disconnected = on_disconnected,
							  .over = on_over,
							  .messages = hvd_rank_messages};
	struct hvd_world *world = hvd_xcalloc(1, sizeof(*world));
	int number;

	*world = (struct hvd_world){
		.base = base, .agents = agents, .ops = ops, .arg = arg, .own_log = *log, .open_relay = -1};
	world->own_log.of = opts->role;
	world->log = &world->own_log;
	world->table = hvd_agent_registry_table(agents);
	world->plan.opts = opts;
	world->plan.table = world->table;
	world->plan.networks = hvd_agent_registry_networks(agents);
	if (make_run_id(world, err) != 0 || (number = hvd_agent_registry_listen(agents, &listener, world, err)) < 0) {
		free(world);
		return NULL;
	}
	world->number = (unsigned)number;
	hvd_event_log_world(opts->events, world->number, opts->role);
	if (hvd_launch_spec_has_store(opts->spec))
		world->init_watch = hvd_init_watch_create(base, opts->spec->init_timeout, &world->service,
							  on_init_failed, world, world->log);
	world->ready = hvd_ready_create(base, world->number, world->table, opts->ready, &ops->ready, arg, world->log);
	world->stacks =
		hvd_stacks_create(base, world->number, world->table, world->init_watch ? &world->service : NULL);
	world->questions = hvd_host_questions_create(base, world->number, world->table);
	if (world->init_watch)
		world->waits = hvd_store_waits_create(world->table, &world->service, world->questions);
	world->usage = hvd_usage_create(world->number, opts->events);
	if (opts->spec->sample > 0) {
		world->stragglers = hvd_straggler_watch_create(base, world->usage, opts->events, world->log);
		world->usage_log = hvd_usage_log_create(base, opts->spec->sample, world->usage, opts->events);
	}
	if (opts->spec->hang_timeout > 0 && ops->stalled)
		world->progress = hvd_progress_create(base, world->number, opts->spec->hang_timeout, &world->service,
						      world->table, on_stalled, world);
	return world;
}

void hvd_world_destroy(struct hvd_world *world)
{
	if (!world)
		return;
	/* First, since it answers those who still ask it. */
	hvd_store_waits_forget(world->waits);
	hvd_rv_service_close(&world->service);
	hvd_init_watch_destroy(world->init_watch);
	hvd_progress_destroy(world->progress);
	hvd_ready_destroy(world->ready);
	hvd_stacks_destroy(world->stacks);
	hvd_store_waits_destroy(world->waits);
	hvd_host_questions_destroy(world->questions);
	hvd_straggler_watch_destroy(world->stragglers);
	hvd_usage_log_destroy(world->usage_log);
	hvd_usage_destroy(world->usage);
	hvd_rank_plan_clear(&world->plan);
	hvd_layout_clear(&world->layout);
	free(world);
}
