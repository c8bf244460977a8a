/* SPDX-License-Identifier: Apache-2.0 */
#include "tcpstore_wire.h"

#include <endian.h>
#include <string.h>

#define MAGIC 0x3C85F7CEu

/* The parts of a query, in this order. */
enum {
	LIST = 1,     /* a count, and then the rest as often */
	KEY = 2,      /* string */
	EXPECTED = 4, /* string */
	VALUE = 8,    /* string */
	NUMBER = 16,  /* i64 */
	SHORT = 32,   /* u32 */
};

static const unsigned char fields_of[HVD_TCPSTORE_QUERIES] = {
	[HVD_TCPSTORE_VALIDATE] = SHORT,
	[HVD_TCPSTORE_SET] = KEY | VALUE,
	[HVD_TCPSTORE_COMPARE_SET] = KEY | EXPECTED | VALUE,
	[HVD_TCPSTORE_GET] = KEY,
	[HVD_TCPSTORE_ADD] = KEY | NUMBER,
	[HVD_TCPSTORE_CHECK] = LIST | KEY,
	[HVD_TCPSTORE_WAIT] = LIST | KEY,
	[HVD_TCPSTORE_DELETE_KEY] = KEY,
	[HVD_TCPSTORE_APPEND] = KEY | VALUE,
	[HVD_TCPSTORE_MULTI_GET] = LIST | KEY,
	[HVD_TCPSTORE_MULTI_SET] = LIST | KEY | VALUE,
	[HVD_TCPSTORE_PING] = SHORT,
	[HVD_TCPSTORE_QUEUE_PUSH] = KEY | VALUE,
	[HVD_TCPSTORE_QUEUE_POP] = KEY,
	[HVD_TCPSTORE_QUEUE_LEN] = KEY,
	[HVD_TCPSTORE_BARRIER] = KEY | NUMBER,
};

/* --- numbers --- */

static uint64_t get_u32(const char *p, bool big)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return big ? be32toh(v) : le32toh(v);
}

static uint64_t get_u64(const char *p, bool big)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return big ? be64toh(v) : le64toh(v);
}

void hvd_tcpstore_put_u32(const struct hvd_tcpstore_wire *wire, uint32_t n, char out[4])
{
	n = wire->big ? htobe32(n) : htole32(n);
	memcpy(out, &n, sizeof(n));
}

void hvd_tcpstore_put_u64(const struct hvd_tcpstore_wire *wire, uint64_t n, char out[8])
{
	n = wire->big ? htobe64(n) : htole64(n);
	memcpy(out, &n, sizeof(n));
}

/* --- parsing --- */

struct cursor {
	const struct hvd_tcpstore_wire *wire;
	const char *data;
	size_t len, at, need;
	const char *why; /* set: bad */
};

/* The next n bytes, or NULL when they have not come. */
static const char *take(struct cursor *c, size_t n)
{
	const char *p = c->data + c->at;

	if (c->len - c->at < n) {
		c->need = c->at + n;
		return NULL;
	}
	c->at += n;
	return p;
}

static bool take_number(struct cursor *c, size_t size, uint64_t *out)
{
	const char *p = take(c, size);

	if (p)
		*out = size == 4 ? get_u32(p, c->wire->big) : get_u64(p, c->wire->big);
	return p != NULL;
}

static bool take_string(struct cursor *c, uint64_t most, const char *too_long, struct hvd_slice *out)
{
	uint64_t n;

	if (!take_number(c, 8, &n))
		return false;
	if (n > most) {
		c->why = too_long;
		return false;
	}
	out->p = take(c, (size_t)n);
	out->n = (size_t)n;
	return out->p != NULL;
}

/* The fields of one item. False when more must come, or they are bad. */
static bool take_fields(struct cursor *c, unsigned fields, struct hvd_tcpstore_item *item)
{
	static const char long_key[] = "a key is longer than 8 KiB", long_value[] = "a value is longer than 8 MiB";
	uint64_t n = 0;

	if (fields & KEY && !take_string(c, HVD_TCPSTORE_KEY_MAX, long_key, &item->key))
		return false;
	if (fields & EXPECTED && !take_string(c, HVD_TCPSTORE_VALUE_MAX, long_value, &item->expected))
		return false;
	if (fields & VALUE && !take_string(c, HVD_TCPSTORE_VALUE_MAX, long_value, &item->value))
		return false;
	if (fields & (NUMBER | SHORT) && !take_number(c, fields & SHORT ? 4 : 8, &n))
		return false;
	item->number = (int64_t)n;
	return true;
}

static bool take_count(struct cursor *c, uint64_t *count)
{
	if (!take_number(c, 8, count))
		return false;
	if (*count > HVD_TCPSTORE_LIST_MAX)
		c->why = "a list has more than 131,072 keys";
	return !c->why;
}

/* Up to the first item of a request. */
static bool take_head(struct cursor *c, struct hvd_tcpstore_wire *wire, unsigned *query)
{
	const char *p = take(c, 1);

	if (!p)
		return false;
	*query = (unsigned char)*p;
	if (*query >= HVD_TCPSTORE_QUERIES)
		c->why = "it sent an unknown query";
	else if ((*query == HVD_TCPSTORE_VALIDATE) == wire->validated)
		c->why = wire->validated ? "it sent VALIDATE twice" : "its first query is not VALIDATE";
	return !c->why;
}

/* The magic number says in which byte order the client writes. */
static bool validate(struct hvd_tcpstore_wire *wire, struct hvd_tcpstore_item *item, const char **why)
{
	uint32_t n = (uint32_t)item->number;

	if (n != MAGIC && n != __builtin_bswap32(MAGIC)) {
		*why = "the magic number of VALIDATE is wrong";
		return false;
	}
	wire->big = n != MAGIC;
	wire->validated = true;
	item->number = MAGIC;
	return true;
}

enum hvd_tcpstore_parsed hvd_tcpstore_parse(struct hvd_tcpstore_wire *wire, const char *data, size_t len, size_t *used,
					    size_t *need, struct hvd_tcpstore_item *item, const char **why)
{
	struct cursor c = {.wire = wire, .data = data, .len = len};
	unsigned query = wire->query;
	uint64_t left = wire->in_list ? wire->left : 1;
	bool got = true;

	*item = (struct hvd_tcpstore_item){.first = !wire->in_list};
	*used = 0;
	if (!wire->in_list) {
		got = take_head(&c, wire, &query);
		if (got && fields_of[query] & LIST)
			got = take_count(&c, &left);
	}
	if (got && left > 0)
		got = take_fields(&c, fields_of[query], item);
	if (got && query == HVD_TCPSTORE_VALIDATE)
		got = validate(wire, item, &c.why);
	if (!got) {
		*need = c.need;
		*why = c.why;
		return c.why ? HVD_TCPSTORE_BAD : HVD_TCPSTORE_MORE;
	}
	*used = c.at;
	item->query = query;
	item->last = left <= 1;
	wire->query = (uint8_t)query;
	wire->left = left > 0 ? left - 1 : 0;
	wire->in_list = wire->left > 0;
	return HVD_TCPSTORE_ITEM;
}
