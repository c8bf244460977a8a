/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_message.h"

#include "lib/base/xalloc.h"
#include "pickle.h"

#include <nettle/hmac.h>
#include <stdlib.h>
#include <string.h>

#define NETWORK "horovod.runner.common.util.network"
#define WORKER  "horovod.runner.elastic.worker"

static void sign(const struct hvd_key *key, const void *body, size_t len, unsigned char mac[HVD_MAC_LEN])
{
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, HVD_KEY_LEN, key->b);
	hmac_sha256_update(&ctx, len, body);
	hmac_sha256_digest(&ctx, HVD_MAC_LEN, mac);
	explicit_bzero(&ctx, sizeof(ctx));
}

/* Begin a pickle with an object of this class, made without arguments. */
static void put_object(struct hvd_pickler *p, const char *module, const char *name)
{
	hvd_pickler_begin(p);
	hvd_pickler_str(p, module);
	hvd_pickler_str(p, name);
	hvd_pickler_op(p, HVD_OP_STACK_GLOBAL);
	hvd_pickler_op(p, HVD_OP_EMPTY_TUPLE);
	hvd_pickler_op(p, HVD_OP_NEWOBJ);
}

/* The object's attributes, each a name and a value, are written between begin_state() and end_state(). */
static void begin_state(struct hvd_pickler *p)
{
	hvd_pickler_op(p, HVD_OP_EMPTY_DICT);
	hvd_pickler_op(p, HVD_OP_MARK);
}

static void end_state(struct hvd_pickler *p)
{
	hvd_pickler_op(p, HVD_OP_SETITEMS);
	hvd_pickler_op(p, HVD_OP_BUILD);
}

static void put_hosts_updated(struct hvd_pickler *p, const struct hvd_message *msg)
{
	put_object(p, WORKER, "HostsUpdatedRequest");
	begin_state(p);
	hvd_pickler_str(p, "timestamp");
	hvd_pickler_int(p, msg->timestamp);
	hvd_pickler_str(p, "res");
	hvd_pickler_int(p, msg->change);
	end_state(p);
}

static void put_pong(struct hvd_pickler *p, const struct hvd_message *msg)
{
	put_object(p, NETWORK, "PingResponse");
	begin_state(p);
	hvd_pickler_str(p, "service_name");
	hvd_pickler_str(p, "worker notification service");
	hvd_pickler_str(p, "source_address");
	hvd_pickler_str(p, msg->source);
	end_state(p);
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
	hvd_pickler_op(&p, HVD_OP_STOP);
	sign(key, p.bytes, p.n, out);
	for (size_t i = 0; i < 4; i++)
		out[HVD_MAC_LEN + i] = (unsigned char)(p.n >> (8 * i));
	return HVD_MESSAGE_HEAD + p.n;
}

int hvd_message_length(const unsigned char head[HVD_MESSAGE_HEAD], size_t *len, struct hvd_err *err)
{
	size_t body = 0;

	*len = 0;
	for (size_t i = 0; i < 4; i++)
		body |= (size_t)head[HVD_MAC_LEN + i] << (8 * i);
	if (body > HVD_MESSAGE_MAX_BODY)
		return hvd_err_set(err, HVD_E_LIMIT, "a message of %zu bytes; at most %d are accepted", body,
				   HVD_MESSAGE_MAX_BODY);
	*len = HVD_MESSAGE_HEAD + body;
	return 0;
}

/* Read a HostUpdateResult. Depending on its release, Python pickles it as HostUpdateResult(n), as
 * getattr(HostUpdateResult, 'added'), or as or_() of two such values. */
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
		return hvd_err_set(err, HVD_E_PROTO, "a message that is not an object");
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
		return hvd_err_set(err, HVD_E_PROTO, "a truncated message");
	if (hvd_message_length(frame, &whole, err) < 0)
		return -1;
	if (whole != len)
		return hvd_err_set(err, HVD_E_PROTO, "a message that is truncated, or followed by other data");
	/* Checked before the body is parsed. */
	sign(key, frame + HVD_MESSAGE_HEAD, len - HVD_MESSAGE_HEAD, mac);
	if (!hvd_mac_equal(mac, frame))
		return hvd_err_set(err, HVD_E_AUTH, "a message whose signature does not match the worker's key");
	pickle = hvd_pickle_read(frame + HVD_MESSAGE_HEAD, len - HVD_MESSAGE_HEAD, err);
	if (!pickle)
		return -1;
	rc = read_body(hvd_pickle_root(pickle), out, err);
	hvd_pickle_free(pickle);
	return rc;
}
