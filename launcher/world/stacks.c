/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks.h"

#include "host_questions.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"
#include "nccl_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ASKERS   8
#define MOST_RANKS   65536
#define MOST_SECONDS 60
#define ASK_NCCL     4 /* hosts whose NCCL is asked, which knows of all: a host may be frozen */

struct hvd_stacks {
	const struct hvd_host_table *table;
	struct hvd_rv_service *service; /* NULL: no store */
	struct hvd_host_questions *questions;
	struct asker {
		void (*done)(json_t *answers, void *arg);
		void *arg;
	} askers[MAX_ASKERS];
	size_t n_askers;
	json_t *hosts; /* by their number: arrays of ranks, null = has not answered, false = need not answer */
	char *waits;   /* what the store has answered */
};

static void clear(struct hvd_stacks *stacks)
{
	json_decref(stacks->hosts);
	stacks->hosts = NULL;
	free(stacks->waits);
	stacks->waits = NULL;
}

/* Has the host ranks to show? A host that has left an elastic job had some when it was asked. */
static bool has_ranks(const struct hvd_host_entry *host)
{
	return host->stage != HVD_STAGE_HERE ||
	       (host->leaving < HVD_LEAVING_DONE && (host->node.n_ranks == 0 || host->ended < host->node.n_ranks));
}

static json_t *make_answers(const struct hvd_stacks *stacks, json_t *nccl)
{
	json_t *hosts = json_array(), *silent = json_array(), *ranks;
	char buf[32];
	size_t h;

	json_array_foreach(stacks->hosts, h, ranks)
	{
		const char *name = hvd_host_table_name(stacks->table, (uint32_t)h, buf);

		if (json_is_array(ranks))
			json_array_append_new(hosts, json_pack("{s:s, s:O}", "host", name, "ranks", ranks));
		else if (json_is_null(ranks) && has_ranks(&stacks->table->hosts[h]))
			json_array_append_new(silent, json_string(name));
	}
	return json_pack("{s:o, s:o, s:s, s:O*}", "hosts", hosts, "silent", silent, "store",
			 stacks->waits ? stacks->waits : "", "nccl", nccl);
}

/* Without its ranks a host could not look: it is among those that do not answer. The first NCCL that has said something
 * knows of all ranks. */
static void on_hosts(const json_t *said, void *arg)
{
	struct hvd_stacks *stacks = arg;
	struct asker askers[MAX_ASKERS];
	const size_t n = stacks->n_askers;
	json_auto_t *answers = NULL;
	json_t *answer, *ranks, *nccl = NULL;
	const char *host;

	json_object_foreach((json_t *)said, host, answer)
	{
		const size_t h = strtoul(host, NULL, 10);

		if (json_is_false(answer))
			json_array_set(stacks->hosts, h, answer);
		else if (hvd_get_array(answer, "ranks", MOST_RANKS, &ranks, NULL) == 0)
			json_array_set(stacks->hosts, h, ranks);
		if (!nccl && json_is_object(json_object_get(answer, "nccl")))
			nccl = json_object_get(answer, "nccl");
	}
	hvd_nccl_ranks_find(nccl, stacks->hosts, stacks->table);
	answers = make_answers(stacks, nccl);
	memcpy(askers, stacks->askers, sizeof(askers));
	stacks->n_askers = 0;
	clear(stacks);
	for (size_t i = 0; i < n; i++)
		askers[i].done(answers, askers[i].arg);
}

/* Takes the text. */
static void on_waits(char *text, void *arg)
{
	struct hvd_stacks *stacks = arg;

	if (hvd_host_questions_also(stacks->questions))
		stacks->waits = text;
	else
		free(text);
}

static json_t *make_questions(struct hvd_stacks *stacks, double seconds, bool may_stop)
{
	json_t *questions = json_object();
	char host[16];

	stacks->hosts = json_array();
	for (uint32_t h = 0; h < stacks->table->n; h++) {
		const struct hvd_host_entry *entry = &stacks->table->hosts[h];
		const bool admitted = entry->stage == HVD_STAGE_HERE;

		json_array_append_new(stacks->hosts, admitted ? json_null() : json_false());
		if (!admitted || !entry->client)
			continue;
		snprintf(host, sizeof(host), "%u", (unsigned)h);
		json_object_set_new(questions, host,
				    json_pack("{s:s, s:f, s:b, s:b}", "t", "stacks", "seconds", seconds, "nccl",
					      json_object_size(questions) < ASK_NCCL, "stop", may_stop));
	}
	return questions;
}

static void ask(struct hvd_stacks *stacks, double seconds, bool may_stop, void (*done)(json_t *answers, void *arg),
		void *arg)
{
	json_auto_t *questions = NULL;
	bool store;

	if (stacks->n_askers == MAX_ASKERS) {
		json_auto_t *nothing = json_pack("{s:[], s:[], s:s}", "hosts", "silent", "store", "");

		done(nothing, arg);
		return;
	}
	stacks->askers[stacks->n_askers++] = (struct asker){done, arg};
	if (stacks->n_askers > 1)
		return;
	seconds = seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
	questions = make_questions(stacks, seconds, may_stop);
	store = stacks->service && hvd_rv_service_ask_waits(stacks->service, HVD_RV_WAITS_FEW, on_waits, stacks);
	hvd_host_questions_ask(stacks->questions, questions, store, seconds + 1, on_hosts, stacks);
}

void hvd_stacks_ask(struct hvd_stacks *stacks, double seconds, void (*done)(json_t *answers, void *arg), void *arg)
{
	ask(stacks, seconds, true, done, arg);
}

void hvd_stacks_ask_no_stop(struct hvd_stacks *stacks, double seconds, void (*done)(json_t *answers, void *arg),
			    void *arg)
{
	ask(stacks, seconds, false, done, arg);
}

void hvd_stacks_forget(struct hvd_stacks *stacks, const void *arg)
{
	if (!stacks || stacks->n_askers == 0)
		return;
	for (size_t i = 0; i < stacks->n_askers;)
		if (stacks->askers[i].arg == arg)
			stacks->askers[i] = stacks->askers[--stacks->n_askers];
		else
			i++;
	if (stacks->n_askers > 0)
		return;
	hvd_host_questions_forget(stacks->questions);
	clear(stacks);
}

void hvd_stacks_message(struct hvd_stacks *stacks, const struct hvd_client *cl, const json_t *msg)
{
	hvd_host_questions_message(stacks->questions, cl, msg);
}

void hvd_stacks_gone(struct hvd_stacks *stacks, const struct hvd_client *cl, const struct hvd_err *why)
{
	hvd_host_questions_gone(stacks->questions, cl, why);
}

struct hvd_stacks *hvd_stacks_create(struct event_base *base, unsigned world, const struct hvd_host_table *table,
				     struct hvd_rv_service *service)
{
	struct hvd_stacks *stacks = hvd_xcalloc(1, sizeof(*stacks));

	*stacks = (struct hvd_stacks){.table = table, .service = service};
	stacks->questions = hvd_host_questions_create(base, world, table);
	return stacks;
}

void hvd_stacks_destroy(struct hvd_stacks *stacks)
{
	if (!stacks)
		return;
	hvd_host_questions_destroy(stacks->questions);
	clear(stacks);
	free(stacks);
}
