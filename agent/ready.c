/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.c - are the ranks of a world on this host ready? The driver asks (lib/protocol/ready_question.h) before they start.
 *
 * A question is open until it is answered, or all ranks of the world on this host have ended, or the next question comes.
 * While it is open, this is done, by its kind:
 *   tcp, http  from the first rank on the server is asked (ready_try.h): one question at a time, with growing pauses
 *   file       a child waits for the file (ready_file.h)
 *   notify     each rank that starts gets a socket of its own (ready_notify.h), which it keeps as long as it runs
 */
#include "agent.h"
#include "last_lines.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/ready_question.h"
#include "rank_scan.h"
#include "ready_file.h"
#include "ready_notify.h"
#include "ready_try.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pauses between two questions to a server. */
#define FIRST_MS 50
#define LAST_MS  1000

struct ready {
	struct hvd_of_world of;
	json_t *asked; /* NULL: nothing; it has the texts of: */
	struct hvd_ready_question question;
	bool open;
	struct hvd_timer *late, *again;
	int pause; /* the last one, in milliseconds */
	struct hvd_ready_try *try;
	struct hvd_ready_file *file;
	struct hvd_ready_notify *notify;
	uint32_t *sent; /* the ids of ranks that have sent READY=1 */
	size_t n_sent;
	uint32_t ended; /* ranks that have ended since the question */
	char *why;      /* they are not ready, as far as is known; NULL: nothing is */
};

/* ---- answers ---- */

static void close_question(struct ready *r)
{
	r->open = false;
	hvd_timer_stop(r->late);
	hvd_timer_stop(r->again);
	hvd_ready_try_destroy(r->try);
	r->try = NULL;
	hvd_ready_file_destroy(r->file);
	r->file = NULL;
}

static void answer_up(void *arg)
{
	struct ready *r = arg;

	hvd_of_world_send(
		&r->of, hvd_ready_answer_to_json(&(struct hvd_ready_answer){.n = r->question.n, .up = true, .id = -1}));
	close_question(r);
}

static bool has_sent(const struct ready *r, uint32_t id)
{
	for (size_t i = 0; i < r->n_sent; i++)
		if (r->sent[i] == id)
			return true;
	return false;
}

/* A rank that is not ready. NULL: there is none. */
static const struct hvd_rank_sum *find_late(const struct ready *r)
{
	const struct hvd_rank_sum *rank;
	size_t i = 0;

	while ((rank = hvd_rank_scan_next(r->of.agent->scan, r->of.world, &i)) && has_sent(r, rank->id.rank))
		;
	return rank;
}

static char *why_late(const struct ready *r)
{
	switch (r->question.spec.kind) {
	case HVD_READY_FILE:
		return hvd_xasprintf("%.600s was not made or changed since the start%s%s", r->question.spec.path,
				     r->why ? ": " : "", r->why ? r->why : "");
	case HVD_READY_NOTIFY:
		return hvd_xasprintf("%u of the %u ranks have not sent READY=1%s%s",
				     (unsigned)(r->question.ranks - r->n_sent), (unsigned)r->question.ranks,
				     r->why ? ": " : "", r->why ? r->why : "");
	default:
		return hvd_xstrdup(r->why ? r->why : "no rank has started");
	}
}

static void answer_late(void *arg)
{
	struct ready *r = arg;
	const struct hvd_rank_sum *rank = find_late(r);
	char *why = why_late(r);
	json_t *msg = hvd_ready_answer_to_json(
		&(struct hvd_ready_answer){.n = r->question.n, .id = rank ? (int64_t)rank->id.rank : -1, .why = why});

	if (rank)
		hvd_last_lines_add(r->of.agent, rank->id, msg);
	hvd_of_world_send(&r->of, msg);
	free(why);
	close_question(r);
}

static void set_why(struct ready *r, const char *why)
{
	free(r->why);
	r->why = hvd_xstrdup(why);
}

/* ---- a server ---- */

static void on_tried(const char *why, void *arg)
{
	struct ready *r = arg;

	if (!why) {
		answer_up(r);
		return;
	}
	set_why(r, why);
	hvd_ready_try_destroy(r->try); /* `why` is its */
	r->try = NULL;
	r->pause = 2 * r->pause < LAST_MS ? 2 * r->pause : LAST_MS;
	hvd_timer_in_ms(r->again, r->pause);
}

static void ask_server(void *arg)
{
	struct ready *r = arg;
	const struct hvd_ready_spec *spec = &r->question.spec;

	r->try = hvd_ready_try_begin(r->of.agent->base, spec->port, spec->path, on_tried, r);
}

static void begin_server(struct ready *r)
{
	if (r->try || hvd_timer_runs(r->again))
		return;
	r->pause = FIRST_MS;
	hvd_timer_in_ms(r->again, r->pause);
}

static bool asks_server(const struct ready *r)
{
	return r->question.spec.kind == HVD_READY_TCP || r->question.spec.kind == HVD_READY_HTTP;
}

/* ---- the ranks ---- */

static void on_sent(uint32_t id, void *arg)
{
	struct ready *r = arg;

	if (!r->open || has_sent(r, id))
		return;
	r->sent = hvd_xrealloc(r->sent, r->n_sent + 1, sizeof(*r->sent));
	r->sent[r->n_sent++] = id;
	if (r->n_sent == r->question.ranks)
		answer_up(r);
}

static void rank_starts(void *arg, struct hvd_world_rank rank, json_t *env)
{
	struct ready *r = arg;
	struct hvd_err why = {0};
	const char *name;

	if (r->question.spec.kind != HVD_READY_NOTIFY)
		return;
	name = hvd_ready_notify_open(r->notify, rank.rank, &why);
	if (name)
		json_object_set_new(env, "NOTIFY_SOCKET", json_string(name));
	else
		set_why(r, why.msg);
}

static void rank_began(void *arg, struct hvd_world_rank rank, pid_t pid)
{
	struct ready *r = arg;

	(void)rank;
	(void)pid;
	if (r->open && asks_server(r))
		begin_server(r);
}

/* What it has sent last must come before its end. */
static void rank_ending(void *arg, struct hvd_world_rank rank)
{
	struct ready *r = arg;

	hvd_ready_notify_close(r->notify, rank.rank);
	if (r->open && ++r->ended == r->question.ranks)
		close_question(r);
}

/* ---- the question ---- */

static void on_ready(void *arg, const json_t *msg)
{
	struct ready *r = arg;
	struct hvd_ready_question question;
	struct hvd_err why = {0};
	size_t i = 0;

	if (hvd_ready_question_read(msg, &question, NULL) != 0)
		return;
	close_question(r);
	json_decref(r->asked);
	r->asked = json_incref((json_t *)msg);
	r->question = question;
	r->n_sent = 0;
	r->ended = 0;
	free(r->why);
	r->why = NULL;
	if (question.spec.kind == HVD_READY_STARTED)
		return;
	r->open = true;
	hvd_timer_at(r->late, hvd_deadline_in(question.spec.timeout));
	if (question.spec.kind == HVD_READY_FILE) {
		r->file = hvd_ready_file_watch(r->of.agent->base, question.spec.path, answer_up, r, &why);
		if (!r->file)
			set_why(r, why.msg);
	} else if (asks_server(r) && hvd_rank_scan_next(r->of.agent->scan, r->of.world, &i)) {
		begin_server(r);
	}
}

/* ---- life ---- */

static void begin(void *arg)
{
	struct ready *r = arg;

	r->late = hvd_timer_new(r->of.agent->base, answer_late, r);
	r->again = hvd_timer_new(r->of.agent->base, ask_server, r);
	r->notify = hvd_ready_notify_create(r->of.agent, r->of.world, on_sent, r);
}

static void end(void *arg)
{
	struct ready *r = arg;

	close_question(r);
	hvd_ready_notify_destroy(r->notify);
	hvd_timer_free(r->late);
	hvd_timer_free(r->again);
	json_decref(r->asked);
	free(r->sent);
	free(r->why);
}

const struct hvd_feature hvd_ready_feature = {
	.size = sizeof(struct ready),
	.by_world = true,
	.messages = (const struct hvd_agent_message[]){{"ready", on_ready}, {NULL, NULL}},
	.begin = begin,
	.rank_starts = rank_starts,
	.rank_began = rank_began,
	.rank_ending = rank_ending,
	.end = end,
};
