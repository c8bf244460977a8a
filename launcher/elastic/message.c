/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "pickle.h"
#include "xalloc.h"

#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <stdlib.h>
#include <string.h>

#define NETWORK "horovod.runner.common.util.network"
#define WORKER  "horovod.runner.elastic.worker"

/* ---- frames ---- */

static void sign(const struct hvd_key *key, const void *body, size_t len, unsigned char mac[HVD_MAC_LEN])
{
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, HVD_KEY_LEN, key->b);
	hmac_sha256_update(&ctx, len, body);
	hmac_sha256_digest(&ctx, HVD_MAC_LEN, mac);
	explicit_bzero(&ctx, sizeof(ctx));
}

/* An object without arguments, and with nothing on the stack but itself. */
static void put_object(struct hvd_pickler *p, const char *module, const char *name)
{
	hvd_pickle_begin(p);
	hvd_pickle_str(p, module);
	hvd_pickle_str(p, name);
	hvd_pickle_op(p, HVD_OP_STACK_GLOBAL);
	hvd_pickle_op(p, HVD_OP_EMPTY_TUPLE);
	hvd_pickle_op(p, HVD_OP_NEWOBJ);
}

static void put_hosts_updated(struct hvd_pickler *p, const struct hvd_message *msg)
{
	put_object(p, WORKER, "HostsUpdatedRequest");
	hvd_pickle_op(p, HVD_OP_EMPTY_DICT);
	hvd_pickle_op(p, HVD_OP_MARK);
	hvd_pickle_str(p, "timestamp");
	hvd_pickle_int(p, msg->timestamp);
	hvd_pickle_str(p, "res");
	hvd_pickle_int(p, msg->change);
	hvd_pickle_op(p, HVD_OP_SETITEMS);
	hvd_pickle_op(p, HVD_OP_BUILD);
}

static void put_pong(struct hvd_pickler *p, const struct hvd_message *msg)
{
	put_object(p, NETWORK, "PingResponse");
	hvd_pickle_op(p, HVD_OP_EMPTY_DICT);
	hvd_pickle_op(p, HVD_OP_MARK);
	hvd_pickle_str(p, "service_name");
	hvd_pickle_str(p, "worker notification service");
	hvd_pickle_str(p, "source_address");
	hvd_pickle_str(p, msg->source);
	hvd_pickle_op(p, HVD_OP_SETITEMS);
	hvd_pickle_op(p, HVD_OP_BUILD);
}

size_t hvd_message_frame(const struct hvd_key *key, const struct hvd_message *msg,
			 unsigned char out[HVD_MESSAGE_MAX_FRAME])
{
	struct hvd_pickler p = {.bytes = out + HVD_MESSAGE_HEAD, .room = HVD_MESSAGE_MAX_FRAME - HVD_MESSAGE_HEAD};

	if (msg->kind == HVD_MESSAGE_HOSTS_UPDATED)
		put_hosts_updated(&p, msg);
	else if (msg->kind == HVD_MESSAGE_PONG)
		put_pong(&p, msg);
	else
		put_object(&p, NETWORK, msg->kind == HVD_MESSAGE_PING ? "PingRequest" : "AckResponse");
	hvd_pickle_op(&p, HVD_OP_STOP);
	sign(key, p.bytes, p.n, out);
	for (size_t i = 0; i < 4; i++)
		out[HVD_MAC_LEN + i] = (unsigned char)(p.n >> (8 * i));
	return HVD_MESSAGE_HEAD + p.n;
}

int hvd_message_length(const unsigned char head[HVD_MESSAGE_HEAD], size_t *len, struct hvd_err *err)
{
	size_t body = 0;

	for (size_t i = 0; i < 4; i++)
		body |= (size_t)head[HVD_MAC_LEN + i] << (8 * i);
	if (body > HVD_MESSAGE_MAX_BODY)
		return hvd_err_set(err, HVD_E_LIMIT, "a message of %zu bytes; at most %d are taken", body,
				   HVD_MESSAGE_MAX_BODY);
	*len = HVD_MESSAGE_HEAD + body;
	return 0;
}

/* HostUpdateResult(n), getattr(HostUpdateResult, 'added') or or_ of two such values, as Python's releases pickle it. */
static int read_change(const struct hvd_pickle_value *v, int depth, int64_t *change)
{
	const struct hvd_pickle_value *args;
	int64_t a, b;

	if (v->kind == HVD_PICKLE_INT) {
		*change = v->number;
		return 0;
	}
	if (v->kind != HVD_PICKLE_CALL || depth > 4)
		return -1;
	args = v->items[1];
	if (hvd_pickle_is_class(v->items[0], WORKER, "HostUpdateResult") && args->n == 1)
		return read_change(args->items[0], depth + 1, change);
	if (hvd_pickle_is_class(v->items[0], "_operator", "or_") && args->n == 2) {
		if (read_change(args->items[0], depth + 1, &a) < 0 || read_change(args->items[1], depth + 1, &b) < 0)
			return -1;
		*change = a | b;
		return 0;
	}
	if (!hvd_pickle_is_class(v->items[0], "builtins", "getattr") || args->n != 2 ||
	    !hvd_pickle_is_class(args->items[0], WORKER, "HostUpdateResult"))
		return -1;
	static const char *const names[] = {"no_update", "removed", "added", "mixed"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (hvd_pickle_is_str(args->items[1], names[i])) {
			*change = (int64_t)i;
			return 0;
		}
	return -1;
}

static int read_hosts_updated(const struct hvd_pickle_value *v, struct hvd_message *out)
{
	const struct hvd_pickle_value *state = v->n == 3 ? v->items[2] : NULL;
	const struct hvd_pickle_value *timestamp = hvd_pickle_find(state, "timestamp");
	const struct hvd_pickle_value *res = hvd_pickle_find(state, "res");

	if (!timestamp || timestamp->kind != HVD_PICKLE_INT || !res || read_change(res, 0, &out->change) < 0)
		return -1;
	out->timestamp = timestamp->number;
	return 0;
}

static int read_body(const struct hvd_pickle_value *v, struct hvd_message *out, struct hvd_err *err)
{
	const struct hvd_pickle_value *class = v->kind == HVD_PICKLE_OBJECT ? v->items[0] : NULL;

	if (!class || class->kind != HVD_PICKLE_CLASS)
		return hvd_err_set(err, HVD_E_PROTO, "a message that is no object");
	out->kind = HVD_MESSAGE_OTHER;
	if (hvd_pickle_is_class(class, NETWORK, "AckResponse"))
		out->kind = HVD_MESSAGE_ACK;
	else if (hvd_pickle_is_class(class, NETWORK, "PingRequest"))
		out->kind = HVD_MESSAGE_PING;
	else if (hvd_pickle_is_class(class, NETWORK, "PingResponse"))
		out->kind = HVD_MESSAGE_PONG;
	else if (hvd_pickle_is_class(class, WORKER, "HostsUpdatedRequest"))
		out->kind = HVD_MESSAGE_HOSTS_UPDATED;
	if (out->kind == HVD_MESSAGE_HOSTS_UPDATED && read_hosts_updated(v, out) < 0)
		return hvd_err_set(err, HVD_E_PROTO, "a HostsUpdatedRequest without timestamp or result");
	return 0;
}

int hvd_message_read(const struct hvd_key *key, const unsigned char *frame, size_t len, struct hvd_message *out,
		     struct hvd_err *err)
{
	unsigned char mac[HVD_MAC_LEN];
	struct hvd_pickle *pickle;
	size_t whole;
	int rc;

	memset(out, 0, sizeof(*out));
	if (len < HVD_MESSAGE_HEAD)
		return hvd_err_set(err, HVD_E_PROTO, "a message that is cut off");
	if (hvd_message_length(frame, &whole, err) < 0)
		return -1;
	if (whole != len)
		return hvd_err_set(err, HVD_E_PROTO, "a message that is cut off, or followed by something");
	/* Before anything else is made of the bytes. */
	sign(key, frame + HVD_MESSAGE_HEAD, len - HVD_MESSAGE_HEAD, mac);
	if (!hvd_mac_equal(mac, frame))
		return hvd_err_set(err, HVD_E_AUTH, "a message whose signature does not fit the worker's key");
	pickle = hvd_pickle_read(frame + HVD_MESSAGE_HEAD, len - HVD_MESSAGE_HEAD, err);
	if (!pickle)
		return -1;
	rc = read_body(hvd_pickle_root(pickle), out, err);
	hvd_pickle_free(pickle);
	return rc;
}

/* ---- where a worker listens ---- */

static int bad_addrs(struct hvd_err *err, const char *what)
{
	return hvd_err_set(err, HVD_E_PROTO, "a worker's addresses: %s", what);
}

static int read_addr(const struct hvd_pickle_value *iface, const struct hvd_pickle_value *v,
		     struct hvd_worker_addrs *out, struct hvd_err *err)
{
	struct hvd_worker_addr *a = &out->v[out->n];
	char text[HVD_ADDR_TEXT];

	if (out->n == HVD_WORKER_MAX_ADDRS)
		return hvd_err_set(err, HVD_E_LIMIT, "a worker with more than %d addresses", HVD_WORKER_MAX_ADDRS);
	if (v->kind != HVD_PICKLE_TUPLE || v->n != 2 || v->items[0]->kind != HVD_PICKLE_STR ||
	    v->items[1]->kind != HVD_PICKLE_INT)
		return bad_addrs(err, "one is not (address, port)");
	if (v->items[0]->len >= sizeof(text) || memchr(v->items[0]->text, 0, v->items[0]->len))
		return bad_addrs(err, "one is no address");
	memcpy(text, v->items[0]->text, v->items[0]->len);
	text[v->items[0]->len] = '\0';
	if (hvd_addr_parse(text, &a->addr) != 0)
		return bad_addrs(err, "one is no address");
	if (v->items[1]->number < 1 || v->items[1]->number > 65535)
		return bad_addrs(err, "one has no port");
	a->port = (in_port_t)v->items[1]->number;
	if (iface->len >= sizeof(a->iface) || memchr(iface->text, 0, iface->len))
		return bad_addrs(err, "an interface has no name, or too long a one");
	memcpy(a->iface, iface->text, iface->len);
	a->iface[iface->len] = '\0';
	out->n++;
	return 0;
}

/* ({iface: [(addr, port), …], …}, key) */
static int read_addrs(const struct hvd_pickle_value *v, struct hvd_worker_addrs *out, struct hvd_err *err)
{
	const struct hvd_pickle_value *dict, *key;

	if (v->kind != HVD_PICKLE_TUPLE || v->n != 2)
		return bad_addrs(err, "they are no pair");
	dict = v->items[0];
	key = v->items[1];
	if (dict->kind != HVD_PICKLE_DICT)
		return bad_addrs(err, "the first is no dict");
	if (key->kind != HVD_PICKLE_BYTES || key->len != HVD_KEY_LEN)
		return bad_addrs(err, "the second is no key of 32 bytes");
	for (size_t i = 0; i < dict->n; i += 2) {
		const struct hvd_pickle_value *iface = dict->items[i], *list = dict->items[i + 1];

		if (iface->kind != HVD_PICKLE_STR || list->kind != HVD_PICKLE_LIST)
			return bad_addrs(err, "an interface has no list");
		for (size_t j = 0; j < list->n; j++)
			if (read_addr(iface, list->items[j], out, err) < 0)
				return -1;
	}
	if (!out->n)
		return bad_addrs(err, "there are none");
	memcpy(out->key.b, key->text, HVD_KEY_LEN);
	return 0;
}

/* Those of the loopback interface are the last to be tried. The order is kept otherwise. */
static void loopback_last(struct hvd_worker_addrs *a)
{
	struct hvd_worker_addr *sorted = hvd_xcalloc(a->n, sizeof(*sorted));
	size_t n = 0;

	for (int loopback = 0; loopback < 2; loopback++)
		for (size_t i = 0; i < a->n; i++)
			if (hvd_addr_loopback(&a->v[i].addr) == loopback)
				sorted[n++] = a->v[i];
	free(a->v);
	a->v = sorted;
}

/* Decoded bytes, the caller's to wipe and free. */
static unsigned char *unbase64(const void *text, size_t len, size_t *n, struct hvd_err *err)
{
	struct base64_decode_ctx ctx;
	unsigned char *bytes;

	if (len > BASE64_ENCODE_RAW_LENGTH(HVD_PICKLE_MAX)) {
		hvd_err_set(err, HVD_E_LIMIT, "a worker's addresses: %zu bytes are too many", len);
		return NULL;
	}
	*n = BASE64_DECODE_LENGTH(len);
	bytes = hvd_xcalloc(*n, 1);
	base64_decode_init(&ctx);
	if (base64_decode_update(&ctx, n, bytes, len, text) && base64_decode_final(&ctx))
		return bytes;
	bad_addrs(err, "they are not base64");
	explicit_bzero(bytes, BASE64_DECODE_LENGTH(len));
	free(bytes);
	return NULL;
}

int hvd_worker_addrs_parse(const void *text, size_t len, struct hvd_worker_addrs *out, struct hvd_err *err)
{
	struct hvd_pickle *pickle;
	unsigned char *bytes;
	size_t n;
	int rc;

	memset(out, 0, sizeof(*out));
	bytes = unbase64(text, len, &n, err);
	if (!bytes)
		return -1;
	pickle = hvd_pickle_read(bytes, n, err);
	out->v = hvd_xcalloc(HVD_WORKER_MAX_ADDRS, sizeof(*out->v));
	rc = pickle ? read_addrs(hvd_pickle_root(pickle), out, err) : -1;
	hvd_pickle_free(pickle);
	explicit_bzero(bytes, n);
	free(bytes);
	if (rc < 0) {
		hvd_worker_addrs_clear(out);
		return -1;
	}
	loopback_last(out);
	return 0;
}

char *hvd_worker_addrs_format(const struct hvd_worker_addrs *addrs)
{
	const size_t room = 128 + addrs->n * (HVD_WORKER_IFACE_MAX + HVD_ADDR_TEXT + 16);
	struct hvd_pickler p = {.bytes = hvd_xcalloc(room, 1), .room = room};
	char address[HVD_ADDR_TEXT], *text;

	hvd_pickle_begin(&p);
	hvd_pickle_op(&p, HVD_OP_EMPTY_DICT);
	for (size_t i = 0; i < addrs->n; i++) {
		const struct hvd_worker_addr *a = &addrs->v[i];

		if (i == 0 || strcmp(a->iface, a[-1].iface) != 0) {
			hvd_pickle_str(&p, a->iface);
			hvd_pickle_op(&p, HVD_OP_EMPTY_LIST);
		}
		hvd_pickle_str(&p, hvd_addr_text(&a->addr, address));
		hvd_pickle_int(&p, a->port);
		hvd_pickle_op(&p, HVD_OP_TUPLE2);
		hvd_pickle_op(&p, HVD_OP_APPEND);
		if (i + 1 == addrs->n || strcmp(a->iface, a[1].iface) != 0)
			hvd_pickle_op(&p, HVD_OP_SETITEM);
	}
	hvd_pickle_bytes(&p, addrs->key.b, HVD_KEY_LEN);
	hvd_pickle_op(&p, HVD_OP_TUPLE2);
	hvd_pickle_op(&p, HVD_OP_STOP);
	text = hvd_xcalloc(BASE64_ENCODE_RAW_LENGTH(p.n) + 1, 1);
	base64_encode_raw(text, p.n, p.bytes);
	explicit_bzero(p.bytes, p.n);
	free(p.bytes);
	return text;
}

void hvd_worker_addrs_clear(struct hvd_worker_addrs *addrs)
{
	if (!addrs)
		return;
	free(addrs->v);
	explicit_bzero(addrs, sizeof(*addrs));
}
