/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpickler.c - reads a pickle: a machine with a stack and a memo, as the format prescribes, which only makes values.
 *
 * Every opcode makes at most one value and takes at least one byte. So values, stack and memo need room for as many
 * entries as the pickle has bytes, and are allocated once: values never move. Values and their lists of items live
 * until hvd_pickle_free().
 */
#include "pickle.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct hvd_pickle {
	struct hvd_pickle_value *values;
	size_t n, room;
	const struct hvd_pickle_value *root;
};

struct reader {
	const unsigned char *p, *end;
	struct hvd_pickle *out;
	struct hvd_pickle_value **stack; /* NULL stands for a mark */
	size_t depth, room;              /* of the stack; `room` is the memo's too */
	struct hvd_pickle_value **memo;
	size_t n_memo;
	size_t items; /* of all containers so far */
	struct hvd_err *err;
};

static int bad(struct reader *r, const char *what)
{
	return hvd_err_set(r->err, HVD_E_PROTO, "malformed pickle: %s", what);
}

static int too_much(struct reader *r)
{
	return hvd_err_set(r->err, HVD_E_LIMIT, "a pickle of more than %d values", HVD_PICKLE_MAX_VALUES);
}

/* Take the next `n` bytes; NULL with err set when fewer are left. */
static const unsigned char *take(struct reader *r, size_t n)
{
	const unsigned char *bytes = r->p;

	if ((size_t)(r->end - r->p) < n) {
		bad(r, "it is truncated");
		return NULL;
	}
	r->p += n;
	return bytes;
}

/* A little-endian number of at most 8 bytes, in two's complement where `is_signed`. */
static int take_number(struct reader *r, size_t bytes, bool is_signed, int64_t *number)
{
	const unsigned char *b = take(r, bytes);
	uint64_t u = 0;

	for (size_t i = 0; b && i < bytes; i++)
		u |= (uint64_t)b[i] << (8 * i);
	if (is_signed && bytes && bytes < 8 && u >> (8 * bytes - 1))
		u |= UINT64_MAX << (8 * bytes);
	*number = (int64_t)u;
	return b ? 0 : -1;
}

static struct hvd_pickle_value *make(struct reader *r, enum hvd_pickle_kind kind)
{
	struct hvd_pickle *out = r->out;

	if (out->n == out->room) {
		too_much(r);
		return NULL;
	}
	out->values[out->n].kind = kind;
	return &out->values[out->n++];
}

static int push(struct reader *r, struct hvd_pickle_value *v)
{
	if (r->depth == r->room)
		return too_much(r);
	r->stack[r->depth++] = v;
	return 0;
}

static int push_new(struct reader *r, enum hvd_pickle_kind kind, int64_t number)
{
	struct hvd_pickle_value *v = make(r, kind);

	if (!v)
		return -1;
	v->number = number;
	return push(r, v);
}

/* The value `down` places below the top; NULL with err set when a mark or the stack's end comes before it. */
static struct hvd_pickle_value *peek(struct reader *r, size_t down)
{
	for (size_t i = 0; i <= down; i++)
		if (i >= r->depth || !r->stack[r->depth - 1 - i]) {
			bad(r, "a value is missing");
			return NULL;
		}
	return r->stack[r->depth - 1 - down];
}

/* How many values are above the last mark? */
static int above_mark(struct reader *r, size_t *n)
{
	for (size_t i = r->depth; i-- > 0;)
		if (!r->stack[i]) {
			*n = r->depth - i - 1;
			return 0;
		}
	return bad(r, "a mark is missing");
}

/* Move the top `n` values of the stack to the end of the items of `v`. */
static int add_items(struct reader *r, struct hvd_pickle_value *v, size_t n)
{
	r->items += n;
	if (r->items > HVD_PICKLE_MAX_VALUES)
		return too_much(r);
	if (n) {
		v->items = hvd_xrealloc(v->items, v->n + n, sizeof(*v->items));
		memcpy(v->items + v->n, r->stack + r->depth - n, n * sizeof(*v->items));
	}
	v->n += n;
	r->depth -= n;
	return 0;
}

/* Make one value of the top `n` values, and of the mark below them with `marked`. */
static int push_of(struct reader *r, enum hvd_pickle_kind kind, size_t n, bool marked)
{
	struct hvd_pickle_value *v = make(r, kind);

	if (!v || add_items(r, v, n) < 0)
		return -1;
	r->depth -= marked;
	return push(r, v);
}

static int op_text(struct reader *r, enum hvd_pickle_kind kind)
{
	struct hvd_pickle_value *v;
	const unsigned char *bytes;
	int64_t len;

	if (take_number(r, 1, false, &len) < 0)
		return -1;
	bytes = take(r, (size_t)len);
	v = bytes ? make(r, kind) : NULL;
	if (!v)
		return -1;
	v->text = (const char *)bytes;
	v->len = (size_t)len;
	return push(r, v);
}

static int op_number(struct reader *r, unsigned char op)
{
	int64_t number, bytes = op == HVD_OP_BININT1 ? 1 : op == HVD_OP_BININT2 ? 2 : 4;

	if (op == HVD_OP_LONG1 && take_number(r, 1, false, &bytes) < 0)
		return -1;
	if (bytes > 8)
		return bad(r, "a number of more than eight bytes");
	if (take_number(r, (size_t)bytes, op == HVD_OP_BININT || op == HVD_OP_LONG1, &number) < 0)
		return -1;
	return push_new(r, HVD_PICKLE_INT, number);
}

/* Make a tuple of the top `n` values, or with `marked` of those above the mark. */
static int op_tuple(struct reader *r, size_t n, bool marked)
{
	if (marked ? above_mark(r, &n) < 0 : n > 0 && !peek(r, n - 1))
		return -1;
	return push_of(r, HVD_PICKLE_TUPLE, n, marked);
}

/* Add the top `step` values, or with `marked` the values above the mark, to the list or dict below them. The number of
 * values above the mark must be a multiple of `step`. */
static int op_add(struct reader *r, enum hvd_pickle_kind kind, size_t step, bool marked)
{
	struct hvd_pickle_value *to;
	size_t n = step;

	if (marked && above_mark(r, &n) < 0)
		return -1;
	if (n % step)
		return bad(r, "a key without a value");
	if (!marked && !peek(r, n))
		return -1;
	if (r->depth < n + marked + 1)
		return bad(r, "a value is missing");
	to = r->stack[r->depth - n - marked - 1];
	if (!to || to->kind != kind)
		return bad(r, "items are added to a value that is not a container");
	if (add_items(r, to, n) < 0)
		return -1;
	r->depth -= marked;
	return 0;
}

/* Make one value of the top two: a class of its names, or an object or call of a class and arguments. */
static int op_pair(struct reader *r, enum hvd_pickle_kind kind)
{
	struct hvd_pickle_value *a = peek(r, 1), *b = a ? peek(r, 0) : NULL;

	if (!b)
		return -1;
	if (kind == HVD_PICKLE_CLASS && (a->kind != HVD_PICKLE_STR || b->kind != HVD_PICKLE_STR))
		return bad(r, "a class has no name");
	if (kind != HVD_PICKLE_CLASS && b->kind != HVD_PICKLE_TUPLE)
		return bad(r, "arguments are not a tuple");
	return push_of(r, kind, 2, false);
}

static int op_build(struct reader *r)
{
	struct hvd_pickle_value *v = peek(r, 1);

	if (!v)
		return -1;
	if (v->kind != HVD_PICKLE_OBJECT || v->n != 2)
		return bad(r, "a state for a value that cannot have one");
	return add_items(r, v, 1);
}

static int op_get(struct reader *r, size_t bytes)
{
	int64_t at;

	if (take_number(r, bytes, false, &at) < 0)
		return -1;
	if ((size_t)at >= r->n_memo)
		return bad(r, "it refers to a missing memo entry");
	return push(r, r->memo[at]);
}

static int op_memoize(struct reader *r)
{
	struct hvd_pickle_value *v = peek(r, 0);

	if (!v)
		return -1;
	if (r->n_memo == r->room)
		return too_much(r);
	r->memo[r->n_memo++] = v;
	return 0;
}

/* Run one opcode. Returns 0, 1 when the pickle is complete, -1 with err set. */
static int step(struct reader *r)
{
	const unsigned char *op = take(r, 1);

	if (!op)
		return -1;
	switch (*op) {
	case HVD_OP_PROTO:
		return take(r, 1) ? 0 : -1;
	case HVD_OP_FRAME: /* announces how many bytes follow, for readers of a stream */
		return take(r, 8) ? 0 : -1;
	case HVD_OP_NONE:
		return push_new(r, HVD_PICKLE_NONE, 0);
	case HVD_OP_NEWTRUE:
	case HVD_OP_NEWFALSE:
		return push_new(r, HVD_PICKLE_BOOL, *op == HVD_OP_NEWTRUE);
	case HVD_OP_BININT:
	case HVD_OP_BININT1:
	case HVD_OP_BININT2:
	case HVD_OP_LONG1:
		return op_number(r, *op);
	case HVD_OP_SHORT_BINUNICODE:
		return op_text(r, HVD_PICKLE_STR);
	case HVD_OP_SHORT_BINBYTES:
		return op_text(r, HVD_PICKLE_BYTES);
	case HVD_OP_EMPTY_LIST:
		return push_new(r, HVD_PICKLE_LIST, 0);
	case HVD_OP_EMPTY_DICT:
		return push_new(r, HVD_PICKLE_DICT, 0);
	case HVD_OP_EMPTY_TUPLE:
		return op_tuple(r, 0, false);
	case HVD_OP_TUPLE1:
	case HVD_OP_TUPLE2:
	case HVD_OP_TUPLE3:
		return op_tuple(r, (size_t)(*op - HVD_OP_TUPLE1) + 1, false);
	case HVD_OP_MARK:
		return push(r, NULL);
	case HVD_OP_TUPLE:
		return op_tuple(r, 0, true);
	case HVD_OP_APPEND:
	case HVD_OP_APPENDS:
		return op_add(r, HVD_PICKLE_LIST, 1, *op == HVD_OP_APPENDS);
	case HVD_OP_SETITEM:
	case HVD_OP_SETITEMS:
		return op_add(r, HVD_PICKLE_DICT, 2, *op == HVD_OP_SETITEMS);
	case HVD_OP_STACK_GLOBAL:
		return op_pair(r, HVD_PICKLE_CLASS);
	case HVD_OP_NEWOBJ:
		return op_pair(r, HVD_PICKLE_OBJECT);
	case HVD_OP_REDUCE:
		return op_pair(r, HVD_PICKLE_CALL);
	case HVD_OP_BUILD:
		return op_build(r);
	case HVD_OP_BINGET:
	case HVD_OP_LONG_BINGET:
		return op_get(r, *op == HVD_OP_BINGET ? 1 : 4);
	case HVD_OP_MEMOIZE:
		return op_memoize(r);
	case HVD_OP_STOP:
		return 1;
	default:
		return hvd_err_set(r->err, HVD_E_PROTO, "a pickle with the unsupported opcode 0x%02x", *op);
	}
}

static int read_all(struct reader *r)
{
	int rc;

	if (r->end - r->p < 2 || r->p[0] != HVD_OP_PROTO || r->p[1] < 4 || r->p[1] > 5)
		return bad(r, "neither protocol 4 nor 5");
	do
		rc = step(r);
	while (rc == 0);
	if (rc < 0)
		return -1;
	r->out->root = peek(r, 0);
	if (!r->out->root)
		return -1;
	if (r->depth > 1 || r->p != r->end)
		return bad(r, "there is more than one value");
	return 0;
}

struct hvd_pickle *hvd_pickle_read(const void *bytes, size_t len, struct hvd_err *err)
{
	struct reader r = {.p = bytes, .end = (const unsigned char *)bytes + len, .err = err};
	int rc;

	if (len > HVD_PICKLE_MAX) {
		hvd_err_set(err, HVD_E_LIMIT, "a pickle of %zu bytes; at most %d are accepted", len, HVD_PICKLE_MAX);
		return NULL;
	}
	r.room = len < HVD_PICKLE_MAX_VALUES ? len : HVD_PICKLE_MAX_VALUES;
	r.out = hvd_xcalloc(1, sizeof(*r.out));
	r.out->room = r.room;
	r.out->values = hvd_xcalloc(r.room, sizeof(*r.out->values));
	r.stack = hvd_xcalloc(r.room, sizeof(*r.stack));
	r.memo = hvd_xcalloc(r.room, sizeof(*r.memo));
	rc = read_all(&r);
	free(r.stack);
	free(r.memo);
	if (rc == 0)
		return r.out;
	hvd_pickle_free(r.out);
	return NULL;
}

void hvd_pickle_free(struct hvd_pickle *pickle)
{
	if (!pickle)
		return;
	for (size_t i = 0; i < pickle->n; i++)
		free(pickle->values[i].items);
	free(pickle->values);
	free(pickle);
}

const struct hvd_pickle_value *hvd_pickle_root(const struct hvd_pickle *pickle)
{
	return pickle->root;
}

bool hvd_pickle_is_str(const struct hvd_pickle_value *v, const char *text)
{
	return v && v->kind == HVD_PICKLE_STR && v->len == strlen(text) && memcmp(v->text, text, v->len) == 0;
}

bool hvd_pickle_is_class(const struct hvd_pickle_value *v, const char *module, const char *name)
{
	return v && v->kind == HVD_PICKLE_CLASS && hvd_pickle_is_str(v->items[0], module) &&
	       hvd_pickle_is_str(v->items[1], name);
}

const struct hvd_pickle_value *hvd_pickle_find(const struct hvd_pickle_value *v, const char *key)
{
	for (size_t i = 0; v && v->kind == HVD_PICKLE_DICT && i < v->n; i += 2)
		if (hvd_pickle_is_str(v->items[i], key))
			return v->items[i + 1];
	return NULL;
}
