/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include "job.h"
#include "launcher/events/goodput.h"
#include "launcher/hosts/host_table.h"
#include "launcher/world/host_questions.h"
#include "launcher/world/store_waits.h"
#include "launcher/world/stragglers.h"
#include "launcher/world/usage.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_PER_TURN 500
#define LINES_SECONDS  1.0
#define DUMP           (JSON_COMPACT | JSON_REAL_PRECISION(12))

struct hvd_job_status {
	struct hvd_job *job;
	struct hvd_goodput goodput;
	char *launch; /* its name for questions; NULL: that of the environment */
	int64_t generation, restarts;
	hvd_time began;                        /* the generation */
	bool init_began, init_done;            /* in it */
	bool ends;                             /* it has failed, or is being ended */
	char *why;                             /* it ends; the last restart; NULL: not known */
	uint32_t n;                            /* its ranks */
	int16_t *ended;                        /* by rank: the exit status, or -1 */
	void (*done)(char *answer, void *arg); /* who asks */
	void *arg;
	long asked;    /* the rank; -1: all */
	json_t *waits; /* store_waits.h; NULL: nothing is known */
	json_t *lines; /* the agent's answer of the last lines; NULL: there is none */
	/* The answer so far, which gets some ranks in each turn. */
	struct hvd_timer *timer;
	char *text;
	uint32_t next;
	bool first;    /* none is in it yet */
	int64_t shown; /* of this generation */
};

/* ---- events ---- */

static void begin(struct hvd_job_status *status, const struct hvd_event *event)
{
	status->generation = event->generation;
	status->restarts = event->restarts;
	status->began = event->at;
	status->init_began = status->init_done = status->ends = false;
	status->n = event->ranks > 0 ? (uint32_t)event->ranks : 0;
	free(status->ended);
	status->ended = hvd_xcalloc((size_t)status->n + 1, sizeof(*status->ended));
	for (uint32_t r = 0; r < status->n; r++)
		status->ended[r] = -1;
}

static void ends(struct hvd_job_status *status, const struct hvd_event *event)
{
	status->ends = true;
	free(status->why);
	if (event->name == HVD_EV_GENERATION_FAILED)
		status->why = hvd_xasprintf("rank %lld on %s: %s%s%s", (long long)event->rank, event->host, event->how,
					    event->error ? ": " : "", event->error ? event->error : "");
	else
		status->why = hvd_xstrdup(event->why ? event->why : "");
}

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_job_status *status = arg;

	hvd_goodput_event(&status->goodput, event);
	switch (event->name) {
	case HVD_EV_GENERATION_BEGAN:
		begin(status, event);
		break;
	case HVD_EV_INIT_BEGAN:
		status->init_began = true;
		break;
	case HVD_EV_INIT_DONE:
		status->init_done = true;
		break;
	case HVD_EV_RANK_ENDED:
		if (event->rank >= 0 && event->rank < status->n)
			status->ended[event->rank] = (int16_t)event->status;
		break;
	case HVD_EV_GENERATION_FAILED:
	case HVD_EV_GENERATION_ENDING:
		ends(status, event);
		break;
	default:
		break;
	}
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
	return status->ends && job->policy->hosts_change ? "restarting" : "running";
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

static void add_state(const struct hvd_job_status *status, json_t *answer)
{
	struct hvd_job *job = status->job;

	json_object_set_new(answer, "state", json_string(state_of(status)));
	json_object_set_new(answer, "began", json_integer(hvd_wall_at(job->result->began) / 1000000000));
	json_object_set_new(answer, "seconds", json_real(hvd_result_seconds(job->result)));
	json_object_set_new(answer, "generation", json_integer(status->generation));
	json_object_set_new(answer, "restarts", json_integer(status->restarts));
	if (status->generation)
		json_object_set_new(answer, "generation_seconds", json_real(since(status->began)));
	set_text(answer, "ended_by", status->why ? hvd_xstrdup(status->why) : NULL);
	if (job->state == HVD_JOB_STARTING)
		set_text(answer, "missing", hvd_host_table_missing(hvd_agent_registry_table(job->agents)));
	else if (status->init_began && !status->init_done)
		set_text(answer, "missing", hvd_world_cannot_init(hvd_job_world(job), UINT32_MAX));
	add_goodput(status, answer);
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
	const struct hvd_layout *layout = hvd_world_layout(hvd_job_world(status->job));
	const struct hvd_usage_host sum = hvd_usage_host(hvd_world_usage(hvd_job_world(status->job)), h);
	const int ranks = h < (uint32_t)layout->n_hosts ? layout->hosts[h].n : 0;
	char buf[32];
	json_t *object = json_pack("{s:s, s:s, s:i}", "host", hvd_host_table_name(table, h, buf), "stage",
				   host->leaving == HVD_LEAVING_LOST                             ? "lost"
				   : host->leaving == HVD_LEAVING_LEFT_OUT                       ? "left-out"
				   : host->stage == HVD_STAGE_HERE && layout->size && ranks == 0 ? "spare"
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

static json_t *rank_of(const struct hvd_job_status *status, const struct hvd_layout *layout, uint32_t r)
{
	const struct hvd_rank_slot *slot = &layout->rank_slots[r];
	const char *name = layout->hosts[slot->host].name;
	const int ended = r < status->n ? status->ended[r] : -1;
	char number[16];
	const struct hvd_usage_rank *rank = hvd_usage_get(hvd_world_usage(hvd_job_world(status->job)), r);
	const struct hvd_straggler *slow = hvd_world_straggler(hvd_job_world(status->job), r);
	json_t *object = json_pack("{s:i, s:s, s:i, s:s}", "rank", (int)r, "host", name ? name : "", "local_rank",
				   slot->local_rank, "state",
				   ended == 0  ? "ended"
				   : ended > 0 ? "failed"
					       : "running");

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
	json_object_set(object, "waits", json_object_get(json_object_get(status->waits, "ranks"), number));
	if (status->asked >= 0) {
		json_object_set(object, "last_lines", json_object_get(status->lines, "lines"));
		json_object_set(object, "last_lines_of", json_object_get(status->lines, "of"));
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

/* The next ranks, without the brackets of their array. A generation that begins meanwhile ends the list. */
static char *dump_ranks(struct hvd_job_status *status, bool *more)
{
	const struct hvd_layout *layout = hvd_world_layout(hvd_job_world(status->job));
	const uint32_t all = status->generation && status->generation == status->shown ? (uint32_t)layout->size : 0;
	const uint32_t n = status->asked >= 0 && (uint32_t)status->asked < all ? (uint32_t)status->asked + 1 : all;
	json_auto_t *ranks = json_array();
	char *text;

	for (unsigned i = 0; i < RANKS_PER_TURN && status->next < n; i++)
		json_array_append_new(ranks, rank_of(status, layout, status->next++));
	*more = status->next < n;
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

	if (text && text[1])
		hvd_xappendf(&status->text, "%s%s", status->first ? "" : ",", text + 1);
	status->first = false;
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

static void begin_answer(struct hvd_job_status *status)
{
	json_auto_t *object = json_object();

	json_object_set_new(object, "version", json_string(HVD_VERSION));
	add_launch(status, object);
	add_state(status, object);
	add_hosts(status, object);
	json_object_set(object, "store", json_object_get(status->waits, "lines"));
	free(status->text);
	status->text = json_dumps(object, DUMP);
	if (status->text)
		status->text[strlen(status->text) - 1] = '\0';
	hvd_xappendf(&status->text, ",\"ranks\":[");
	status->next = status->asked >= 0 ? (uint32_t)status->asked : 0;
	status->shown = status->generation;
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
	const struct hvd_layout *layout = hvd_world_layout(hvd_job_world(status->job));
	const struct hvd_rank_slot *slot =
		status->asked >= 0 && status->asked < layout->size ? &layout->rank_slots[status->asked] : NULL;
	json_auto_t *question = NULL;
	char host[16];

	if (!slot)
		return false;
	snprintf(host, sizeof(host), "%d", slot->host);
	question = json_pack("{s:{s:s, s:I}}", host, "t", "lines", "rank", (json_int_t)slot->id);
	hvd_host_questions_ask(hvd_world_host_questions(hvd_job_world(status->job)), question, false, LINES_SECONDS,
			       on_lines, status);
	return true;
}

static void on_waits(const json_t *waits, void *arg)
{
	struct hvd_job_status *status = arg;

	status->waits = json_incref((json_t *)waits);
	if (!ask_lines(status))
		begin_answer(status);
}

static void forget_answers(struct hvd_job_status *status)
{
	json_decref(status->waits);
	json_decref(status->lines);
	status->waits = status->lines = NULL;
}

void hvd_job_status_ask(struct hvd_job_status *status, long rank, void (*done)(char *answer, void *arg), void *arg)
{
	forget_answers(status);
	status->done = done;
	status->arg = arg;
	status->asked = rank;
	if (!hvd_store_waits_ask(hvd_world_store_waits(hvd_job_world(status->job)), on_waits, status))
		on_waits(NULL, status);
}

void hvd_job_status_forget(struct hvd_job_status *status)
{
	hvd_timer_stop(status->timer);
	hvd_store_waits_forget(hvd_world_store_waits(hvd_job_world(status->job)));
	hvd_host_questions_forget(hvd_world_host_questions(hvd_job_world(status->job)));
}

/* ---- life ---- */

struct hvd_job_status *hvd_job_status_create(struct hvd_job *job)
{
	struct hvd_job_status *status = hvd_xcalloc(1, sizeof(*status));

	status->job = job;
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
	free(status->ended);
	free(status->why);
	free(status);
}
