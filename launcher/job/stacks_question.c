/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks_question.h"

#include "launcher/world/stacks.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/worlds.h"

#include <stdlib.h>
#include <string.h>

struct hvd_stacks_question {
	struct asked {
		struct hvd_stacks_question *question;
		struct hvd_stacks *stacks;
		const char *role; /* NULL = it has none */
		json_t *answer;   /* NULL: there is none yet */
	} worlds[HVD_MAX_WORLDS];
	unsigned n, awaited;
	void (*done)(char *answer, void *arg); /* who has asked */
	void *arg;
};

static void forget_answers(struct hvd_stacks_question *question)
{
	for (unsigned w = 0; w < question->n; w++) {
		json_decref(question->worlds[w].answer);
		question->worlds[w].answer = NULL;
	}
}

/* The hosts of an answer say whose ranks theirs are. */
static void mark_hosts(const json_t *answer, const struct asked *asked)
{
	json_t *host;
	size_t i;

	json_array_foreach(json_object_get(answer, "hosts"), i, host)
	{
		if (asked->role)
			json_object_set_new(host, "role", json_string(asked->role));
		hvd_world_mark(host, (unsigned)(asked - asked->question->worlds));
	}
}

/* Add those silent hosts of an answer that are not `known`. */
static void add_silent(json_t *silent, const json_t *answer, json_t *known)
{
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(answer, "silent"), i, name)
	{
		if (json_object_get(known, json_string_value(name)))
			continue;
		json_object_set_new(known, json_string_value(name), json_true());
		json_array_append(silent, name);
	}
}

/* Add the answer of a further world. */
static void add(json_t *to, const json_t *answer, unsigned world)
{
	json_t *store = json_object_get(answer, "store");

	json_array_extend(json_object_get(to, "hosts"), json_object_get(answer, "hosts"));
	if (json_string_length(store))
		json_object_set(hvd_world_add_part(to, world), "store", store);
}

/* `all` is the answer of the first. */
static void add_others(const struct hvd_stacks_question *question, json_t *all)
{
	json_auto_t *known = json_object();
	json_t *silent = json_array();

	for (unsigned w = 0; w < question->n; w++) {
		add_silent(silent, question->worlds[w].answer, known);
		if (w > 0)
			add(all, question->worlds[w].answer, w);
	}
	json_object_set_new(all, "silent", silent);
}

static void on_stacks(json_t *answer, void *arg)
{
	struct asked *asked = arg;
	struct hvd_stacks_question *question = asked->question;
	json_auto_t *all = NULL;

	asked->answer = question->n > 1 ? json_deep_copy(answer) : json_incref(answer);
	if (question->n > 1)
		mark_hosts(asked->answer, asked);
	if (--question->awaited > 0)
		return;
	all = json_incref(question->worlds[0].answer);
	if (question->n > 1)
		add_others(question, all);
	forget_answers(question);
	question->done(json_dumps(all, JSON_COMPACT), question->arg);
}

void hvd_stacks_question_ask(void *owner, double seconds, const char *rank, void (*done)(char *answer, void *arg),
			     void *arg)
{
	struct hvd_stacks_question *question = owner;

	(void)rank;
	question->done = done;
	question->arg = arg;
	question->awaited = question->n;
	for (unsigned w = 0; w < question->n; w++)
		hvd_stacks_ask(question->worlds[w].stacks, seconds, on_stacks, &question->worlds[w]);
}

void hvd_stacks_question_forget(void *owner)
{
	struct hvd_stacks_question *question = owner;

	for (unsigned w = 0; w < question->n; w++)
		hvd_stacks_forget(question->worlds[w].stacks, &question->worlds[w]);
	forget_answers(question);
}

struct hvd_stacks_question *hvd_stacks_question_create(struct hvd_world *const *worlds, unsigned n)
{
	struct hvd_stacks_question *question = hvd_xcalloc(1, sizeof(*question));

	question->n = n;
	for (unsigned w = 0; w < n; w++)
		question->worlds[w] =
			(struct asked){question, hvd_world_stacks(worlds[w]), hvd_world_role(worlds[w]), NULL};
	return question;
}

void hvd_stacks_question_destroy(struct hvd_stacks_question *question)
{
	if (!question)
		return;
	hvd_stacks_question_forget(question);
	free(question);
}
