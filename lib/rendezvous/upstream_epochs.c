/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs of the TCPStore in a relay: a scope for each, with the values of the keys that are known here.
 *
 * An epoch begins when the first connection or watch uses it. It is forgotten with its keys when none uses it and there
 * is a newer one. The newest epoch outlives its users, because the next client mostly belongs to it. No epoch is
 * forgotten while a message of the parent is handled, because the message may be about one of its keys.
 */
#include "upstream_internal.h"

#include "lib/base/xalloc.h"
#include "tcpstore_wire.h"

#include <stdlib.h>

#define KEYS_MAX (1 << 24) /* as many as at the root */

static void forget_generation(struct hvd_upstream *up, struct epoch *g)
{
	struct epoch **at = &up->epochs;

	hvd_upstream_keys_forget(up, g);
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	hvd_rv_store_scope_free(up->rv->store, g->scope);
	hvd_rv_refund(hvd_rv_store_budget(up->rv->store), sizeof(*g));
	free(g);
}

void hvd_upstream_generations_tidy(struct hvd_upstream *up, bool newest)
{
	if (up->handling)
		return;
	for (struct epoch *g = up->epochs, *next; g; g = next) {
		next = g->next;
		if (g->refs == 0 && (newest || g != up->epochs))
			forget_generation(up, g);
	}
}

struct hvd_rv_scope *hvd_upstream_generation(struct hvd_upstream *up, uint32_t number)
{
	struct hvd_rv_budget *budget = hvd_rv_store_budget(up->rv->store);
	struct epoch **at = &up->epochs, *g;
	struct hvd_rv_scope *scope;

	while (*at && (*at)->number > number)
		at = &(*at)->next;
	g = *at;
	if (!g || g->number != number) {
		hvd_upstream_make_room(up, 1024);
		if (!hvd_rv_charge(budget, sizeof(*g)))
			return NULL;
		scope = hvd_rv_store_scope_new(up->rv->store, HVD_TCPSTORE_KEY_MAX, KEYS_MAX);
		if (!scope) {
			hvd_rv_refund(budget, sizeof(*g));
			return NULL;
		}
		g = hvd_xcalloc(1, sizeof(*g));
		*g = (struct epoch){.next = *at, .number = number, .scope = scope};
		*at = g;
	}
	g->refs++;
	hvd_upstream_generations_tidy(up, false);
	return g->scope;
}

void hvd_upstream_generation_unref(struct hvd_upstream *up, struct hvd_rv_scope *scope)
{
	struct epoch *g = up->epochs;

	while (g && g->scope != scope)
		g = g->next;
	if (!g)
		return;
	g->refs--;
	hvd_upstream_generations_tidy(up, false);
}
