/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/worlds.h"
#include "nccl_ranks.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ASKERS   8
#define MOST_RANKS   65536
#define MOST_SECONDS 60
#define ASK_NCCL     4 /* hosts whose NCCL is asked, which knows of all: a host may be frozen */

struct hvd_stacks {
	unsigned world;
	const struct hvd_host_table *table;
	struct hvd_rv_service *service; /* NULL: no store */
	struct asker {
		void (*done)(json_t *answers, void *arg);
		void *arg;
	} askers[MAX_ASKERS];
	size_t n_askers;
	struct hvd_timer *timer;
	int64_t id;                      /* of the question */
	size_t asked;                    /* connections that owe an answer */
	bool asks_store;                 /* the rendezvous owes one */
	const struct hvd_client **owing; /* these, by host; NULL: none */
	json_t *hosts; /* by their number: arrays of ranks, null = has not answered, false = need not answer */
	char *waits;
	json_t *nccl; /* the first host's that has said something; NULL: none has */
};

static bool asks(const struct hvd_stacks *stacks)
{
	return stacks->n_askers > 0;
}

/* Has the host ranks to show? A host that has left an elastic job had some when it was asked. */
static bool has_ranks(const struct hvd_host_entry *host)
{
	return host->stage != HVD_STAGE_HERE ||
	       (host->leaving < HVD_LEAVING_DONE && (host->node.n_ranks == 0 || host->ended < host->node.n_ranks));
}

static json_t *make_answers(const struct hvd_stacks *stacks)
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
			 stacks->waits ? stacks->waits : "", "nccl", stacks->nccl);
}

static void finish(struct hvd_stacks *stacks)
{
	struct asker askers[MAX_ASKERS];
	size_t n = stacks->n_askers;
	json_auto_t *answers = NULL;

	hvd_nccl_ranks_find(stacks->nccl, stacks->hosts, stacks->table);
	answers = make_answers(stacks);
	memcpy(askers, stacks->askers, sizeof(askers));
	hvd_timer_stop(stacks->timer);
	stacks->n_askers = 0;
	stacks->asked = 0;
	stacks->asks_store = false;
	json_decref(stacks->hosts);
	stacks->hosts = NULL;
	json_decref(stacks->nccl);
	stacks->nccl = NULL;
	free(stacks->waits);
	stacks->waits = NULL;
	free(stacks->owing);
	stacks->owing = NULL;
	for (size_t i = 0; i < n; i++)
		askers[i].done(answers, askers[i].arg);
}

/* Answers are made from the event loop only, not from within a question. */
static void maybe_finish(struct hvd_stacks *stacks)
{
	if (asks(stacks) && !stacks->asked && !stacks->asks_store)
		hvd_timer_in_ms(stacks->timer, 0);
}

/* Takes the text. */
static void on_waits(char *text, void *arg)
{
	struct hvd_stacks *stacks = arg;

	if (!stacks->asks_store) {
		free(text);
		return;
	}
	stacks->asks_store = false;
	stacks->waits = text;
	maybe_finish(stacks);
}

static void on_timer(void *arg)
{
	struct hvd_stacks *stacks = arg;

	if (asks(stacks))
		finish(stacks);
}

static void ask_hosts(struct hvd_stacks *stacks, double seconds, bool may_stop)
{
	stacks->hosts = json_array();
	stacks->owing = hvd_xcalloc(stacks->table->n + 1, sizeof(*stacks->owing));
	for (uint32_t h = 0; h < stacks->table->n; h++) {
		const struct hvd_host_entry *host = &stacks->table->hosts[h];
		bool admitted = host->stage == HVD_STAGE_HERE;

		json_array_append_new(stacks->hosts, admitted ? json_null() : json_false());
		if (!admitted || !host->client)
			continue;
		stacks->owing[h] = host->client;
		stacks->asked++;
		hvd_conn_send(host->client->conn,
			      hvd_world_mark(json_pack("{s:s, s:I, s:f, s:b, s:b}", "t", "stacks", "id",
						       (json_int_t)stacks->id, "seconds", seconds, "nccl",
						       stacks->asked <= ASK_NCCL, "stop", may_stop),
					     stacks->world));
	}
}

static void ask(struct hvd_stacks *stacks, double seconds, bool may_stop, void (*done)(json_t *answers, void *arg),
		void *arg)
{
	if (stacks->n_askers == MAX_ASKERS) {
		json_auto_t *nothing = json_pack("{s:[], s:[], s:s}", "hosts", "silent", "store", "");

		done(nothing, arg);
		return;
	}
	stacks->askers[stacks->n_askers++] = (struct asker){done, arg};
	if (stacks->n_askers > 1)
		return;
	seconds = seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
	hvd_timer_at(stacks->timer, hvd_deadline_in(seconds + 1));
	stacks->id++;
	ask_hosts(stacks, seconds, may_stop);
	stacks->asks_store =
		stacks->service && hvd_rv_service_ask_waits(stacks->service, HVD_RV_WAITS_FEW, on_waits, stacks);
	maybe_finish(stacks);
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
	for (size_t i = 0; stacks && i < stacks->n_askers;)
		if (stacks->askers[i].arg == arg)
			stacks->askers[i] = stacks->askers[--stacks->n_askers];
		else
			i++;
}

/* The connection owes no answer any longer. False: it did not owe one. */
static bool settle(struct hvd_stacks *stacks, const struct hvd_client *cl)
{
	if (cl->host >= json_array_size(stacks->hosts) || stacks->owing[cl->host] != cl)
		return false;
	stacks->owing[cl->host] = NULL;
	stacks->asked--;
	return true;
}

void hvd_stacks_message(struct hvd_stacks *stacks, const struct hvd_client *cl, const json_t *msg)
{
	json_t *ranks, *nccl = json_object_get(msg, "nccl");
	int64_t id;

	if (!stacks || !asks(stacks) || hvd_get_int(msg, "id", 0, INT64_MAX, &id, NULL) != 0 || id != stacks->id ||
	    !settle(stacks, cl))
		return;
	/* Without them it could not look: the host is among those that do not answer. */
	if (hvd_get_array(msg, "ranks", MOST_RANKS, &ranks, NULL) == 0)
		json_array_set(stacks->hosts, cl->host, ranks);
	if (json_is_object(nccl) && !stacks->nccl)
		stacks->nccl = json_incref(nccl);
	maybe_finish(stacks);
}

void hvd_stacks_gone(struct hvd_stacks *stacks, const struct hvd_client *cl, const struct hvd_err *why)
{
	if (!stacks || !settle(stacks, cl))
		return;
	/* Its agent was told to end, and has ended with its ranks. */
	if (cl->role == HVD_ROLE_FORMER && why->code != HVD_E_TIMEOUT)
		json_array_set_new(stacks->hosts, cl->host, json_false());
	maybe_finish(stacks);
}

struct hvd_stacks *hvd_stacks_create(struct event_base *base, unsigned world, const struct hvd_host_table *table,
				     struct hvd_rv_service *service)
{
	struct hvd_stacks *stacks = hvd_xcalloc(1, sizeof(*stacks));

	*stacks = (struct hvd_stacks){.world = world, .table = table, .service = service};
	stacks->timer = hvd_timer_new(base, on_timer, stacks);
	return stacks;
}

void hvd_stacks_destroy(struct hvd_stacks *stacks)
{
	if (!stacks)
		return;
	hvd_timer_free(stacks->timer);
	json_decref(stacks->hosts);
	json_decref(stacks->nccl);
	free(stacks->waits);
	free(stacks->owing);
	free(stacks);
}
