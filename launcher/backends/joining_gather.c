/* SPDX-License-Identifier: Apache-2.0 */
#include "joining_internal.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_index(const void *a, const void *b)
{
	const struct hvd_joiner *const *x = a, *const *y = b;
	unsigned i = (unsigned)(*x)->offer.index, j = (unsigned)(*y)->offer.index; /* -1 is the highest */

	return (i > j) - (i < j);
}

/* The agents that wait, in the order of their ranks. Returns how many; the caller frees *out. */
static size_t in_order(const struct hvd_joining *joining, struct hvd_joiner ***out)
{
	size_t n = 0, indexed = 0;

	for (const struct hvd_joiner *j = joining->first; j; j = j->next)
		n += j->state == JOINER_WAITING;
	*out = hvd_xcalloc(n + 1, sizeof(**out));
	for (struct hvd_joiner *j = joining->first; j; j = j->next)
		if (j->state == JOINER_WAITING && j->offer.index >= 0)
			(*out)[indexed++] = j;
	n = indexed;
	for (struct hvd_joiner *j = joining->first; j; j = j->next)
		if (j->state == JOINER_WAITING && j->offer.index < 0)
			(*out)[n++] = j;
	qsort(*out, indexed, sizeof(**out), by_index);
	return n;
}

static int too_few(const struct hvd_joining *joining, double seconds, struct hvd_err *err)
{
	int slots = hvd_joining_slots_waiting(joining), listed = 0;
	struct hvd_joiner **waiting;
	size_t n = in_order(joining, &waiting);
	char *who = NULL;

	for (size_t i = 0; i < n; i++, listed++) {
		if (listed == 16) {
			hvd_xappendf(&who, " and %zu others", n - i);
			break;
		}
		hvd_xappendf(&who, "%s %s (%d)", i ? "," : ":", waiting[i]->host, waiting[i]->offer.slots);
	}
	hvd_err_set(err, HVD_E_TIMEOUT, "agents with %d of %d slots have joined within %g s%s; %d missing", slots,
		    joining->want, seconds, who ? who : "", joining->want - slots);
	hvd_err_hint(err,
		     "are the others running, do they have the key, and can they reach port %u of this host? "
		     "--start-timeout allows more time",
		     joining->boot.port);
	free(who);
	free(waiting);
	return -1;
}

static void on_signal(int sig, void *arg)
{
	struct hvd_joining *joining = arg;

	joining->sig = sig;
	event_base_loopbreak(joining->base);
}

static void on_late(void *arg)
{
	event_base_loopbreak(((struct hvd_joining *)arg)->base);
}

static void wait_for_slots(struct hvd_joining *joining, double seconds)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct hvd_signal_watch *signals[sizeof(ends) / sizeof(ends[0])] = {NULL};
	struct hvd_timer *late;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction now;

		/* nohup(1) makes its command ignore SIGHUP, and a shell makes background commands ignore SIGINT. */
		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			signals[i] = hvd_signal_watch(joining->base, ends[i], on_signal, joining);
	}
	late = hvd_timer_new(joining->base, on_late, joining);
	hvd_timer_at(late, hvd_deadline_in(seconds));
	while (!joining->sig && hvd_joining_slots_waiting(joining) < joining->want && hvd_timer_runs(late))
		event_base_dispatch(joining->base);
	hvd_timer_free(late);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		hvd_signal_unwatch(signals[i]);
	if (!joining->sig)
		return;
	hvd_joining_remove_file(joining);
	raise(joining->sig);
}

int hvd_joining_gather(struct hvd_joining *joining, int np, double seconds, struct hvd_alloc *out, struct hvd_err *err)
{
	struct hvd_joiner **waiting;
	size_t n;
	int rc = 0;

	joining->want = np;
	wait_for_slots(joining, seconds);
	joining->failed = hvd_joining_slots_waiting(joining) < np;
	if (joining->failed)
		return too_few(joining, seconds, err);
	joining->want = 0;
	n = in_order(joining, &waiting);
	snprintf(out->source, sizeof(out->source), "agents that have joined");
	joining->enough = true;
	for (size_t i = 0; i < n; i++) {
		int slots = waiting[i]->offer.slots, left = np - out->slots;

		if (left == 0)
			hvd_joiner_turn_off(waiting[i]);
		else if (rc == 0)
			rc = hvd_alloc_add(out, waiting[i]->host, slots < left ? slots : left, err);
	}
	free(waiting);
	return rc;
}
