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
	int64_t id;                      /* of the question */
	const struct hvd_client **owing; /* by host: these connections owe an answer; NULL: none */
	uint32_t n;                      /* length of `owing` */
	bool also;                       /* somebody else's answer is awaited, too */
	size_t left;                     /* how many answers are awaited */
	json_t *answers;                 /* by host */
	hvd_host_answers_fn *done;       /* NULL: nobody asks */
	void *arg;
};

static void clear(struct hvd_host_questions *questions)
{
	hvd_timer_stop(questions->timer);
	free(questions->owing);
	questions->owing = NULL;
	questions->n = 0;
	questions->also = false;
	questions->left = 0;
	json_decref(questions->answers);
	questions->answers = NULL;
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

/* The answer is given from the event loop, and not from within a question, or the end of a connection. */
static void settle(struct hvd_host_questions *questions)
{
	if (--questions->left == 0)
		hvd_timer_soon(questions->timer);
}

static void send_question(struct hvd_host_questions *questions, uint32_t h, json_t *msg)
{
	const struct hvd_host_entry *entry = h < questions->n ? &questions->table->hosts[h] : NULL;

	if (!entry || entry->stage != HVD_STAGE_HERE || !entry->client)
		return;
	json_object_set_new(msg, "id", json_integer(questions->id));
	hvd_conn_send(entry->client->conn, json_incref(hvd_world_mark(msg, questions->world)));
	questions->owing[h] = entry->client;
	questions->left++;
}

void hvd_host_questions_ask(struct hvd_host_questions *questions, json_t *asked, bool also, double seconds,
			    hvd_host_answers_fn *done, void *arg)
{
	const char *host;
	json_t *msg;

	clear(questions);
	questions->id++;
	questions->n = questions->table->n;
	questions->owing = hvd_xcalloc((size_t)questions->n + 1, sizeof(*questions->owing));
	questions->answers = json_object();
	questions->done = done;
	questions->arg = arg;
	questions->also = also;
	questions->left = also;
	json_object_foreach(asked, host, msg)
	{
		send_question(questions, (uint32_t)strtoul(host, NULL, 10), msg);
	}
	hvd_timer_at(questions->timer, hvd_deadline_in(seconds));
	if (questions->left == 0)
		hvd_timer_soon(questions->timer);
}

bool hvd_host_questions_also(struct hvd_host_questions *questions)
{
	if (!questions->also)
		return false;
	questions->also = false;
	settle(questions);
	return true;
}

void hvd_host_questions_forget(struct hvd_host_questions *questions)
{
	clear(questions);
}

/* The connection owes no answer any longer. `answer` is NULL if there is none; takes its reference. */
static void take(struct hvd_host_questions *questions, const struct hvd_client *cl, json_t *answer)
{
	char host[16];

	snprintf(host, sizeof(host), "%u", (unsigned)cl->host);
	if (answer)
		json_object_set_new(questions->answers, host, answer);
	questions->owing[cl->host] = NULL;
	settle(questions);
}

static bool owes(const struct hvd_host_questions *questions, const struct hvd_client *cl)
{
	return cl->host < questions->n && questions->owing[cl->host] == cl;
}

void hvd_host_questions_message(struct hvd_host_questions *questions, const struct hvd_client *cl, const json_t *msg)
{
	int64_t id;

	if (owes(questions, cl) && hvd_get_int(msg, "id", 0, INT64_MAX, &id, NULL) == 0 && id == questions->id)
		take(questions, cl, json_incref((json_t *)msg));
}

void hvd_host_questions_gone(struct hvd_host_questions *questions, const struct hvd_client *cl,
			     const struct hvd_err *why)
{
	/* Its agent was told to end, and has ended with its ranks. */
	const bool ended = cl->role == HVD_ROLE_FORMER && why->code != HVD_E_TIMEOUT;

	if (owes(questions, cl))
		take(questions, cl, ended ? json_false() : NULL);
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
