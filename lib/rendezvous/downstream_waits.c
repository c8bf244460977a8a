/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks relays what their clients wait for. Each child answers all questions in their order, so its answers need no
 * numbers.
 */
#include "downstream.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define WAITS_SECONDS 1.0
#define WAITS_BELOW   0.6 /* in a relay, so that its own answer is in time */

/* A question to all children. */
struct ask {
	TAILQ_ENTRY(ask) link;
	uint64_t seq;
	size_t left; /* children that have not answered */
	unsigned max;
	char *text;
	struct hvd_rv_timer timer;
	struct hvd_downstream *down;
	hvd_rv_waits_fn *done;
	void *arg;
};

/* Keep so many lines, at least one. */
static void cut_lines(char *text, unsigned max)
{
	char *p = text ? strchr(text, '\n') : NULL;

	for (unsigned n = 1; p && n < max; n++)
		p = strchr(p + 1, '\n');
	if (p)
		*p = '\0';
}

static void end_ask(struct ask *ask)
{
	TAILQ_REMOVE(&ask->down->asks, ask, link);
	hvd_rv_timer_wheel_remove(&ask->down->rv->wheel, &ask->timer);
	cut_lines(ask->text, ask->max);
	ask->done(ask->text, ask->arg);
	free(ask);
}

static void waits_answered(struct ask *ask)
{
	if (--ask->left == 0)
		end_ask(ask);
}

static void on_waits_due(struct hvd_rv_timer *s)
{
	end_ask((struct ask *)(void *)((char *)s - offsetof(struct ask, timer)));
}

void hvd_down_waits(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct ask *ask = TAILQ_FIRST(&down->asks);

	if (child->waits_seq >= down->waits_seq)
		return; /* nobody has asked */
	while (ask && ask->seq != child->waits_seq)
		ask = TAILQ_NEXT(ask, link);
	child->waits_seq++;
	if (!ask)
		return; /* it comes too late */
	if (msg->text.n > 0) {
		char *text = hvd_xstrndup(msg->text.p, msg->text.n);

		hvd_xappendf(&ask->text, "%s%s", ask->text ? "\n" : "", text);
		free(text);
	}
	waits_answered(ask);
}

void hvd_down_asks_due(struct hvd_downstream *down)
{
	for (struct ask *ask = TAILQ_FIRST(&down->asks), *next; ask; ask = next) {
		next = TAILQ_NEXT(ask, link);
		if (ask->left == 0)
			end_ask(ask);
	}
}

void hvd_down_asks_end(struct hvd_rv_child *child)
{
	for (struct ask *ask = TAILQ_FIRST(&child->down->asks), *next; ask; ask = next) {
		next = TAILQ_NEXT(ask, link);
		if (child->relay && ask->seq >= child->waits_seq)
			waits_answered(ask);
	}
}

void hvd_down_asks_free(struct hvd_downstream *down)
{
	while (!TAILQ_EMPTY(&down->asks))
		end_ask(TAILQ_FIRST(&down->asks));
}

void hvd_downstream_ask_waits(struct hvd_downstream *down, char *own, unsigned max, hvd_rv_waits_fn *done, void *arg)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ASK_WAITS, .level = max};
	struct ask *ask = hvd_xcalloc(1, sizeof(*ask));
	double seconds = down->rv->cfg.relay ? WAITS_BELOW : WAITS_SECONDS;

	*ask = (struct ask){.seq = down->waits_seq++,
			    .left = down->rv->stats.relays_now,
			    .max = max,
			    .text = own,
			    .timer.due = on_waits_due,
			    .down = down,
			    .done = done,
			    .arg = arg};
	TAILQ_INSERT_TAIL(&down->asks, ask, link);
	/* Send it ahead of what is queued: the answer of a relay that does not read is not waited for long. */
	for (const struct hvd_rv_child *child = TAILQ_FIRST(&down->children); child; child = TAILQ_NEXT(child, link))
		if (child->relay)
			hvd_down_send(child, &msg);
	if (ask->left > 0)
		hvd_rv_arm(down->rv, &ask->timer, hvd_deadline_in(seconds));
	else
		hvd_down_wake(down); /* there is nobody to ask */
}
