/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include "generation_status.h"
#include "job.h"
#include "launcher/events/goodput.h"
#include "launcher/hosts/host_table.h"
#include "launcher/world/host_questions.h"
#include "launcher/world/store_waits.h"
#include "launcher/world/stragglers.h"
#include "launcher/world/usage.h"
#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_name.h"
#include "lib/protocol/worlds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_PER_TURN 500
#define LINES_SECONDS  1.0
#define DUMP           (JSON_COMPACT | JSON_REAL_PRECISION(12))

struct hvd_job_status {
	struct hvd_job *job;
	struct hvd_goodput goodput; /* of the first world */
	char *launch;               /* its name for questions; NULL: that of the environment */
	struct world_status {
		struct hvd_job_status *status;
		struct hvd_generation_status now;
		json_t *waits; /* store_waits.h; NULL: nothing is known */
		int64_t shown; /* the answer is of this generation */
	} worlds[HVD_MAX_WORLDS];
	void (*done)(char *answer, void *arg); /* who asks */
	void *arg;
	long asked;        /* the rank; -1: all */
	unsigned asked_of; /* its world; beyond all: there is no such rank */
	unsigned awaited;  /* stores that have not answered what their ranks wait for */
	json_t *lines;     /* the agent's answer of the last lines; NULL: there is none */
	/* The answer so far, which gets some ranks in each turn. */
	struct hvd_timer *timer;
	char *text;
	unsigned next_world;
	uint32_t next;
	bool first; /* none is in it yet */
};

/* ---- events ---- */

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_job_status *status = arg;

	if (event->world == 0)
		hvd_goodput_event(&status->goodput, event);
	hvd_generation_status_event(&status->worlds[event->world].now, event);
}

/* ---- the worlds ---- */

static unsigned number_of(const struct world_status *world)
{
	return (unsigned)(world - world->status->worlds);
}

static struct hvd_world *ranks_of(const struct world_status *world)
{
	return world->status->job->worlds[number_of(world)];
}

/* ---- the answer ---- */

static double since(hvd_time then)
{
	return (double)(hvd_now() - then) / 1e9;
}

static const char *state_of(const struct hvd_job_status *status)
{
	const struct hvd_job *job = status->job;

	if (job->state == HVD_JOB_STARTING)
		return "starting";
	if (job->state != HVD_JOB_RUNNING)
		return "ending";
	return status->worlds[0].now.ends && job->policy->hosts_change ? "restarting" : "running";
}

/* A text of the job's that is not empty. Takes it. */
static void set_text(json_t *object, const char *key, char *text)
{
	if (text && *text)
		json_object_set_new(object, key, json_string(text));
	free(text);
}

static void add_goodput(const struct hvd_job_status *status, json_t *answer)
{
	const hvd_time now = hvd_now();
	const struct hvd_phases phases = hvd_goodput_phases(&status->goodput, now);

	json_object_set_new(answer, "goodput",
			    json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "goodput",
				      hvd_goodput_share(&status->goodput, now), "start", phases.start, "init",
				      phases.init, "training", phases.training, "ending", phases.ending, "waiting",
				      phases.waiting));
}

static void add_generation(const struct world_status *world, json_t *object)
{
	const char *role = hvd_world_role(ranks_of(world));

	if (role)
		json_object_set_new(object, "role", json_string(role));
	json_object_set_new(object, "generation", json_integer(world->now.generation));
	json_object_set_new(object, "restarts", json_integer(world->now.restarts));
	if (world->now.generation)
		json_object_set_new(object, "generation_seconds", json_real(since(world->now.began)));
	set_text(object, "ended_by", world->now.why ? hvd_xstrdup(world->now.why) : NULL);
	if (world->status->job->state != HVD_JOB_STARTING && world->now.init_began && !world->now.init_done)
		set_text(object, "missing", hvd_world_cannot_init(ranks_of(world), UINT32_MAX));
}

static void add_state(const struct hvd_job_status *status, json_t *answer)
{
	struct hvd_job *job = status->job;

	json_object_set_new(answer, "state", json_string(state_of(status)));
	json_object_set_new(answer, "began", json_integer(hvd_wall_at(job->result->began) / 1000000000));
	json_object_set_new(answer, "seconds", json_real(hvd_result_seconds(job->result)));
	add_generation(&status->worlds[0], answer);
	if (job->state == HVD_JOB_STARTING)
		set_text(answer, "missing", hvd_host_table_missing(hvd_agent_registry_table(job->agents)));
	add_goodput(status, answer);
}

/* The generations of the other worlds; those of the first are the answer's own. */
static void add_worlds(const struct hvd_job_status *status, json_t *answer)
{
	for (unsigned w = 1; w < status->job->n_worlds; w++)
		add_generation(&status->worlds[w], hvd_world_add_part(answer, w));
}

static void set_figures(json_t *object, const struct hvd_rank_usage *uses)
{
#define SET(key, figure, value)                                                                                        \
	if ((figure) != HVD_USAGE_UNKNOWN)                                                                             \
	json_object_set_new(object, key, value)
	json_object_set_new(object, "cpu", json_real((double)uses->cpu / 1000));
	SET("delay", uses->delay, json_real((double)uses->delay / 1000));
	json_object_set_new(object, "memory", json_integer(uses->memory));
	SET("read", uses->read, json_integer(uses->read));
	SET("written", uses->written, json_integer(uses->written));
	SET("output", uses->output, json_integer(uses->output));
	SET("awaited", uses->awaited, json_real((double)uses->awaited / 1000));
	SET("gpu", uses->gpu, json_real((double)uses->gpu / 1000));
	SET("gpu_memory", uses->gpu_memory, json_integer(uses->gpu_memory));
#undef SET
}

/* A spare host is part of the job, but has no ranks. */
static json_t *host_of(const struct hvd_job_status *status, uint32_t h)
{
	static const char *const stages[HVD_N_STAGES] = {"away",     "coming", "registered", "probing",
							 "reported", "here",   "leaving"};
	const struct hvd_host_table *table = hvd_agent_registry_table(status->job->agents);
	const struct hvd_host_entry *host = &table->hosts[h];
	struct hvd_usage_host sum = {0};
	bool any = false;
	int ranks = 0;
	char buf[32];
	json_t *object;

	for (unsigned w = 0; w < status->job->n_worlds; w++) {
		const struct hvd_world *world = status->job->worlds[w];
		const struct hvd_layout *layout = hvd_world_layout(world);

		hvd_usage_host_add(hvd_world_usage(world), h, &sum);
		ranks += h < (uint32_t)layout->n_hosts ? layout->hosts[h].n : 0;
		any |= layout->size > 0;
	}
	object = json_pack("{s:s, s:s, s:i}", "host", hvd_host_table_name(table, h, buf), "stage",
			   host->leaving == HVD_LEAVING_LOST                    ? "lost"
			   : host->leaving == HVD_LEAVING_LEFT_OUT              ? "left-out"
			   : host->stage == HVD_STAGE_HERE && any && ranks == 0 ? "spare"
										: stages[host->stage],
			   "ranks", ranks);
	if (sum.ranks)
		set_figures(object, &sum.uses);
	return object;
}

static void add_hosts(const struct hvd_job_status *status, json_t *answer)
{
	const struct hvd_host_table *table = hvd_agent_registry_table(status->job->agents);
	json_t *hosts = json_array();

	for (uint32_t h = 0; h < table->n; h++)
		json_array_append_new(hosts, host_of(status, h));
	json_object_set_new(answer, "hosts", hosts);
}

static json_t *rank_of(const struct world_status *world, const struct hvd_layout *layout, uint32_t r)
{
	const struct hvd_rank_slot *slot = &layout->rank_slots[r];
	const char *name = layout->hosts[slot->host].name;
	const int ended = r < world->now.n ? world->now.ended[r] : -1;
	char number[16];
	const struct hvd_usage_rank *rank = hvd_usage_get(hvd_world_usage(ranks_of(world)), r);
	const struct hvd_straggler *slow = hvd_world_straggler(ranks_of(world), r);
	json_t *object = json_pack("{s:i, s:s, s:i, s:s}", "rank", (int)r, "host", name ? name : "", "local_rank",
				   slot->local_rank, "state",
				   ended == 0  ? "ended"
				   : ended > 0 ? "failed"
					       : "running");

	hvd_world_mark(object, number_of(world));
	if (hvd_world_role(ranks_of(world)))
		json_object_set_new(object, "role", json_string(hvd_world_role(ranks_of(world))));
	if (ended >= 0)
		json_object_set_new(object, "status", json_integer(ended));
	if (rank && ended < 0) {
		struct hvd_rank_usage uses = rank->uses;

		uses.output = hvd_usage_output(rank, hvd_now());
		json_object_set_new(object, "age", json_real(since(rank->heard)));
		set_figures(object, &uses);
		if (rank->has_growth)
			json_object_set_new(object, "growth", json_real(rank->growth));
	}
	if (slow && ended < 0)
		json_object_set_new(object, "slow", json_string(slow->why));
	snprintf(number, sizeof(number), "%u", (unsigned)r);
	json_object_set(object, "waits", json_object_get(json_object_get(world->waits, "ranks"), number));
	if (world->status->asked >= 0) {
		json_object_set(object, "last_lines", json_object_get(world->status->lines, "lines"));
		json_object_set(object, "last_lines_of", json_object_get(world->status->lines, "of"));
	}
	return object;
}

static void add_launch(const struct hvd_job_status *status, json_t *answer)
{
	const struct hvd_job *job = status->job;
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) == 0)
		json_object_set_new(answer, "host", json_string(host));
	json_object_set_new(answer, "pid", json_integer(job->opts.pid));
	if (job->result->job || job->result->requeue.job)
		json_object_set_new(answer, "job",
				    json_integer(job->result->job ? job->result->job : job->result->requeue.job));
	set_text(answer, "launch", status->launch ? hvd_xstrdup(status->launch) : NULL);
	if (job->spec->command) {
		struct hvd_strv words = {.v = (char **)job->spec->command};

		hvd_cleanup_free char *line = NULL;

		while (words.v[words.n])
			words.n++;
		line = hvd_strv_join(&words, " ");
		set_text(answer, "command", hvd_xasprintf("%s%s", job->spec->programs ? "--multi-prog " : "", line));
	}
}

/* ---- in turns ---- */

/* So many ranks of the world are shown. A generation that begins meanwhile ends their list. */
static uint32_t shown_ranks(const struct world_status *world)
{
	const uint32_t all = world->now.generation && world->now.generation == world->shown
				     ? (uint32_t)hvd_world_layout(ranks_of(world))->size
				     : 0;
	const long asked = world->status->asked;

	if (asked < 0)
		return all;
	return number_of(world) == world->status->asked_of && (uint32_t)asked < all ? (uint32_t)asked + 1 : 0;
}

/* The next ranks, without the brackets of their array. */
static char *dump_ranks(struct hvd_job_status *status, bool *more)
{
	json_auto_t *ranks = json_array();
	char *text;

	for (unsigned i = 0; i < RANKS_PER_TURN && status->next_world < status->job->n_worlds;) {
		const struct world_status *world = &status->worlds[status->next_world];

		if (status->next < shown_ranks(world)) {
			json_array_append_new(ranks, rank_of(world, hvd_world_layout(ranks_of(world)), status->next++));
			i++;
		} else {
			status->next_world++;
			status->next = 0;
		}
	}
	*more = status->next_world < status->job->n_worlds;
	text = json_dumps(ranks, DUMP);
	if (text)
		text[strlen(text) - 1] = '\0';
	return text;
}

static void add_ranks(void *arg)
{
	struct hvd_job_status *status = arg;
	bool more;
	char *text = dump_ranks(status, &more);

	if (text && text[1]) {
		hvd_xappendf(&status->text, "%s%s", status->first ? "" : ",", text + 1);
		status->first = false;
	}
	free(text);
	if (more) {
		hvd_timer_soon(status->timer);
		return;
	}
	hvd_xappendf(&status->text, "]}");
	text = status->text;
	status->text = NULL;
	status->done(text, status->arg);
}

/* Lines, in a launch with roles with the role in front. */
static void add_store(const struct hvd_job_status *status, json_t *answer)
{
	json_t *all = NULL, *line;
	size_t i;

	for (unsigned w = 0; w < status->job->n_worlds; w++) {
		json_t *lines = json_object_get(status->worlds[w].waits, "lines");
		const char *role = hvd_world_role(ranks_of(&status->worlds[w]));

		all = lines && !all ? json_array() : all;
		json_array_foreach(lines, i, line)
		{
			hvd_cleanup_free char *text =
				hvd_xasprintf("%s%s%s", role ? role : "", role ? ": " : "", json_string_value(line));

			json_array_append_new(all, json_string(text));
		}
	}
	if (all)
		json_object_set_new(answer, "store", all);
}

static void begin_answer(struct hvd_job_status *status)
{
	json_auto_t *object = json_object();

	json_object_set_new(object, "version", json_string(HVD_VERSION));
	add_launch(status, object);
	add_state(status, object);
	add_worlds(status, object);
	add_hosts(status, object);
	add_store(status, object);
	free(status->text);
	status->text = json_dumps(object, DUMP);
	if (status->text)
		status->text[strlen(status->text) - 1] = '\0';
	hvd_xappendf(&status->text, ",\"ranks\":[");
	status->next_world = status->asked >= 0 ? status->asked_of : 0;
	status->next = status->asked >= 0 ? (uint32_t)status->asked : 0;
	for (unsigned w = 0; w < status->job->n_worlds; w++)
		status->worlds[w].shown = status->worlds[w].now.generation;
	status->first = true;
	hvd_timer_soon(status->timer);
}

static void on_lines(const json_t *answers, void *arg)
{
	struct hvd_job_status *status = arg;
	const char *host;
	json_t *answer;

	json_object_foreach((json_t *)answers, host, answer)
	{
		json_decref(status->lines);
		status->lines = json_incref(answer);
	}
	begin_answer(status);
}

/* Ask the host of the rank for its last lines. False: there is no such rank. */
static bool ask_lines(struct hvd_job_status *status)
{
	struct hvd_world *world =
		status->asked_of < status->job->n_worlds ? status->job->worlds[status->asked_of] : NULL;
	const struct hvd_rank_slot *slot;
	json_auto_t *question = NULL;
	char host[16];

	if (!world || status->asked < 0 || status->asked >= hvd_world_layout(world)->size)
		return false;
	slot = &hvd_world_layout(world)->rank_slots[status->asked];
	snprintf(host, sizeof(host), "%d", slot->host);
	question = json_pack("{s:{s:s, s:I}}", host, "t", "lines", "rank", (json_int_t)slot->id);
	hvd_host_questions_ask(hvd_world_host_questions(world), question, false, LINES_SECONDS, on_lines, status);
	return true;
}

static void on_waits(const json_t *waits, void *arg)
{
	struct world_status *world = arg;
	struct hvd_job_status *status = world->status;

	world->waits = json_incref((json_t *)waits);
	if (--status->awaited == 0 && !ask_lines(status))
		begin_answer(status);
}

static void forget_answers(struct hvd_job_status *status)
{
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++) {
		json_decref(status->worlds[w].waits);
		status->worlds[w].waits = NULL;
	}
	json_decref(status->lines);
	status->lines = NULL;
}

/* Which rank does the user mean? */
static void find_rank(struct hvd_job_status *status, const char *rank)
{
	const struct hvd_job *job = status->job;
	struct hvd_rank_name name;

	status->asked = rank ? 0 : -1;
	status->asked_of = rank && hvd_rank_name_parse(rank, &name) != 0 ? HVD_MAX_WORLDS : 0;
	if (!rank || status->asked_of)
		return;
	status->asked = name.rank;
	while (*name.role && status->asked_of < job->n_worlds &&
	       !(hvd_world_role(job->worlds[status->asked_of]) &&
		 strcmp(hvd_world_role(job->worlds[status->asked_of]), name.role) == 0))
		status->asked_of++;
}

void hvd_job_status_ask(struct hvd_job_status *status, const char *rank, void (*done)(char *answer, void *arg),
			void *arg)
{
	const unsigned n = status->job->n_worlds;

	forget_answers(status);
	status->done = done;
	status->arg = arg;
	find_rank(status, rank);
	status->awaited = n;
	for (unsigned w = 0; w < n; w++)
		if (!hvd_store_waits_ask(hvd_world_store_waits(status->job->worlds[w]), on_waits, &status->worlds[w]))
			on_waits(NULL, &status->worlds[w]);
}

void hvd_job_status_forget(struct hvd_job_status *status)
{
	hvd_timer_stop(status->timer);
	for (unsigned w = 0; w < status->job->n_worlds; w++) {
		hvd_store_waits_forget(hvd_world_store_waits(status->job->worlds[w]));
		hvd_host_questions_forget(hvd_world_host_questions(status->job->worlds[w]));
	}
}

/* ---- life ---- */

struct hvd_job_status *hvd_job_status_create(struct hvd_job *job)
{
	struct hvd_job_status *status = hvd_xcalloc(1, sizeof(*status));

	status->job = job;
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++)
		status->worlds[w].status = status;
	status->timer = hvd_timer_new(job->opts.base, add_ranks, status);
	status->goodput.began = job->result->began;
	status->launch = job->opts.control ? hvd_xstrdup(job->opts.control) : NULL;
	hvd_event_log_listen(job->events, on_event, status);
	return status;
}

void hvd_job_status_destroy(struct hvd_job_status *status)
{
	if (!status)
		return;
	hvd_event_log_unlisten(status->job->events, status);
	forget_answers(status);
	free(status->launch);
	hvd_timer_free(status->timer);
	free(status->text);
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++)
		hvd_generation_status_clear(&status->worlds[w].now);
	free(status);
}
