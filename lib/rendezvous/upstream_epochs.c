/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs of the TCPStore in a relay: a scope for each, with the values of the keys that are known here.
 *
 * An epoch begins when the first connection or watch uses it. It is forgotten with its keys when none uses it and there
 * is a newer one. The newest epoch outlives its users, because the next client mostly belongs to it. No epoch is
 * forgotten while a message of the parent is handled, because the message may be about one of its keys.
 */
#include "upstream.h"

#include "lib/base/xalloc.h"
#include "tcpstore_wire.h"

#include <stdlib.h>

#define KEYS_MAX (1 << 24) /* as many as at the root */

static void forget_epoch(struct hvd_upstream *up, struct epoch *epoch)
{
	struct epoch **at = &up->epochs;

	hvd_upstream_keys_forget(up, epoch);
	while (*at != epoch)
		at = &(*at)->next;
	*at = epoch->next;
	hvd_rv_store_scope_free(up->rv->store, epoch->scope);
	hvd_rv_refund(hvd_rv_store_budget(up->rv->store), sizeof(*epoch));
	free(epoch);
}

void hvd_upstream_epochs_tidy(struct hvd_upstream *up, bool newest)
{
	if (up->handling)
		return;
	for (struct epoch *epoch = up->epochs, *next; epoch; epoch = next) {
		next = epoch->next;
		if (epoch->refs == 0 && (newest || epoch != up->epochs))
			forget_epoch(up, epoch);
	}
}

struct hvd_rv_scope *hvd_upstream_epoch_ref(struct hvd_upstream *up, uint32_t number)
{
	struct hvd_rv_budget *budget = hvd_rv_store_budget(up->rv->store);
	struct epoch **at = &up->epochs, *epoch;
	struct hvd_rv_scope *scope;

	while (*at && (*at)->number > number)
		at = &(*at)->next;
	epoch = *at;
	if (!epoch || epoch->number != number) {
		hvd_upstream_make_room(up, 1024);
		if (!hvd_rv_charge(budget, sizeof(*epoch)))
			return NULL;
		scope = hvd_rv_store_scope_new(up->rv->store, HVD_TCPSTORE_KEY_MAX, KEYS_MAX);
		if (!scope) {
			hvd_rv_refund(budget, sizeof(*epoch));
			return NULL;
		}
		epoch = hvd_xcalloc(1, sizeof(*epoch));
		*epoch = (struct epoch){.next = *at, .number = number, .scope = scope};
		*at = epoch;
	}
	epoch->refs++;
	hvd_upstream_epochs_tidy(up, false);
	return epoch->scope;
}

void hvd_upstream_epoch_unref(struct hvd_upstream *up, struct hvd_rv_scope *scope)
{
	struct epoch *epoch = up->epochs;

	while (epoch && epoch->scope != scope)
		epoch = epoch->next;
	if (!epoch)
		return;
	epoch->refs--;
	hvd_upstream_epochs_tidy(up, false);
}
