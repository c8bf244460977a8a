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

/* --- fields --- */

enum form {
	END,     /* there are no more fields */
	VERSION, /* a number that must be HVD_RELAY_VERSION */
	NUMBER,  /* the highest byte first */
	FLAG,    /* a number, 0 or 1 */
	BYTES,   /* a slice: its length (4), and its bytes */
	TEXT,    /* the same, of at most HVD_RELAY_TEXT_MAX bytes */
	ADDR,    /* an address as text; no bytes: none */
	SCOPE,
	VALUE,
};

struct field {
	enum form form;
	unsigned char size, bytes; /* of a number: in struct hvd_relay_msg, and in a message */
	size_t at;                 /* in struct hvd_relay_msg */
};

#define FIELD(form, member, bytes)                                                                                     \
	{                                                                                                              \
		form, sizeof(((struct hvd_relay_msg *)NULL)->member), bytes, offsetof(struct hvd_relay_msg, member)    \
	}

/* The fields of each message, in their order. */
static const struct field shapes[][11] = {
	[HVD_RELAY_BEGIN] = {FIELD(VERSION, level, 1), FIELD(NUMBER, relay_id, 4), FIELD(ADDR, addr, 0)},
	[HVD_RELAY_WATCH] = {FIELD(NUMBER, watch, 4), FIELD(SCOPE, op.scope, 0), FIELD(BYTES, op.key, 0),
			     FIELD(FLAG, flag, 1)},
	[HVD_RELAY_UNWATCH] = {FIELD(NUMBER, watch, 4)},
	[HVD_RELAY_UNUSED] = {FIELD(NUMBER, watch, 4)},
	[HVD_RELAY_CALL] = {FIELD(NUMBER, relay_id, 4), FIELD(NUMBER, call, 8), FIELD(NUMBER, done, 8),
			    FIELD(NUMBER, op.client_number, 4), FIELD(NUMBER, op.kind, 1), FIELD(SCOPE, op.scope, 0),
			    FIELD(BYTES, op.key, 0), FIELD(BYTES, op.expected, 0), FIELD(NUMBER, op.number, 8),
			    FIELD(VALUE, op.value, 0)},
	[HVD_RELAY_CANCEL] = {FIELD(NUMBER, relay_id, 4), FIELD(NUMBER, call, 8)},
	[HVD_RELAY_GONE] = {FIELD(NUMBER, relay_id, 4)},
	[HVD_RELAY_WAITS] = {FIELD(TEXT, text, 0)},
	[HVD_RELAY_VALUE] = {FIELD(NUMBER, watch, 4), FIELD(VALUE, result.value, 0)},
	[HVD_RELAY_ABSENT] = {FIELD(NUMBER, watch, 4)},
	[HVD_RELAY_ASK] = {FIELD(NUMBER, watch, 4), FIELD(FLAG, flag, 1)},
	[HVD_RELAY_WAKE] = {FIELD(NUMBER, watch, 4), FIELD(FLAG, flag, 1)},
	[HVD_RELAY_ANSWER] = {FIELD(NUMBER, relay_id, 4), FIELD(NUMBER, call, 8), FIELD(NUMBER, result.status, 1),
			      FIELD(NUMBER, result.number, 8), FIELD(VALUE, result.value, 0)},
	[HVD_RELAY_RENEW] = {{.form = END}},
	[HVD_RELAY_ASK_WAITS] = {FIELD(NUMBER, level, 4)},
};

/* A number of a message's struct, which is an integer, an enum or a bool of `size` bytes. */
static uint64_t load(const void *at, size_t size)
{
	if (size == sizeof(uint64_t))
		return *(const uint64_t *)at;
	return size == sizeof(uint32_t) ? *(const uint32_t *)at : *(const bool *)at;
}

static void store(void *at, size_t size, uint64_t number)
{
	if (size == sizeof(uint64_t))
		*(uint64_t *)at = number;
	else if (size == sizeof(uint32_t))
		*(uint32_t *)at = (uint32_t)number;
	else
		*(bool *)at = number;
}

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

static void put_addr(struct hvd_relay_bytes *out, const struct hvd_addr *addr)
{
	out->addr[0] = '\0';
	if (addr->family != AF_UNSPEC)
		hvd_addr_text(addr, out->addr);
	put_bytes(out, out->addr, strlen(out->addr));
}

static void put_field(struct hvd_relay_bytes *out, const struct field *field, const struct hvd_relay_msg *msg)
{
	const void *at = (const char *)msg + field->at;

	switch (field->form) {
	case VERSION:
	case FLAG:
	case NUMBER:
		put(out, load(at, field->size), field->bytes);
		break;
	case BYTES:
	case TEXT:
		put_slice(out, *(const struct hvd_slice *)at);
		break;
	case SCOPE:
		put_scope(out, at);
		break;
	case ADDR:
		put_addr(out, at);
		break;
	case VALUE:
		put_value(out, *(struct hvd_rv_value *const *)at);
		break;
	case END:
		break;
	}
}

void hvd_relay_encode(const struct hvd_relay_msg *msg, struct hvd_relay_bytes *out)
{
	out->n = out->used = 0;
	put(out, msg->type, 1);
	for (const struct field *field = shapes[msg->type]; field->form != END; field++)
		put_field(out, field, msg);
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

static struct hvd_slice get_slice(struct in *in)
{
	size_t n = (size_t)get(in, 4);
	const unsigned char *p = take(in, n);

	return p ? (struct hvd_slice){(const char *)p, n} : (struct hvd_slice){0};
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

static void get_field(struct in *in, const struct field *field, struct hvd_relay_msg *msg)
{
	void *at = (char *)msg + field->at;
	struct hvd_slice *slice = at;
	uint64_t number;

	switch (field->form) {
	case VERSION:
	case FLAG:
	case NUMBER:
		number = get(in, field->bytes);
		if (field->form == VERSION && number != HVD_RELAY_VERSION)
			wrong(in, HVD_E_PROTO, "it is of another version");
		if (field->form == FLAG && number > 1)
			wrong(in, HVD_E_PROTO, "a flag is neither 0 nor 1");
		store(at, field->size, number);
		break;
	case BYTES:
	case TEXT:
		*slice = get_slice(in);
		if (field->form == TEXT && slice->n > HVD_RELAY_TEXT_MAX)
			wrong(in, HVD_E_LIMIT, "its text is too long");
		break;
	case SCOPE:
		get_scope(in, at);
		break;
	case ADDR:
		get_addr(in, at);
		break;
	case VALUE:
		*(struct hvd_rv_value **)at = get_value(in, &msg->stored);
		break;
	case END:
		break;
	}
}

/* What is wrong with the fields of a message, each of which could be read; NULL: nothing. */
static const char *check(const struct hvd_relay_msg *msg)
{
	const struct hvd_store_op *op = &msg->op;

	switch (msg->type) {
	case HVD_RELAY_CALL:
		if (op->kind < HVD_OP_SET || op->kind > HVD_OP_BEGIN_GROUP)
			return "there is no such operation";
		if ((op->kind >= HVD_OP_HTTP_GET && op->kind <= HVD_OP_HTTP_DELETE) != (op->scope.name.p != NULL))
			return "an operation does not match the kind of its scope";
		if (hvd_store_op_has_value(op->kind) != (op->value || msg->stored != HVD_RV_STORED))
			return "an operation lacks a value, or has one that it does not use";
		return msg->call == 0 || msg->done > msg->call ? "its number is wrong" : NULL;
	case HVD_RELAY_ANSWER:
		return msg->result.status >= HVD_OP_LOST ? "there is no such status" : NULL;
	case HVD_RELAY_VALUE:
		return !msg->result.value && msg->stored == HVD_RV_STORED ? "it has no value" : NULL;
	default:
		return NULL;
	}
}

static bool sends(bool relay, enum hvd_relay_type type)
{
	return relay ? type >= HVD_RELAY_BEGIN && type <= HVD_RELAY_WAITS
		     : type >= HVD_RELAY_VALUE && type <= HVD_RELAY_ASK_WAITS;
}

int hvd_relay_parse(const void *data, size_t len, bool from_relay, struct hvd_rv_budget *budget,
		    struct hvd_relay_msg *msg, struct hvd_err *err)
{
	struct in in = {.p = data, .left = len, .budget = budget};
	const char *why;

	*msg = (struct hvd_relay_msg){.stored = HVD_RV_STORED};
	msg->type = (enum hvd_relay_type)get(&in, 1);
	if (!sends(from_relay, msg->type))
		wrong(&in, HVD_E_PROTO, from_relay ? "relays send no such message" : "parents send no such message");
	for (const struct field *field = shapes[in.wrong ? 0 : msg->type]; field->form != END && !in.wrong; field++)
		get_field(&in, field, msg);
	why = in.wrong ? NULL : check(msg);
	if (why)
		wrong(&in, HVD_E_PROTO, why);
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
