/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_messages.c - the messages between the driver and the agents about ranks. The table at the end has those that agents
 * send. To an agent (agent/driver_client.h describes the fields), with the number of the world (lib/protocol/worlds.h):
 *
 *   part of the plan: ranks, relay, …; in an elastic job there are no ranks yet
 *   relay                           the relay has broken the protocol, or there was no room: it must start again
 *   network  addrs:[ADDR,…]         only ranks at these addresses may connect to the host's relay
 *   watch                           agent/activity.c
 *   stacks, owners                  agent/rank_watch.c
 *   lines                           agent/last_lines.h
 * and in an elastic job, by the id of the rank's process:
 *   start    id, rank, slot, slots, env:{NAME:VALUE,…}; with --multi-prog command:[WORD,…]; label:TEXT in front of its number in
 *            labels of its output
 *   stop     id, kill               kill: by SIGKILL at once
 *   ready                           lib/protocol/ready_question.h
 *   notify   id, to, time           agent/worker_notify.c
 *   kill-connections  at:{…}        agent/kill_connections.h
 */
#include "world_internal.h"

#include "launcher/options/rank_commands.h"
#include "lib/base/size.h"
#include "lib/protocol/worlds.h"

#include <limits.h>

/* ---- the plan ---- */

/* The numbers of the host's ranks, where they are not those that it has registered (rank_numbers.c). */
static void add_numbers(const struct hvd_rank_plan *plan, const struct hvd_host_entry *host, json_t *msg)
{
	json_t *numbers;

	if (plan->networks->elastic || plan->opts->spec->spares == 0)
		return;
	numbers = json_array();
	for (uint32_t r = 0; r < host->node.n_ranks; r++)
		json_array_append_new(numbers, json_integer(host->node.ranks[r]));
	json_object_set_new(msg, "numbers", numbers);
	json_object_set_new(msg, "size", json_integer(plan->layout.size));
}

void hvd_rank_messages_plan(const struct hvd_world *world, uint32_t h, json_t *msg)
{
	const struct hvd_rank_plan *plan = &world->plan;
	json_t *ranks = json_array(), *relay = hvd_rank_plan_relay(plan, h);
	json_t *part = hvd_world_add_part(msg, world->number);
	const struct hvd_host_entry *host = &plan->table->hosts[h];
	const bool elastic = plan->networks->elastic;
	json_t *commands = plan->opts->spec->programs && !elastic ? json_array() : NULL;

	for (uint32_t r = 0; r < host->node.n_ranks && !elastic; r++) {
		json_array_append_new(ranks, hvd_rank_plan_env(plan, host->node.ranks[r]));
		if (commands)
			json_array_append_new(commands,
					      hvd_rank_command(plan->opts->spec, (int)host->node.ranks[r], false));
	}
	json_object_set_new(part, "ranks", ranks);
	if (commands)
		json_object_set_new(part, "commands", commands);
	if (relay) {
		json_object_set_new(part, "relay", relay);
		hvd_client_relay(host->client, world->number, world->service.rv);
	}
	add_numbers(plan, host, part);
}

/* ---- what agents send ---- */

/* Read the id of a rank's process, and find its host. An agent reports the processes of its own host. Where the agent has
 * gone, a shim or a watchdog reports the end of a rank over a connection of its own; this only happens in a job of fixed
 * size. -1: the message is malformed. */
static int read_id(const struct hvd_world *world, const struct hvd_client *cl, const json_t *msg, uint32_t *id,
		   uint32_t *host)
{
	const struct hvd_layout *layout = &world->plan.layout;
	int64_t number;

	if (hvd_get_int(msg, "id", 0, INT_MAX, &number, NULL) != 0)
		return -1;
	*id = (uint32_t)number;
	*host = cl->host;
	if (cl->role != HVD_ROLE_NONE)
		return 0;
	if (world->plan.networks->elastic || number >= layout->size)
		return -1;
	*host = (uint32_t)layout->rank_slots[number].host;
	return 0;
}

/* The rank that a host's process has, of this generation or the one that is being prepared. -1: it has none. */
static int rank_of(const struct hvd_world *world, uint32_t host, json_int_t id)
{
	int rank;

	if (id < 0 || id > INT_MAX)
		return -1;
	rank = hvd_layout_rank_of(&world->layout, host, (uint32_t)id); /* empty in a job of fixed size */
	return rank >= 0 ? rank : hvd_layout_rank_of(&world->plan.layout, host, (uint32_t)id);
}

/* Replace the ids of processes in a list by the numbers of their ranks. Without a number (-1) it is taken out, if `out`. */
static void renumber(const struct hvd_world *world, uint32_t host, json_t *ids, bool out)
{
	for (size_t i = json_array_size(ids); i-- > 0;) {
		const int rank = rank_of(world, host, json_integer_value(json_array_get(ids, i)));

		if (rank < 0 && out)
			json_array_remove(ids, i);
		else
			json_array_set_new(ids, i, json_integer(rank));
	}
}

static void on_exit_report(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;
	struct hvd_rank_end end = {0};
	uint32_t host;

	if (read_id(world, cl, msg, &end.rank, &host) == 0 && hvd_rank_end_parse(msg, &end, NULL) == 0) {
		hvd_clock_end(&world->table->hosts[host].clock, &end, hvd_now());
		if (world->ops->ended)
			world->ops->ended(host, &end, world->arg);
	}
	hvd_rank_end_clear(&end);
}

static void on_shim_lost(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;
	uint32_t id, host;

	if (read_id(world, cl, msg, &id, &host) == 0 && world->ops->shim_lost)
		world->ops->shim_lost(host, id, world->arg);
}

static void on_unkillable(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;
	struct hvd_unkillable what;
	uint32_t id, host;
	int64_t rank;

	if (read_id(world, cl, msg, &id, &host) == 0 &&
	    hvd_get_int(msg, "rank", 0, HVD_MAX_RANKS - 1, &rank, NULL) == 0 &&
	    hvd_unkillable_parse(msg, &what, NULL) == 0 && world->ops->unkillable)
		world->ops->unkillable(host, id, (uint32_t)rank, &what, world->arg);
}

static void on_output_lost(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;

	(void)cl;
	(void)msg;
	if (world->ops->output_lost)
		world->ops->output_lost(world->arg);
}

static void on_relay(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;

	(void)msg;
	if (hvd_relays_at(&world->plan.relays, cl->host))
		hvd_client_relay(cl, world->number, world->service.rv);
}

static void on_refused(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;
	const char *name = world->table->hosts[cl->host].node.name;

	renumber(world, cl->host, json_object_get(msg, "ranks"), true);
	if (world->init_watch && name)
		hvd_init_watch_refused(world->init_watch, name, msg);
}

static void on_activity(void *arg, struct hvd_client *cl, const json_t *msg)
{
	hvd_progress_message(((struct hvd_world *)arg)->progress, cl, msg);
}

static void on_stacks(void *arg, struct hvd_client *cl, const json_t *msg)
{
	const struct hvd_world *world = arg;
	json_t *ranks = json_object_get(msg, "ranks");

	for (size_t i = json_array_size(ranks); i-- > 0;) {
		json_t *object = json_array_get(ranks, i);
		const int rank = rank_of(world, cl->host, json_integer_value(json_object_get(object, "rank")));

		if (rank < 0)
			json_array_remove(ranks, i);
		else
			json_object_set_new(object, "rank", json_integer(rank));
	}
	hvd_stacks_message(world->stacks, cl, msg);
}

static void on_usage(void *arg, struct hvd_client *cl, const json_t *msg)
{
	hvd_usage_message(((struct hvd_world *)arg)->usage, cl, msg);
}

static void on_host_answer(void *arg, struct hvd_client *cl, const json_t *msg)
{
	const struct hvd_world *world = arg;

	renumber(world, cl->host, json_object_get(msg, "ranks"), false);
	hvd_host_questions_message(world->questions, cl, msg);
}

static void on_ready(void *arg, struct hvd_client *cl, const json_t *msg)
{
	hvd_ready_message(((struct hvd_world *)arg)->ready, cl, msg);
}

static void on_notified(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;
	const char *why;
	int64_t id;

	(void)cl;
	if (hvd_get_int(msg, "id", 0, INT_MAX, &id, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0 &&
	    world->ops->notified)
		world->ops->notified((uint32_t)id, why, world->arg);
}

static void on_connections_killed(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_world *world = arg;
	const char *why;
	int64_t n;

	if (hvd_get_int(msg, "n", 0, INT_MAX, &n, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0 &&
	    world->ops->connections_killed)
		world->ops->connections_killed(cl->host, (int)n, why, world->arg);
}

#define AGENT  HVD_FROM_AGENT
#define NEW    HVD_FROM_NEW
#define FORMER HVD_FROM_FORMER
#define LAST   HVD_FROM_LAST

/* clang-format off */
const struct hvd_driver_message hvd_rank_messages[] = {
	/* --- ranks; id: that of the rank's process --- */
	{"exit",        NEW | AGENT | LAST, true, on_exit_report}, /* id, and lib/host/rank_end.h */
	{"lost",        AGENT,        true,  on_shim_lost},   /* id: its shim has ended without a report */
	{"unkillable",  AGENT | LAST, true,  on_unkillable},  /* id, rank, and lib/host/unkillable.h */
	{"output-lost", AGENT | LAST, false, on_output_lost},
	{"stacks",      AGENT | FORMER, true, on_stacks},     /* agent/rank_watch.c */
	{"activity",    AGENT | FORMER, true, on_activity},   /* agent/activity.c */
	{"answer",      AGENT,        true,  on_host_answer}, /* to "owners", "lines": agent/rank_watch.c, last_lines.h */
	{"usage",       AGENT,        true,  on_usage},       /* lib/host/rank_usage.h */
	{"ready",       AGENT,        true,  on_ready},       /* lib/protocol/ready_question.h */
	{"notified",    AGENT,        true,  on_notified},    /* id, why: agent/worker_notify.c */
	{"kill-connections", AGENT,   true,  on_connections_killed}, /* n, why: agent/kill_connections.h */
	/* --- the rendezvous --- */
	{"relay",       AGENT,        false, on_relay},       /* answers "relay": bytes that follow are those of a relay that
							       * has started again */
	{"refused",     AGENT,        true,  on_refused},     /* init_watch.h */
	{NULL, 0, false, NULL},
};
/* clang-format on */
