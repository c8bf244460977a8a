/* SPDX-License-Identifier: Apache-2.0 */
#include "relay_wire.h"

#include "lib/protocol/conn.h"

#include <stdlib.h>
#include <string.h>

enum {
	NO_VALUE,
	PLAIN,
	PACKED
}; /* how a value comes */

enum {
	NAMED,
	EPOCH
}; /* a scope */

/* --- out --- */

/* `n` fixed bytes, in the last piece if that has such. */
static unsigned char *fixed(struct hvd_relay_bytes *out, size_t n)
{
	unsigned char *p = out->fixed + out->used;
	struct hvd_piece *last = out->n ? &out->pieces[out->n - 1] : NULL;

	if (!last || (const unsigned char *)last->p + last->n != p)
		out->pieces[out->n++] = (struct hvd_piece){p, n};
	else
		last->n += n;
	out->used += n;
	return p;
}

static void put(struct hvd_relay_bytes *out, uint64_t number, size_t n)
{
	unsigned char *p = fixed(out, n);

	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(number >> (8 * (n - 1 - i)));
}

static void put_bytes(struct hvd_relay_bytes *out, const void *p, size_t n)
{
	put(out, n, 4);
	if (n > 0)
		out->pieces[out->n++] = (struct hvd_piece){p, n};
}

static void put_slice(struct hvd_relay_bytes *out, struct hvd_slice s)
{
	put_bytes(out, s.p, s.n);
}

static void put_scope(struct hvd_relay_bytes *out, const struct hvd_store_scope_id *id)
{
	put(out, id->name.p ? NAMED : EPOCH, 1);
	if (id->name.p)
		put_slice(out, id->name);
	else
		put(out, id->epoch, 4);
}

static void put_value(struct hvd_relay_bytes *out, struct hvd_rv_value *v)
{
	const void *data;
	size_t len;

	if (!v) {
		put(out, NO_VALUE, 1);
	} else if (hvd_rv_value_packed(v, &data, &len)) {
		put(out, PACKED, 1);
		put(out, v->len, 4);
		put_bytes(out, data, len);
	} else {
		put(out, PLAIN, 1);
		put(out, v->len, 4);
		put_bytes(out, v->data, v->len);
	}
}

static void put_call(struct hvd_relay_bytes *out, const struct hvd_relay_msg *msg)
{
	const struct hvd_store_op *op = &msg->op;

	put(out, msg->relay_id, 4);
	put(out, msg->call, 8);
	put(out, msg->done, 8);
	put(out, op->client_number, 4);
	put(out, op->kind, 1);
	put_scope(out, &op->scope);
	put_slice(out, op->key);
	put_slice(out, op->expected);
	put(out, (uint64_t)op->number, 8);
	put_value(out, op->value);
}

void hvd_relay_encode(const struct hvd_relay_msg *msg, struct hvd_relay_bytes *out)
{
	out->n = out->used = 0;
	put(out, msg->type, 1);
	switch (msg->type) {
	case HVD_RELAY_BEGIN:
		put(out, msg->level, 1);
		put(out, msg->relay_id, 4);
		out->addr[0] = '\0';
		if (msg->addr.family != AF_UNSPEC)
			hvd_addr_text(&msg->addr, out->addr);
		put_bytes(out, out->addr, strlen(out->addr));
		break;
	case HVD_RELAY_WATCH:
		put(out, msg->watch, 4);
		put_scope(out, &msg->op.scope);
		put_slice(out, msg->op.key);
		put(out, msg->flag, 1);
		break;
	case HVD_RELAY_UNWATCH:
	case HVD_RELAY_UNUSED:
	case HVD_RELAY_ABSENT:
		put(out, msg->watch, 4);
		break;
	case HVD_RELAY_CALL:
		put_call(out, msg);
		break;
	case HVD_RELAY_CANCEL:
		put(out, msg->relay_id, 4);
		put(out, msg->call, 8);
		break;
	case HVD_RELAY_GONE:
		put(out, msg->relay_id, 4);
		break;
	case HVD_RELAY_WAITS:
		put_slice(out, msg->text);
		break;
	case HVD_RELAY_VALUE:
		put(out, msg->watch, 4);
		put_value(out, msg->result.value);
		break;
	case HVD_RELAY_ASK:
	case HVD_RELAY_WAKE:
		put(out, msg->watch, 4);
		put(out, msg->flag, 1);
		break;
	case HVD_RELAY_ANSWER:
		put(out, msg->relay_id, 4);
		put(out, msg->call, 8);
		put(out, msg->result.status, 1);
		put(out, (uint64_t)msg->result.number, 8);
		put_value(out, msg->result.value);
		break;
	case HVD_RELAY_RENEW:
		break;
	case HVD_RELAY_ASK_WAITS:
		put(out, msg->level, 4);
		break;
	}
}

void hvd_relay_send(struct hvd_conn *conn, unsigned channel, const struct hvd_relay_msg *msg)
{
	struct hvd_relay_bytes out;

	hvd_relay_encode(msg, &out);
	hvd_conn_send_bytes(conn, channel, out.pieces, out.n);
}

/* --- in --- */

struct in {
	const unsigned char *p;
	size_t left;
	struct hvd_rv_budget *budget;
	const char *wrong; /* NULL: nothing so far */
	enum hvd_errc code;
};

static void wrong(struct in *in, enum hvd_errc code, const char *what)
{
	if (!in->wrong) {
		in->wrong = what;
		in->code = code;
	}
	in->left = 0;
}

/* The next `n` bytes; NULL when they are not there. */
static const unsigned char *take(struct in *in, size_t n)
{
	const unsigned char *p = in->p;

	if (in->wrong || in->left < n) {
		wrong(in, HVD_E_PROTO, "it ends too early");
		return NULL;
	}
	in->p += n;
	in->left -= n;
	return p;
}

static uint64_t get(struct in *in, size_t n)
{
	const unsigned char *p = take(in, n);
	uint64_t number = 0;

	for (size_t i = 0; p && i < n; i++)
		number = number << 8 | p[i];
	return number;
}

static bool get_flag(struct in *in)
{
	uint64_t n = get(in, 1);

	if (n > 1)
		wrong(in, HVD_E_PROTO, "a flag is neither 0 nor 1");
	return n == 1;
}

static struct hvd_slice get_slice(struct in *in)
{
	size_t n = (size_t)get(in, 4);
	const unsigned char *p = take(in, n);

	return p ? (struct hvd_slice){(const char *)p, n} : (struct hvd_slice){0};
}

static struct hvd_slice get_text(struct in *in)
{
	struct hvd_slice s = get_slice(in);

	if (s.n > HVD_RELAY_TEXT_MAX)
		wrong(in, HVD_E_LIMIT, "its text is too long");
	return s;
}

static void get_addr(struct in *in, struct hvd_addr *addr)
{
	struct hvd_slice s = get_slice(in);
	char text[HVD_ADDR_TEXT];

	if (in->wrong || s.n == 0)
		return;
	if (s.n >= sizeof(text) || memchr(s.p, '\0', s.n)) {
		wrong(in, HVD_E_PROTO, "it has no address");
		return;
	}
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	if (hvd_addr_parse(text, addr) != 0)
		wrong(in, HVD_E_PROTO, "it has no address");
}

static void get_scope(struct in *in, struct hvd_store_scope_id *id)
{
	switch (get(in, 1)) {
	case NAMED:
		id->name = get_slice(in);
		break;
	case EPOCH:
		id->epoch = (uint32_t)get(in, 4);
		break;
	default:
		wrong(in, HVD_E_PROTO, "a scope is neither a name nor an epoch");
	}
}

static struct hvd_rv_value *get_value(struct in *in, enum hvd_rv_stored *why)
{
	unsigned how = (unsigned)get(in, 1);
	struct hvd_slice bytes;
	struct hvd_rv_value *v = NULL;
	size_t len;

	if (in->wrong || how == NO_VALUE)
		return NULL;
	len = (size_t)get(in, 4);
	bytes = get_slice(in);
	if (in->wrong)
		return NULL;
	if (how == PACKED)
		v = hvd_rv_value_unpack(in->budget, bytes.p, bytes.n, len, why);
	else if (how == PLAIN && bytes.n == len)
		v = hvd_rv_value_new(in->budget, bytes.p, len, why);
	if (!v && *why == HVD_RV_STORED)
		wrong(in, HVD_E_PROTO, "a value does not match its description");
	return v;
}

static void get_call(struct in *in, struct hvd_relay_msg *msg)
{
	struct hvd_store_op *op = &msg->op;
	uint64_t kind;

	msg->relay_id = (uint32_t)get(in, 4);
	msg->call = get(in, 8);
	msg->done = get(in, 8);
	op->client_number = (uint32_t)get(in, 4);
	kind = get(in, 1);
	get_scope(in, &op->scope);
	op->key = get_slice(in);
	op->expected = get_slice(in);
	op->number = (int64_t)get(in, 8);
	if (kind < HVD_OP_SET || kind > HVD_OP_BEGIN_GROUP) {
		wrong(in, HVD_E_PROTO, "there is no such operation");
		return;
	}
	op->kind = (enum hvd_store_op_kind)kind;
	op->value = get_value(in, &msg->stored);
	if (in->wrong)
		return;
	if ((op->kind >= HVD_OP_HTTP_GET && op->kind <= HVD_OP_HTTP_DELETE) != (op->scope.name.p != NULL))
		wrong(in, HVD_E_PROTO, "an operation does not match the kind of its scope");
	if (hvd_store_op_has_value(op->kind) != (op->value || msg->stored != HVD_RV_STORED))
		wrong(in, HVD_E_PROTO, "an operation lacks a value, or has one that it does not use");
	if (msg->call == 0 || msg->done > msg->call)
		wrong(in, HVD_E_PROTO, "its number is wrong");
}

static void get_answer(struct in *in, struct hvd_relay_msg *msg)
{
	uint64_t status;

	msg->relay_id = (uint32_t)get(in, 4);
	msg->call = get(in, 8);
	status = get(in, 1);
	if (status >= HVD_OP_LOST)
		wrong(in, HVD_E_PROTO, "there is no such status");
	else
		msg->result.status = (enum hvd_store_status)status;
	msg->result.number = (int64_t)get(in, 8);
	msg->result.value = get_value(in, &msg->stored);
}

static void get_from_relay(struct in *in, struct hvd_relay_msg *msg)
{
	switch (msg->type) {
	case HVD_RELAY_BEGIN:
		msg->level = (unsigned)get(in, 1);
		if (msg->level != HVD_RELAY_VERSION)
			wrong(in, HVD_E_PROTO, "it is of another version");
		msg->relay_id = (uint32_t)get(in, 4);
		get_addr(in, &msg->addr);
		break;
	case HVD_RELAY_WATCH:
		msg->watch = (uint32_t)get(in, 4);
		get_scope(in, &msg->op.scope);
		msg->op.key = get_slice(in);
		msg->flag = get_flag(in);
		break;
	case HVD_RELAY_UNWATCH:
	case HVD_RELAY_UNUSED:
		msg->watch = (uint32_t)get(in, 4);
		break;
	case HVD_RELAY_CALL:
		get_call(in, msg);
		break;
	case HVD_RELAY_CANCEL:
		msg->relay_id = (uint32_t)get(in, 4);
		msg->call = get(in, 8);
		break;
	case HVD_RELAY_GONE:
		msg->relay_id = (uint32_t)get(in, 4);
		break;
	case HVD_RELAY_WAITS:
		msg->text = get_text(in);
		break;
	default:
		wrong(in, HVD_E_PROTO, "relays send no such message");
	}
}

static void get_from_parent(struct in *in, struct hvd_relay_msg *msg)
{
	switch (msg->type) {
	case HVD_RELAY_VALUE:
		msg->watch = (uint32_t)get(in, 4);
		msg->result.value = get_value(in, &msg->stored);
		if (!msg->result.value && msg->stored == HVD_RV_STORED)
			wrong(in, HVD_E_PROTO, "it has no value");
		break;
	case HVD_RELAY_ABSENT:
		msg->watch = (uint32_t)get(in, 4);
		break;
	case HVD_RELAY_ASK:
	case HVD_RELAY_WAKE:
		msg->watch = (uint32_t)get(in, 4);
		msg->flag = get_flag(in);
		break;
	case HVD_RELAY_ANSWER:
		get_answer(in, msg);
		break;
	case HVD_RELAY_RENEW:
		break;
	case HVD_RELAY_ASK_WAITS:
		msg->level = (unsigned)get(in, 4);
		break;
	default:
		wrong(in, HVD_E_PROTO, "parents send no such message");
	}
}

int hvd_relay_parse(const void *data, size_t len, bool from_relay, struct hvd_rv_budget *budget,
		    struct hvd_relay_msg *msg, struct hvd_err *err)
{
	struct in in = {.p = data, .left = len, .budget = budget};

	*msg = (struct hvd_relay_msg){.stored = HVD_RV_STORED};
	msg->type = (enum hvd_relay_type)get(&in, 1);
	if (from_relay)
		get_from_relay(&in, msg);
	else
		get_from_parent(&in, msg);
	if (!in.wrong && in.left > 0)
		wrong(&in, HVD_E_PROTO, "there is data after its end");
	if (!in.wrong)
		return 0;
	hvd_relay_msg_clear(msg);
	return hvd_err_set(err, in.code, "a message between relays of the rendezvous is malformed: %s", in.wrong);
}

void hvd_relay_msg_clear(struct hvd_relay_msg *msg)
{
	hvd_rv_value_unref(msg->op.value);
	hvd_rv_value_unref(msg->result.value);
	*msg = (struct hvd_relay_msg){0};
}
