/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct hvd_store_local {
	struct hvd_rv *rv;
	struct hvd_tcpstore_epochs epochs;
	struct hvd_timer *hooks; /* calls the hooks whose members have all deleted their keys */
};

/* A request that a hook has taken. */
struct hvd_rv_request {
	struct hvd_store_call *call; /* NULL: nobody waits for the answer any longer */
	struct hook *hook;
};

/* --- clients --- */

/* If the process has just arrived in its epoch, count it and call the server's user. The user may then do anything
 * except destroy the server. */
static void report_init(struct hvd_rv *rv, const struct hvd_store_client *client)
{
	struct hvd_rv_init_event join = {.from = client->from, .pid = client->pid, .epoch = client->epoch};

	if (!client->member.first)
		return;
	rv->stats.tcpstore_joined++;
	if (rv->cfg.init_event)
		rv->cfg.init_event(rv->cfg.init_event_arg, &join);
}

static void do_enter(struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_result *now)
{
	struct hvd_tcpstore_epochs *epochs = &local->epochs;
	struct hvd_store_client *client = op->client;
	int rc;

	if (!local->rv->tcpstore) {
		now->status = HVD_OP_NO_SCOPE;
		return;
	}
	if (op->kind == HVD_OP_ARRIVE)
		rc = hvd_tcpstore_arrive(epochs, &client->from, client->pid, &client->member);
	else if (op->kind == HVD_OP_VISIT)
		rc = hvd_tcpstore_visit(epochs, &client->from, client->pid, &client->member);
	else
		rc = hvd_tcpstore_begin_group(epochs, &client->member);
	if (rc != 0) {
		now->status = HVD_OP_NO_ROOM;
		return;
	}
	client->begun = op->kind == HVD_OP_BEGIN_GROUP;
	client->scope = client->member.epoch->scope;
	client->epoch = client->member.epoch->number;
	now->number = client->epoch;
	report_init(local->rv, client);
}

void hvd_store_local_leave(struct hvd_store_local *local, struct hvd_store_client *client)
{
	hvd_tcpstore_leave(&local->epochs, &client->member);
}

struct hvd_rv_scope *hvd_store_local_epoch(const struct hvd_store_local *local, uint32_t number)
{
	const struct hvd_tcpstore_epoch *epoch = hvd_tcpstore_epoch(&local->epochs, number);

	return epoch ? epoch->scope : NULL;
}

void hvd_store_local_renew(struct hvd_store_local *local)
{
	hvd_tcpstore_epochs_clear(&local->epochs);
}

void hvd_rv_tcpstore_ranks(struct hvd_rv *rv, size_t ranks)
{
	if (rv->store_api.local)
		rv->store_api.local->epochs.ranks = ranks;
}

/* --- HTTP --- */

static struct hook *find_hook(const struct hvd_rv *rv, struct hvd_slice scope)
{
	struct hook *h = rv->hooks;

	while (h && !(h->scope_len == scope.n && memcmp(h->scope, scope.p, scope.n) == 0))
		h = h->next;
	return h;
}

void hvd_rv_hook(struct hvd_rv *rv, const char *scope, const struct hvd_rv_hook *fn, void *arg)
{
	struct hvd_slice name = {scope, strlen(scope)};
	struct hook *h = find_hook(rv, name);

	if (!h) {
		h = hvd_xcalloc(1, sizeof(*h) + name.n);
		h->scope_len = name.n;
		memcpy(h->scope, scope, name.n);
		h->next = rv->hooks;
		rv->hooks = h;
	}
	h->fn = *fn;
	h->arg = arg;
}

void hvd_rv_watch(struct hvd_rv *rv, hvd_rv_watch_fn *fn, void *arg)
{
	rv->watch = fn;
	rv->watch_arg = arg;
}

/* Has a hook taken the GET? It may have answered already. `number` is 1 for HEAD, which no hook answers. */
static bool hook_takes(const struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_call *call)
{
	struct hook *hook = find_hook(local->rv, op->scope.name);
	struct hvd_rv_request *req;

	if (!hook || !hook->fn.get || op->number == 1)
		return false;
	req = hvd_xcalloc(1, sizeof(*req));
	*req = (struct hvd_rv_request){.call = call, .hook = hook};
	call->taken = req;
	if (hook->fn.get(hook->arg, op->key, req) == HVD_RV_TAKEN)
		return true;
	call->taken = NULL;
	free(req);
	return false;
}

void hvd_rv_answer(struct hvd_rv_request *req, int status, const void *data, size_t len)
{
	struct hvd_store_call *call = req->call;
	struct hvd_store_result result = {.status = HVD_OP_DONE, .number = status};
	enum hvd_rv_stored why;

	free(req);
	if (!call)
		return;
	call->taken = NULL;
	result.value = hvd_rv_value_new(hvd_rv_store_budget(call->of->rv->store), data, len, &why);
	result.status = hvd_store_status(why);
	if (call->now) {
		*call->now = result;
		call->now = NULL;
		return;
	}
	call->answered(call, &result);
	hvd_store_result_clear(&result);
}

/* call->now is NULL once there is the result. */
static bool do_http_get(struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_result *now,
			struct hvd_store_call *call)
{
	bool answered;

	call->of = local;
	call->now = now;
	if (!hook_takes(local, op, call)) {
		now->value = hvd_rv_store_get(local->rv->store, op->scope.name, op->key);
		if (now->value)
			hvd_rv_value_ref(now->value);
		now->number = now->value ? 200 : 404;
		call->now = NULL;
	}
	answered = !call->now;
	call->now = NULL;
	return answered;
}

/* Later: the client is to have its answer by then, and the hook may do anything. */
static void call_hooks(void *arg)
{
	struct hvd_store_local *local = arg;

	for (struct hook *hook = local->rv->hooks; hook; hook = hook->next)
		if (hook->due) {
			hook->due = false;
			hook->fn.all_deleted(hook->arg);
		}
}

static void do_http_put(const struct hvd_store_local *local, const struct hvd_store_op *op,
			struct hvd_store_result *now)
{
	struct hvd_rv *rv = local->rv;
	struct hvd_slice scope = op->scope.name;
	const struct hook *hook = find_hook(rv, scope);

	if (hook && hook->fn.put)
		now->number = hook->fn.put(hook->arg, op->key, op->value->data, op->value->len);
	if (now->number == 0) {
		if (rv->watch)
			rv->watch(rv->watch_arg, scope, op->key, op->value->data, op->value->len);
		now->number = 200;
		now->status = hvd_store_status(hvd_rv_store_put(rv->store, scope, op->key, op->value));
	}
	if (rv->cfg.horovod && scope.n == 6 && memcmp(scope.p, "global", 6) == 0)
		rv->cfg.horovod(rv->cfg.horovod_arg);
}

static void do_http_delete(struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_result *now)
{
	struct hook *hook = find_hook(local->rv, op->scope.name);
	int rc;

	if (hook && (hook->fn.get || hook->fn.put) && !hook->fn.all_deleted) {
		now->number = 403;
		return;
	}
	rc = hvd_rv_store_delete(local->rv->store, op->scope.name, op->key);
	now->number = rc < 0 ? 507 : 200;
	if (rc <= 0 || !hook || !hook->fn.all_deleted)
		return;
	hook->due = true;
	hvd_timer_soon(local->hooks);
}

/* --- operations --- */

static bool on_wake(struct hvd_rv_waiter *waiter, struct hvd_rv_value *value)
{
	struct hvd_store_call *call =
		(struct hvd_store_call *)(void *)((char *)waiter - offsetof(struct hvd_store_call, waiter));
	const struct hvd_store_result all_have_come = {.status = HVD_OP_DONE};

	(void)value;
	call->answered(call, &all_have_come);
	return true;
}

/* In an epoch of the TCPStore. */
static bool do_tcpstore(const struct hvd_store_op *op, struct hvd_store_result *now, struct hvd_store_call *call)
{
	const struct hvd_store_client *client = op->client;

	/* Operations that were under way while all ranks started again belong to the old ranks. */
	if (!client || !client->scope || client->epoch != op->scope.epoch) {
		now->status = HVD_OP_NO_SCOPE;
		return true;
	}
	if (hvd_store_op_run(client->scope, op, now))
		return true;
	call->waiter.wake = on_wake;
	if (hvd_rv_scope_wait(client->scope, op->key, &call->waiter) == HVD_RV_STORED)
		return false;
	now->status = HVD_OP_NO_ROOM;
	return true;
}

bool hvd_store_local_submit(struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_result *now,
			    struct hvd_store_call *call)
{
	*now = (struct hvd_store_result){.status = HVD_OP_DONE};
	switch (op->kind) {
	case HVD_OP_ARRIVE:
	case HVD_OP_VISIT:
	case HVD_OP_BEGIN_GROUP:
		do_enter(local, op, now);
		return true;
	case HVD_OP_HTTP_GET:
		return do_http_get(local, op, now, call);
	case HVD_OP_HTTP_PUT:
		do_http_put(local, op, now);
		return true;
	case HVD_OP_HTTP_DELETE:
		do_http_delete(local, op, now);
		return true;
	default:
		return do_tcpstore(op, now, call);
	}
}

void hvd_store_local_abandon(struct hvd_store_call *call)
{
	struct hvd_rv_request *taken = call->taken;

	hvd_rv_unwait(&call->waiter);
	call->taken = NULL;
	if (!taken)
		return;
	taken->call = NULL;
	if (taken->hook->fn.gone)
		taken->hook->fn.gone(taken->hook->arg, taken);
}

enum hvd_cache hvd_store_local_know(const struct hvd_store_local *local, const struct hvd_store_scope_id *scope)
{
	const struct hook *hook = scope->name.p ? find_hook(local->rv, scope->name) : NULL;

	return hook && hook->fn.get ? HVD_CACHE_REMOTE : HVD_CACHE_HIT;
}

/* --- begin and end --- */

struct hvd_store_local *hvd_store_local_create(struct hvd_rv *rv)
{
	struct hvd_store_local *local = hvd_xcalloc(1, sizeof(*local));

	local->rv = rv;
	hvd_tcpstore_epochs_init(&local->epochs, rv->store);
	local->hooks = hvd_timer_new(rv->base, call_hooks, local);
	return local;
}

void hvd_store_local_destroy(struct hvd_store_local *local)
{
	if (!local)
		return;
	hvd_timer_free(local->hooks);
	hvd_tcpstore_epochs_free(&local->epochs);
	free(local);
}
