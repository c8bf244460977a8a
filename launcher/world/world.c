/* SPDX-License-Identifier: Apache-2.0 */
#include "world_internal.h"

#include "lib/base/digits.h"
#include "lib/base/random.h"
#include "lib/base/xalloc.h"
#include "lib/process/other_launcher.h"
#include "plan_delivery.h"

#include <stdlib.h>

/* ---- what the store tells ---- */

static void on_joined(void *arg, const struct hvd_rv_init_event *join)
{
	struct hvd_world *world = arg;

	hvd_world_init(world, hvd_init_watch_joined(world->init_watch, join));
}

static void on_waits(const char *text, void *arg)
{
	struct hvd_world *world = arg;

	hvd_init_watch_waits(world->init_watch, text);
	hvd_stacks_waits(world->stacks, text);
}

static void on_horovod(void *arg)
{
	hvd_agent_registry_horovod(((struct hvd_world *)arg)->agents);
}

static void on_init_failed(const struct hvd_err *why, void *arg)
{
	hvd_agent_registry_fail(((struct hvd_world *)arg)->agents, why);
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
	static const struct hvd_rv_service_ops with_torch = {on_joined, on_waits, on_horovod},
					       without = {.horovod = on_horovod};
	struct hvd_world *world = arg;

	if (hvd_rv_service_open(&world->service, world->base, world->init_watch ? &with_torch : &without, world,
				world->log, err) != 0)
		return -1;
	return world->ops->opened ? world->ops->opened(world->service.rv, world->arg, err) : 0;
}

/* From now on only the relays of the job's hosts may use the rendezvous. */
static void open_to_relays(struct hvd_world *world)
{
	size_t n;
	uint32_t *relay_ids;

	if (!world->service.rv)
		return;
	relay_ids = hvd_relays_ids(&world->plan.relays, &n);
	hvd_rv_relay_admit(world->service.rv, relay_ids, n);
	free(relay_ids);
}

/* The command of a launch of srun's or mpirun's, whose layout is known now. */
static int check_command(const struct hvd_world *world, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = world->plan.opts->spec;
	const struct hvd_layout *layout = &world->plan.layout;
	bool crowded = false;

	if (spec->selftest || !spec->command || !spec->command[0])
		return 0;
	for (int i = 0; i < layout->n_hosts; i++)
		crowded = crowded || layout->hosts[i].n > 1;
	return hvd_other_launcher_refuse(spec->command, layout->size, crowded, spec->own_line, spec->counts_ranks, err);
}

static int on_decided(void *arg, struct hvd_err *err)
{
	struct hvd_world *world = arg;

	if (!world->plan.networks->elastic &&
	    (hvd_host_table_layout(world->table, &world->plan.layout, err) != 0 || check_command(world, err) != 0 ||
	     hvd_rank_plan_servers(&world->plan, err) != 0))
		return -1;
	hvd_relays_make(&world->plan.relays, world->plan.opts, world->table, world->log);
	open_to_relays(world);
	return 0;
}

static void on_admitted(uint32_t host, void *arg)
{
	struct hvd_world *world = arg;

	if (!hvd_relays_at(&world->plan.relays, host)) {
		hvd_relays_join(&world->plan.relays, world->table, host);
		open_to_relays(world);
	}
	if (world->table->hosts[host].client)
		hvd_plan_delivery_send(&world->plan, host, world->service.rv);
}

static void on_left(uint32_t host, void *arg)
{
	struct hvd_world *world = arg;

	hvd_relays_leave(&world->plan.relays, host);
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
}

static void on_over(void *arg)
{
	struct hvd_world *world = arg;

	if (world->init_watch)
		hvd_init_watch_stop(world->init_watch);
	hvd_progress_stop(world->progress);
}

/* ---- what its user asks ---- */

void hvd_world_boot(const struct hvd_world *world, struct hvd_boot *boot)
{
	hvd_agent_registry_boot(world->agents, boot);
	hvd_rank_plan_ports(world->plan.opts->spec, &boot->ports, &boot->store_port, &boot->rank_ports);
	boot->relays = (unsigned)world->plan.opts->spec->relay_fan_out;
	boot->network = hvd_relays_have_network(world->plan.opts);
}

const struct hvd_layout *hvd_world_layout(const struct hvd_world *world)
{
	return world->plan.networks->elastic ? &world->layout : &world->plan.layout;
}

struct hvd_stacks *hvd_world_stacks(const struct hvd_world *world)
{
	return world->stacks;
}

char *hvd_world_cannot_init(const struct hvd_world *world, uint32_t host)
{
	return world->init_watch ? hvd_init_watch_expected(world->init_watch, (int32_t)host) : NULL;
}

void hvd_world_init(struct hvd_world *world, bool all)
{
	hvd_event(world->plan.opts->events, INIT_BEGAN, .index = 0);
	if (all)
		hvd_event(world->plan.opts->events, INIT_DONE, .index = 0);
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

	*world = (struct hvd_world){
		.base = base, .agents = agents, .ops = ops, .arg = arg, .log = log, .open_relay = -1};
	world->table = hvd_agent_registry_table(agents);
	world->plan.opts = opts;
	world->plan.table = world->table;
	world->plan.networks = hvd_agent_registry_networks(agents);
	if (make_run_id(world, err) != 0) {
		free(world);
		return NULL;
	}
	if (hvd_launch_spec_has_store(opts->spec))
		world->init_watch = hvd_init_watch_create(base, opts->spec->init_timeout, &world->service,
							  on_init_failed, world, log);
	world->stacks = hvd_stacks_create(base, world->table, world->init_watch ? &world->service : NULL);
	if (opts->spec->hang_timeout > 0 && ops->stalled)
		world->progress = hvd_progress_create(base, opts->spec->hang_timeout, &world->service, world->table,
						      on_stalled, world);
	hvd_agent_registry_listen(agents, &listener, world);
	return world;
}

void hvd_world_destroy(struct hvd_world *world)
{
	if (!world)
		return;
	hvd_init_watch_destroy(world->init_watch);
	hvd_progress_destroy(world->progress);
	hvd_stacks_destroy(world->stacks);
	hvd_rv_service_close(&world->service);
	hvd_rank_plan_clear(&world->plan);
	hvd_layout_clear(&world->layout);
	free(world);
}
