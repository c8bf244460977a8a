/* SPDX-License-Identifier: Apache-2.0 */
#include "ready.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/worlds.h"

#include <stdlib.h>

/* An agent that does not say that its ranks are late, has this time more. */
#define AGENT_SECONDS 5.0

struct hvd_ready {
	unsigned world;
	const struct hvd_host_table *table;
	struct hvd_ready_spec spec;
	const struct hvd_ready_ops *ops;
	void *arg;
	const struct hvd_log *log;
	struct hvd_timer *timer;
	const struct hvd_layout *layout; /* NULL: nothing is awaited */
	int64_t n;                       /* of the question */
	bool *owing;                     /* by host of the layout: it is not ready yet */
	uint32_t left;                   /* how many are not */
};

void hvd_ready_stop(struct hvd_ready *ready)
{
	hvd_timer_stop(ready->timer);
	ready->layout = NULL;
	free(ready->owing);
	ready->owing = NULL;
	ready->left = 0;
}

static void all_ready(struct hvd_ready *ready)
{
	if (ready->spec.kind != HVD_READY_STARTED)
		hvd_verbose(ready->log, "all ranks are ready (--ready=%s)", ready->spec.text);
	hvd_ready_stop(ready);
	if (ready->ops->ready)
		ready->ops->ready(ready->arg);
}

/* ---- late ---- */

static void log_lines(const struct hvd_ready *ready, int rank, const char *host, const struct hvd_ready_answer *answer)
{
	hvd_cleanup_free char *text = hvd_xasprintf("the last lines of rank %d on %s (%s):", rank, host, answer->of);
	const char *line = answer->lines;

	while (*line) {
		const char *end = strchrnul(line, '\n');

		hvd_xappendf(&text, "\n| %.*s", (int)(end - line), line);
		line = *end ? end + 1 : end;
	}
	hvd_log_text(ready->log, HVD_LOG_INFO, text);
}

static void late(struct hvd_ready *ready, uint32_t host, const struct hvd_ready_answer *answer)
{
	const char *name = ready->layout->hosts[host].name;
	const int rank = answer->id < 0 ? -1 : hvd_layout_rank_of(ready->layout, host, (uint32_t)answer->id);
	hvd_cleanup_free char *of = hvd_xstrdup(name);
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "the ranks are not ready after %g s (--ready=%.300s): %s", ready->spec.timeout,
		    ready->spec.text, answer->why);
	hvd_err_hint(&why, "%sa longer --ready-timeout waits longer", rank >= 0 ? "see the last lines below; " : "");
	hvd_err_host(&why, name);
	hvd_ready_stop(ready);
	if (ready->ops->late)
		ready->ops->late(&why, ready->arg);
	if (rank >= 0)
		log_lines(ready, rank, of, answer);
}

/* None was asked; or the agent of a host that was says nothing: its ranks there have ended, or it has. */
static void on_timer(void *arg)
{
	struct hvd_ready *ready = arg;
	uint32_t h = 0;

	if (ready->left == 0) {
		all_ready(ready);
		return;
	}
	while (!ready->owing[h])
		h++;
	late(ready, h, &(struct hvd_ready_answer){.id = -1, .why = "its ranks there have ended, or its agent"});
}

/* ---- the question ---- */

static void ask(struct hvd_ready *ready, uint32_t h, uint32_t ranks)
{
	const struct hvd_host_entry *entry = h < ready->table->n ? &ready->table->hosts[h] : NULL;
	const struct hvd_ready_question question = {.n = ready->n, .spec = ready->spec, .ranks = ranks};

	ready->owing[h] = true;
	ready->left++;
	if (entry && entry->stage == HVD_STAGE_HERE && entry->client)
		hvd_conn_send(entry->client->conn, hvd_world_mark(hvd_ready_question_to_json(&question), ready->world));
}

void hvd_ready_begin(struct hvd_ready *ready, const struct hvd_layout *layout)
{
	hvd_ready_stop(ready);
	ready->layout = layout;
	ready->n++;
	ready->owing = hvd_xcalloc((size_t)layout->n_hosts + 1, sizeof(*ready->owing));
	for (int h = 0; h < layout->n_hosts && ready->spec.kind != HVD_READY_STARTED; h++)
		if (layout->hosts[h].n > 0)
			ask(ready, (uint32_t)h, (uint32_t)layout->hosts[h].n);
	if (ready->left)
		hvd_timer_at(ready->timer, hvd_deadline_in(ready->spec.timeout + AGENT_SECONDS));
	else
		hvd_timer_soon(ready->timer);
}

void hvd_ready_message(struct hvd_ready *ready, const struct hvd_client *cl, const json_t *msg)
{
	struct hvd_ready_answer answer;

	if (!ready->layout || cl->host >= (uint32_t)ready->layout->n_hosts || !ready->owing[cl->host] ||
	    hvd_ready_answer_read(msg, &answer, NULL) != 0 || answer.n != ready->n)
		return;
	if (!answer.up) {
		late(ready, cl->host, &answer);
		return;
	}
	ready->owing[cl->host] = false;
	if (--ready->left == 0)
		all_ready(ready);
}

/* ---- life ---- */

struct hvd_ready *hvd_ready_create(struct event_base *base, unsigned world, const struct hvd_host_table *table,
				   const struct hvd_ready_spec *spec, const struct hvd_ready_ops *ops, void *arg,
				   const struct hvd_log *log)
{
	struct hvd_ready *ready = hvd_xcalloc(1, sizeof(*ready));

	*ready = (struct hvd_ready){.world = world, .table = table, .ops = ops, .arg = arg, .log = log};
	if (spec)
		ready->spec = *spec;
	ready->timer = hvd_timer_new(base, on_timer, ready);
	return ready;
}

void hvd_ready_destroy(struct hvd_ready *ready)
{
	if (!ready)
		return;
	hvd_ready_stop(ready);
	hvd_timer_free(ready->timer);
	free(ready);
}
