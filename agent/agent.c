/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "lib/base/xalloc.h"
#include "rank_env.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct hvd_feature *const features[] = {
	&hvd_rank_scan_feature,        /* what the ranks have used; the others find it when they begin */
	&hvd_probe_feature,            /* which hosts this one reaches, and the check of this host */
	&hvd_ports_feature,            /* ports that are reserved for servers in ranks */
	&hvd_relay_feature,            /* the relay of the rendezvous */
	&hvd_socket_owner_feature,     /* whose sockets are connected to the relay of another host */
	&hvd_rank_watch_feature,       /* where the ranks are */
	&hvd_last_lines_feature,       /* what they have written last */
	&hvd_refused_ranks_feature,    /* what they try in vain to reach */
	&hvd_activity_feature,         /* whether the ranks make progress */
	&hvd_ready_feature,            /* whether they are ready for ranks of other worlds */
	&hvd_samples_feature,          /* what the ranks use at the moment */
	&hvd_recheck_feature,          /* the check of this host between two generations */
	&hvd_worker_notify_feature,    /* notifies Horovod's elastic workers */
	&hvd_kill_connections_feature, /* breaks connections of ranks to a host that does not answer */
};
#define N_FEATURES (sizeof(features) / sizeof(features[0]))

/* The state of a feature or, if it is by_world, of a feature for one world. */
struct hvd_feature_state {
	const struct hvd_feature *feature;
	unsigned world;
	void *self;
};

static bool is_about(const struct hvd_feature_state *state, unsigned world)
{
	return !state->feature->by_world || state->world == world;
}

/* Call this of all features that have it, for this world. */
#define EACH(agent, world, callback, ...)                                                                              \
	for (size_t i_ = 0; i_ < (agent)->n_states; i_++)                                                              \
		if ((agent)->states[i_].feature->callback && is_about(&(agent)->states[i_], world))                    \
	(agent)->states[i_].feature->callback((agent)->states[i_].self, __VA_ARGS__)

/* ---- events ---- */

void hvd_agent_rank_starts(struct hvd_agent *agent, struct hvd_world_rank rank, json_t *env)
{
	EACH(agent, rank.world, rank_starts, rank, env);
}

void hvd_agent_rank_began(struct hvd_agent *agent, struct hvd_world_rank rank, pid_t pid)
{
	EACH(agent, rank.world, rank_began, rank, pid);
}

void hvd_agent_rank_output(struct hvd_agent *agent, struct hvd_world_rank rank, size_t bytes)
{
	EACH(agent, rank.world, rank_output, rank, bytes);
}

static void rank_ended(struct hvd_agent *agent, struct hvd_world_rank rank, json_t *msg)
{
	EACH(agent, rank.world, rank_ending, rank);
	hvd_driver_client_send(agent->driver, hvd_world_mark(msg, rank.world));
	EACH(agent, rank.world, rank_ended, rank);
}

void hvd_agent_rank_ended(struct hvd_agent *agent, unsigned world, int id, const struct hvd_rank_end *end)
{
	json_t *msg = hvd_rank_end_json(end);

	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "id", json_integer(id));
	rank_ended(agent, (struct hvd_world_rank){world, (uint32_t)id}, msg);
}

void hvd_agent_rank_lost(struct hvd_agent *agent, struct hvd_world_rank rank)
{
	rank_ended(agent, rank, json_pack("{s:s, s:I}", "t", "lost", "id", (json_int_t)rank.rank));
}

void hvd_agent_orphaned(struct hvd_agent *agent, const char *parent)
{
	if (!agent->orphaned)
		hvd_driver_client_send(agent->driver, json_pack("{s:s, s:s}", "t", "orphan", "parent", parent));
	agent->orphaned = true;
}

void hvd_agent_done(struct hvd_agent *agent, bool ask)
{
	if (!agent->done && agent->planned)
		hvd_driver_client_send(agent->driver, json_pack("{s:s, s:b}", "t", "done", "munge",
								!ask || hvd_driver_client_munge_answers(agent->boot)));
	agent->done = true;
}

void hvd_agent_quit(struct hvd_agent *agent)
{
	agent->quits = true;
	event_base_loopbreak(agent->base);
}

/* ---- what the driver says ---- */

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct hvd_agent *agent = arg;

	if (agent->status == 0)
		agent->status = hvd_err_status(why);
	if (!agent->planned)
		hvd_driver_client_log_failure(agent->log, agent->info, why);
	agent->unreachable = agent->planned;
	for (size_t i = 0; i < agent->n_states; i++)
		if (agent->states[i].feature->driver_lost)
			agent->states[i].feature->driver_lost(agent->states[i].self, why);
	agent->source->failed(agent->ranks, why);
}

/* The launch has failed since the start; the driver has said why. */
static void on_launch_failed(void *arg, const json_t *msg)
{
	struct hvd_agent *agent = arg;
	const bool misused = strcmp(json_string_value(json_object_get(msg, "t")), "misused") == 0;
	struct hvd_err why = {0};

	hvd_err_set(&why, misused ? HVD_E_USAGE : HVD_E_FAILED, "the launch failed");
	if (agent->status == 0)
		agent->status = hvd_err_status(&why);
	agent->source->failed(agent->ranks, &why);
}

static void on_ping(void *arg, const json_t *msg)
{
	(void)msg;
	hvd_driver_client_send(((struct hvd_agent *)arg)->driver, json_pack("{s:s}", "t", "pong"));
}

static void on_end(void *arg, const json_t *msg)
{
	struct hvd_agent *agent = arg;

	(void)msg;
	if (agent->source->end)
		agent->source->end(agent->ranks);
}

/* Read the world that a message is about. False: the launch has no such world. */
static bool world_of(const struct hvd_agent *agent, const json_t *msg, unsigned *world)
{
	return hvd_world_of(msg, world, NULL) == 0 && *world < agent->boot->worlds;
}

static void on_start(void *arg, const json_t *msg)
{
	struct hvd_agent *agent = arg;
	unsigned world;

	if (agent->source->start && world_of(agent, msg, &world))
		agent->source->start(agent->ranks, world, msg);
}

static void on_stop(void *arg, const json_t *msg)
{
	struct hvd_agent *agent = arg;
	unsigned world;
	int64_t id;

	if (agent->source->stop && world_of(agent, msg, &world) && hvd_get_int(msg, "id", 0, INT_MAX, &id, NULL) == 0)
		agent->source->stop(agent->ranks, world, (int)id, json_is_true(json_object_get(msg, "kill")));
}

static void on_signal_order(void *arg, const json_t *msg)
{
	struct hvd_agent *agent = arg;
	int64_t sig;

	if (hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		agent->source->signal(agent->ranks, (int)sig);
}

static const struct hvd_agent_message own_messages[] = {{"failed", on_launch_failed},
							{"misused", on_launch_failed},
							{"ping", on_ping},
							{"end", on_end},
							{"start", on_start},
							{"stop", on_stop},
							{"signal", on_signal_order},
							{NULL, NULL}};

static bool read_by(const struct hvd_agent_message *messages, void *self, const char *type, const json_t *msg)
{
	for (; messages && messages->type; messages++)
		if (strcmp(messages->type, type) == 0) {
			messages->read(self, msg);
			return true;
		}
	return false;
}

static bool on_message(const char *type, const json_t *msg, void *arg)
{
	struct hvd_agent *agent = arg;
	unsigned world;

	if (agent->quits || agent->refused ||
	    (agent->source->message && agent->source->message(agent->ranks, type, msg)) ||
	    (agent->planned && read_by(own_messages, agent, type, msg)))
		return true;
	if (!world_of(agent, msg, &world))
		return false;
	for (size_t i = 0; i < agent->n_states; i++) {
		const struct hvd_feature_state *state = &agent->states[i];

		if (is_about(state, world) &&
		    read_by(agent->planned ? state->feature->messages : state->feature->early, state->self, type, msg))
			return true;
	}
	return false;
}

/* ---- the plan ---- */

static int plan_features(struct hvd_agent *agent, const json_t *plan, struct hvd_err *err)
{
	for (size_t i = 0; i < agent->n_states; i++) {
		const struct hvd_feature_state *state = &agent->states[i];

		if (state->feature->plan &&
		    state->feature->plan(state->self, hvd_world_part(plan, state->world), err) != 0)
			return -1;
	}
	return 0;
}

static void on_connected(void *arg)
{
	const struct hvd_agent *agent = arg;

	for (size_t i = 0; i < agent->n_states; i++)
		if (agent->states[i].feature->connected)
			agent->states[i].feature->connected(agent->states[i].self);
}

static void on_plan(const json_t *plan, void *arg)
{
	struct hvd_agent *agent = arg;
	struct hvd_err why = {0};

	agent->elastic = json_is_true(json_object_get(plan, "stay"));
	if (hvd_agent_settings_read(json_object_get(plan, "settings"), &agent->settings, &why) != 0 ||
	    plan_features(agent, plan, &why) != 0 ||
	    hvd_rank_key_take(plan, hvd_driver_client_key(agent->driver), &agent->key_fd, &why) != 0 ||
	    agent->source->plan(agent->ranks, plan, &why) != 0) {
		agent->refused = true;
		agent->source->refused(agent->ranks, &why);
	} else {
		agent->planned = true;
	}
	malloc_trim(0);
}

static void on_spare(void *arg)
{
	struct hvd_agent *agent = arg;

	agent->source->spare(agent->ranks);
}

static void on_drained(void *arg)
{
	struct hvd_agent *agent = arg;

	if (agent->source->delivered)
		agent->source->delivered(agent->ranks);
}

/* ---- life ---- */

static void on_ending(int sig, void *arg)
{
	struct hvd_agent *agent = arg;

	agent->source->signalled(agent->ranks, sig);
}

static void begin_feature(struct hvd_agent *agent, const struct hvd_feature *feature, unsigned world)
{
	void *self = hvd_xcalloc(1, feature->size);

	*(struct hvd_agent **)self = agent;
	if (feature->by_world)
		((struct hvd_of_world *)self)->world = world;
	agent->states[agent->n_states++] = (struct hvd_feature_state){.feature = feature, .world = world, .self = self};
	if (feature->begin)
		feature->begin(self);
}

static void begin(struct hvd_agent *agent)
{
	static const struct hvd_driver_client_ops ops = {.connected = on_connected,
							 .plan = on_plan,
							 .spare = on_spare,
							 .message = on_message,
							 .failed = on_failed,
							 .drained = on_drained};
	struct hvd_err why = {0};

	agent->driver = hvd_driver_client_create(agent->base, agent->conn, agent->boot, agent->session, agent->info,
						 &ops, agent, agent->log, &why);
	if (!agent->driver) {
		on_failed(&why, agent);
		return;
	}
	agent->states = hvd_xcalloc(N_FEATURES * (size_t)agent->boot->worlds, sizeof(*agent->states));
	for (size_t i = 0; i < N_FEATURES; i++)
		for (unsigned w = 0; w < (features[i]->by_world ? agent->boot->worlds : 1); w++)
			begin_feature(agent, features[i], w);
	if (agent->refusal && agent->refusal->code)
		hvd_driver_client_refuse(agent->driver, agent->refusal);
}

static void end(struct hvd_agent *agent)
{
	agent->source->close(agent->ranks);
	for (size_t i = 0; i < agent->n_states; i++) {
		if (agent->states[i].feature->end)
			agent->states[i].feature->end(agent->states[i].self);
		free(agent->states[i].self);
	}
	free(agent->states);
	agent->states = NULL;
	agent->n_states = 0;
	if (agent->key_fd)
		close(agent->key_fd);
	if (agent->source->last)
		agent->source->last(agent->ranks);
	hvd_driver_client_destroy(agent->driver);
	agent->driver = NULL;
	hvd_ending_unwatch(agent->ending);
	event_base_dispatch(agent->base); /* until the last messages are out */
}

void hvd_agent_run(struct hvd_agent *agent)
{
	if (agent->ending)
		hvd_ending_hand_over(agent->ending, on_ending, agent);
	else
		agent->ending = hvd_ending_watch(agent->base, -1, on_ending, agent);
	begin(agent);
	if (!agent->quits)
		event_base_dispatch(agent->base);
	end(agent);
}
