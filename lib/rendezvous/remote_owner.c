/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_owner.h"

#include "lib/base/deadline.h"
#include "lib/base/hash.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define DEADLINE 10.0  /* seconds that an answer may take */
#define PAUSE    0.002 /* seconds between an answer and the source's next question */
#define WAITING  1024  /* connections of a source */
#define TURN     8     /* questions in SPACING seconds */
#define SPACING  0.001 /* seconds */

TAILQ_HEAD(asked_list, hvd_rv_asked);
TAILQ_HEAD(source_list, hvd_rv_source);

/* A source is in the list of its stage. */
enum stage {
	READY,  /* has something to ask */
	OPEN,   /* waits for an answer */
	PAUSED, /* has asked a moment ago */
	STAGES,
};

struct hvd_rv_source {
	struct hvd_hash_node node;
	TAILQ_ENTRY(hvd_rv_source) link;
	struct hvd_addr from, to;
	in_port_t port; /* of `to` */
	enum stage stage;
	hvd_time until;                                 /* OPEN: the deadline. PAUSED: the end of the pause */
	uint32_t id;                                    /* of its open question */
	size_t n;                                       /* how many ports the open question has */
	struct hvd_rv_asked *question[HVD_OWNER_PORTS]; /* whose ports these are; NULL = the connection is closed */
	struct asked_list waiting;                      /* are not in the question */
	size_t n_waiting;
};

struct hvd_rv_owners {
	hvd_rv_ask_fn *ask;
	void *arg;
	struct hvd_hash_table sources;
	uint64_t seed;
	/* The lists of OPEN and PAUSED are in the order of deadlines. */
	struct source_list in_stage[STAGES];
	struct hvd_timer *turn;
	hvd_time next; /* no question is asked before */
	uint32_t questions;
};

/* ---- sources ---- */

static uint64_t hash_of(const struct hvd_rv_owners *owners, const struct hvd_addr *from, const struct hvd_addr *to,
			in_port_t port)
{
	uint64_t hash = hvd_hash(owners->seed, &port, sizeof(port));

	hash = hvd_hash(hash, &from->u, from->family == AF_INET ? 4 : 16);
	return hvd_hash(hash, &to->u, to->family == AF_INET ? 4 : 16);
}

static struct hvd_rv_source *find(const struct hvd_rv_owners *owners, uint64_t hash, const struct hvd_addr *from,
				  const struct hvd_addr *to, in_port_t port)
{
	for (struct hvd_hash_node *node = hvd_hash_first(&owners->sources, hash); node; node = hvd_hash_next(node)) {
		struct hvd_rv_source *source = (struct hvd_rv_source *)node;

		if (source->port == port && hvd_addr_equal(&source->from, from) && hvd_addr_equal(&source->to, to))
			return source;
	}
	return NULL;
}

static void enter(struct hvd_rv_owners *owners, struct hvd_rv_source *source, enum stage stage)
{
	TAILQ_REMOVE(&owners->in_stage[source->stage], source, link);
	source->stage = stage;
	TAILQ_INSERT_TAIL(&owners->in_stage[stage], source, link);
}

static struct hvd_rv_source *add(struct hvd_rv_owners *owners, uint64_t hash, const struct hvd_addr *from,
				 const struct hvd_addr *to, in_port_t port)
{
	struct hvd_rv_source *source = hvd_xcalloc(1, sizeof(*source));

	source->from = *from;
	source->to = *to;
	source->port = port;
	TAILQ_INIT(&source->waiting);
	hvd_hash_table_add(&owners->sources, &source->node, hash);
	TAILQ_INSERT_TAIL(&owners->in_stage[READY], source, link);
	return source;
}

static void drop(struct hvd_rv_owners *owners, struct hvd_rv_source *source)
{
	TAILQ_REMOVE(&owners->in_stage[source->stage], source, link);
	hvd_hash_table_remove(&owners->sources, &source->node);
	free(source);
}

/* When something is to be done next. What is due at once waits for the other callbacks of this turn of the loop. */
static void arm(struct hvd_rv_owners *owners)
{
	const struct hvd_rv_source *open = TAILQ_FIRST(&owners->in_stage[OPEN]),
				   *paused = TAILQ_FIRST(&owners->in_stage[PAUSED]);
	hvd_time next = INT64_MAX;

	if (!TAILQ_EMPTY(&owners->in_stage[READY]))
		next = owners->next;
	if (open)
		next = hvd_earlier(next, open->until);
	if (paused)
		next = hvd_earlier(next, paused->until);
	if (next == INT64_MAX) {
		hvd_timer_stop(owners->turn);
		return;
	}
	hvd_timer_at(owners->turn, next);
}

/* ---- questions ---- */

static void send_question(struct hvd_rv_owners *owners, struct hvd_rv_source *source)
{
	struct hvd_owner_question question = {.id = ++owners->questions,
					      .asker = HVD_OWNER_NO_ASKER,
					      .from = source->from,
					      .to = source->to,
					      .port = source->port};
	struct hvd_rv_asked *asked;

	while (question.n < HVD_OWNER_PORTS && (asked = TAILQ_FIRST(&source->waiting))) {
		TAILQ_REMOVE(&source->waiting, asked, link);
		source->n_waiting--;
		source->question[question.n] = asked;
		question.ports[question.n++] = asked->port;
	}
	source->n = question.n;
	source->id = question.id;
	source->until = hvd_deadline_in(DEADLINE);
	enter(owners, source, OPEN);
	owners->ask(&question, owners->arg);
}

/* The question is over. A connection that is not known may be asked about again, in its callback. */
static void answered(struct hvd_rv_owners *owners, struct hvd_rv_source *source, const int64_t *who, size_t n)
{
	size_t asked = source->n;

	source->until = hvd_deadline_in(PAUSE);
	enter(owners, source, PAUSED);
	for (size_t i = 0; i < asked; i++) {
		struct hvd_rv_asked *one = source->question[i];

		source->question[i] = NULL;
		if (!one)
			continue;
		one->source = NULL;
		one->known(one, i < n ? who[i] : HVD_OWNER_UNKNOWN);
	}
	source->n = 0;
}

void hvd_rv_owners_answer(struct hvd_rv_owners *owners, const struct hvd_owner_answer *answer)
{
	struct hvd_rv_source *source;

	for (source = TAILQ_FIRST(&owners->in_stage[OPEN]); source; source = TAILQ_NEXT(source, link))
		if (source->id == answer->id) {
			answered(owners, source, answer->owners, answer->n);
			arm(owners);
			return;
		}
}

static void on_turn(void *arg)
{
	struct hvd_rv_owners *owners = arg;
	struct hvd_rv_source *source;
	const hvd_time now = hvd_now();
	int n = 0;

	while ((source = TAILQ_FIRST(&owners->in_stage[OPEN])) && source->until <= now)
		answered(owners, source, NULL, 0);
	while ((source = TAILQ_FIRST(&owners->in_stage[PAUSED])) && source->until <= now) {
		if (source->n_waiting > 0)
			enter(owners, source, READY);
		else
			drop(owners, source);
	}
	while (now >= owners->next && n < TURN && (source = TAILQ_FIRST(&owners->in_stage[READY]))) {
		if (source->n_waiting == 0) {
			drop(owners, source);
			continue;
		}
		send_question(owners, source);
		n++;
	}
	if (n > 0)
		owners->next = hvd_deadline_in(SPACING);
	arm(owners);
}

/* ---- connections ---- */

bool hvd_rv_owners_ask(struct hvd_rv_owners *owners, const struct hvd_addr *from, const struct hvd_addr *to,
		       in_port_t port, struct hvd_rv_asked *asked)
{
	uint64_t hash = hash_of(owners, from, to, port);
	struct hvd_rv_source *source = find(owners, hash, from, to, port);

	if (source && source->n_waiting >= WAITING)
		return false;
	if (!source) {
		source = add(owners, hash, from, to, port);
		arm(owners);
	}
	asked->source = source;
	TAILQ_INSERT_TAIL(&source->waiting, asked, link);
	source->n_waiting++;
	return true;
}

void hvd_rv_owners_forget(struct hvd_rv_asked *asked)
{
	struct hvd_rv_source *source = asked->source;

	if (!source)
		return;
	asked->source = NULL;
	for (size_t i = 0; i < source->n; i++)
		if (source->question[i] == asked) {
			source->question[i] = NULL;
			return;
		}
	TAILQ_REMOVE(&source->waiting, asked, link);
	source->n_waiting--;
}

/* ---- life ---- */

struct hvd_rv_owners *hvd_rv_owners_create(struct event_base *base, hvd_rv_ask_fn *ask, void *arg)
{
	struct hvd_rv_owners *owners = hvd_xcalloc(1, sizeof(*owners));

	owners->ask = ask;
	owners->arg = arg;
	owners->seed = hvd_hash_seed();
	hvd_hash_table_init(&owners->sources, 64);
	for (int stage = 0; stage < STAGES; stage++)
		TAILQ_INIT(&owners->in_stage[stage]);
	owners->turn = hvd_timer_new(base, on_turn, owners);
	return owners;
}

void hvd_rv_owners_destroy(struct hvd_rv_owners *owners)
{
	if (!owners)
		return;
	for (int stage = 0; stage < STAGES; stage++)
		while (!TAILQ_EMPTY(&owners->in_stage[stage]))
			drop(owners, TAILQ_FIRST(&owners->in_stage[stage]));
	hvd_hash_table_free(&owners->sources);
	hvd_timer_free(owners->turn);
	free(owners);
}
