/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations are what PyTorch's libuv server does, also where that is odd. The differences are that a failed
 * COMPARE_SET wakes nobody, and that counters which are no numbers, or overflow, are refused.
 */
#include "store_op.h"

#include "lib/base/xalloc.h"
#include "scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum hvd_store_status hvd_store_status(enum hvd_rv_stored why)
{
	if (why == HVD_RV_STORED)
		return HVD_OP_DONE;
	return why == HVD_RV_TOO_LONG ? HVD_OP_TOO_LONG : HVD_OP_NO_ROOM;
}

static struct hvd_slice bytes_of(const struct hvd_rv_value *v)
{
	return (struct hvd_slice){(const char *)v->data, v->len};
}

/* --- counters --- */

/* The number that a text begins with, as C++'s stoll() takes it. False when there is none, or it is too large. */
static bool read_counter(const struct hvd_rv_value *v, int64_t *out)
{
	char text[64], *end;
	size_t from = 0, n;

	*out = 0;
	if (!v)
		return true;
	while (from < v->len && memchr(" \t\n\v\f\r", v->data[from], 6))
		from++;
	n = v->len - from < sizeof(text) - 1 ? v->len - from : sizeof(text) - 1;
	memcpy(text, v->data + from, n);
	text[n] = '\0';
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && end > text;
}

static enum hvd_store_status count(struct hvd_rv_scope *sc, struct hvd_slice key, int64_t by, bool wake, int64_t *sum)
{
	char text[24];
	enum hvd_rv_stored why;
	int len;

	if (!read_counter(hvd_rv_scope_get(sc, key), sum) || __builtin_add_overflow(*sum, by, sum))
		return HVD_OP_NO_NUMBER;
	len = snprintf(text, sizeof(text), "%lld", (long long)*sum);
	why = hvd_rv_scope_set(sc, key, (struct hvd_slice){text, (size_t)len}, wake);
	hvd_rv_scope_ask(sc, key);
	return hvd_store_status(why);
}

/* False when not all have come. */
static bool do_barrier(struct hvd_rv_scope *sc, const struct hvd_store_op *op, struct hvd_store_result *out)
{
	out->status = count(sc, op->key, 1, false, &out->number);
	if (out->status != HVD_OP_DONE)
		return true;
	if (out->number < op->number)
		return false;
	hvd_rv_scope_wake(sc, op->key);
	return true;
}

/* --- values --- */

static void do_compare_set(struct hvd_rv_scope *sc, const struct hvd_store_op *op, struct hvd_store_result *out)
{
	struct hvd_rv_value *v = hvd_rv_scope_get(sc, op->key);
	struct hvd_slice expected = op->expected;
	enum hvd_rv_stored why = HVD_RV_STORED;

	if (v ? v->len == expected.n && memcmp(v->data, expected.p, expected.n) == 0 : expected.n == 0) {
		why = hvd_rv_scope_put(sc, op->key, op->value);
		hvd_rv_scope_ask(sc, op->key);
		if (why == HVD_RV_STORED)
			out->value = hvd_rv_value_ref(op->value);
	} else if (v) {
		out->value = hvd_rv_value_ref(v);
	} else { /* as PyTorch does, although there is no such value */
		out->value = hvd_rv_value_new(&sc->table->budget, expected.p, expected.n, &why);
	}
	out->status = hvd_store_status(why);
}

static void do_list_keys(const struct hvd_rv_scope *sc, struct hvd_store_result *out)
{
	const struct hvd_rv_key *k = NULL;
	enum hvd_rv_stored why;
	unsigned char *p;
	size_t len = 0;

	while ((k = hvd_rv_scope_next(sc, k)))
		len += 4 + hvd_rv_key_name(k).n;
	out->value = hvd_rv_value_new(&sc->table->budget, NULL, len, &why);
	out->status = hvd_store_status(why);
	if (!out->value)
		return;
	out->number = (int64_t)sc->values;
	p = out->value->data;
	while ((k = hvd_rv_scope_next(sc, k))) {
		struct hvd_slice name = hvd_rv_key_name(k);

		for (int i = 0; i < 4; i++)
			*p++ = (unsigned char)(name.n >> (24 - 8 * i));
		memcpy(p, name.p, name.n);
		p += name.n;
	}
}

bool hvd_store_op_run(struct hvd_rv_scope *sc, const struct hvd_store_op *op, struct hvd_store_result *out)
{
	*out = (struct hvd_store_result){.status = HVD_OP_DONE};
	switch (op->kind) {
	case HVD_OP_SET:
		out->status = hvd_store_status(hvd_rv_scope_put(sc, op->key, op->value));
		break;
	case HVD_OP_APPEND:
		out->status = hvd_store_status(hvd_rv_scope_append(sc, op->key, bytes_of(op->value)));
		break;
	case HVD_OP_COMPARE_SET:
		do_compare_set(sc, op, out);
		break;
	case HVD_OP_GET:
		out->value = hvd_rv_scope_get(sc, op->key);
		if (out->value)
			hvd_rv_value_ref(out->value);
		break;
	case HVD_OP_ADD:
		out->status = count(sc, op->key, op->number, true, &out->number);
		break;
	case HVD_OP_DELETE:
		out->number = hvd_rv_scope_remove(sc, op->key) ? 1 : 0;
		break;
	case HVD_OP_NUM_KEYS:
		out->number = (int64_t)sc->values;
		break;
	case HVD_OP_LIST_KEYS:
		do_list_keys(sc, out);
		break;
	case HVD_OP_QUEUE_PUSH:
		out->status = hvd_store_status(hvd_rv_scope_push(sc, op->key, op->value));
		break;
	case HVD_OP_QUEUE_POP:
		out->number = (int64_t)hvd_rv_scope_queued(sc, op->key);
		out->value = hvd_rv_scope_pop(sc, op->key);
		break;
	case HVD_OP_QUEUE_LEN:
		out->number = (int64_t)hvd_rv_scope_queued(sc, op->key);
		break;
	case HVD_OP_BARRIER:
		return do_barrier(sc, op, out);
	default:
		out->status = HVD_OP_NO_SCOPE;
		break;
	}
	return true;
}

bool hvd_store_op_has_value(enum hvd_store_op_kind kind)
{
	switch (kind) {
	case HVD_OP_SET:
	case HVD_OP_APPEND:
	case HVD_OP_COMPARE_SET:
	case HVD_OP_QUEUE_PUSH:
	case HVD_OP_HTTP_PUT:
		return true;
	default:
		return false;
	}
}

void hvd_store_result_clear(struct hvd_store_result *result)
{
	hvd_rv_value_unref(result->value);
	*result = (struct hvd_store_result){0};
}
