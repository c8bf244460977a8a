/* SPDX-License-Identifier: Apache-2.0 */
#include "host_questions.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"
#include "lib/protocol/worlds.h"

#include <stdio.h>
#include <stdlib.h>

struct hvd_host_questions {
	unsigned world;
	const struct hvd_host_table *table;
	struct hvd_timer *timer;
	int64_t id;                /* of the question */
	json_t *owing;             /* by host: these owe an answer */
	json_t *answers;           /* by host */
	hvd_host_answers_fn *done; /* NULL: nobody asks */
	void *arg;
};

static void clear(struct hvd_host_questions *questions)
{
	hvd_timer_stop(questions->timer);
	json_decref(questions->owing);
	json_decref(questions->answers);
	questions->owing = questions->answers = NULL;
	questions->done = NULL;
}

static void on_timer(void *arg)
{
	struct hvd_host_questions *questions = arg;
	hvd_host_answers_fn *done = questions->done;
	json_auto_t *answers = json_incref(questions->answers);

	clear(questions);
	done(answers, questions->arg);
}

static void settle(struct hvd_host_questions *questions, const char *host)
{
	json_object_del(questions->owing, host);
	if (json_object_size(questions->owing) == 0)
		hvd_timer_soon(questions->timer);
}

void hvd_host_questions_ask(struct hvd_host_questions *questions, json_t *asked, double seconds,
			    hvd_host_answers_fn *done, void *arg)
{
	const char *host;
	json_t *msg;

	clear(questions);
	questions->id++;
	questions->owing = json_object();
	questions->answers = json_object();
	questions->done = done;
	questions->arg = arg;
	json_object_foreach(asked, host, msg)
	{
		const unsigned long h = strtoul(host, NULL, 10);
		const struct hvd_host_entry *entry = h < questions->table->n ? &questions->table->hosts[h] : NULL;

		if (!entry || entry->stage != HVD_STAGE_HERE || !entry->client)
			continue;
		json_object_set_new(msg, "id", json_integer(questions->id));
		hvd_conn_send(entry->client->conn, json_incref(hvd_world_mark(msg, questions->world)));
		json_object_set_new(questions->owing, host, json_true());
	}
	hvd_timer_at(questions->timer, hvd_deadline_in(seconds));
	if (json_object_size(questions->owing) == 0)
		hvd_timer_soon(questions->timer);
}

void hvd_host_questions_forget(struct hvd_host_questions *questions)
{
	clear(questions);
}

void hvd_host_questions_message(struct hvd_host_questions *questions, const struct hvd_client *cl, const json_t *msg)
{
	char host[16];
	int64_t id;

	snprintf(host, sizeof(host), "%u", (unsigned)cl->host);
	if (!questions->done || hvd_get_int(msg, "id", 0, INT64_MAX, &id, NULL) != 0 || id != questions->id ||
	    !json_object_get(questions->owing, host))
		return;
	json_object_set(questions->answers, host, (json_t *)msg);
	settle(questions, host);
}

void hvd_host_questions_gone(struct hvd_host_questions *questions, const struct hvd_client *cl)
{
	char host[16];

	snprintf(host, sizeof(host), "%u", (unsigned)cl->host);
	if (questions->done && json_object_get(questions->owing, host))
		settle(questions, host);
}

struct hvd_host_questions *hvd_host_questions_create(struct event_base *base, unsigned world,
						     const struct hvd_host_table *table)
{
	struct hvd_host_questions *questions = hvd_xcalloc(1, sizeof(*questions));

	*questions = (struct hvd_host_questions){.world = world, .table = table};
	questions->timer = hvd_timer_new(base, on_timer, questions);
	return questions;
}

void hvd_host_questions_destroy(struct hvd_host_questions *questions)
{
	if (!questions)
		return;
	clear(questions);
	hvd_timer_free(questions->timer);
	free(questions);
}
