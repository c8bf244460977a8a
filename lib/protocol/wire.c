/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "lib/base/xalloc.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define WIRE_VERSION 1
#define FLAG_SIGNED  1
#define MAX_ADDRS    (1 << 20)

void hvd_wire_init(struct hvd_wire *wire, bool server)
{
	memset(wire, 0, sizeof(*wire));
	wire->server = server;
	wire->max = HVD_WIRE_MAX;
}

void hvd_wire_set_key(struct hvd_wire *wire, const struct hvd_key *key)
{
	wire->key = *key;
	wire->keyed = true;
	wire->sent = wire->received = 0;
}

void hvd_wire_set_max(struct hvd_wire *wire, size_t max)
{
	wire->max = max;
}

static void sign(const struct hvd_wire *wire, bool from_server, uint64_t count, const void *body, size_t len,
		 unsigned char mac[HVD_MAC_LEN])
{
	unsigned char head[9] = {from_server ? 'S' : 'C'};
	struct hvd_piece pieces[] = {{head, sizeof(head)}, {body, len}};

	count = htobe64(count);
	memcpy(head + 1, &count, sizeof(count));
	hvd_hmac(&wire->key, pieces, 2, mac);
}

int hvd_wire_encode(struct hvd_wire *wire, const json_t *msg, unsigned char **bytes, size_t *len, struct hvd_err *err)
{
	size_t body = json_dumpb(msg, NULL, 0, JSON_COMPACT);
	size_t max = wire->keyed ? HVD_WIRE_MAX : HVD_WIRE_MAX_OPEN;
	size_t at = HVD_WIRE_HEAD + (wire->keyed ? HVD_MAC_LEN : 0);
	unsigned char *out;
	uint32_t length;

	if (body == 0)
		return hvd_err_set(err, HVD_E_PROTO, "a message cannot be written as JSON");
	if (body > max)
		return hvd_err_set(err, HVD_E_LIMIT, "a message of %zu bytes is over the limit of %zu", body, max);
	out = hvd_xcalloc(at + body, 1);
	if (json_dumpb(msg, (char *)out + at, body, JSON_COMPACT) != body) {
		free(out);
		return hvd_err_set(err, HVD_E_PROTO, "a message cannot be written as JSON");
	}
	out[0] = 'H';
	out[1] = 'V';
	out[2] = WIRE_VERSION;
	out[3] = wire->keyed ? FLAG_SIGNED : 0;
	length = htobe32((uint32_t)body);
	memcpy(out + 4, &length, sizeof(length));
	if (wire->keyed)
		sign(wire, wire->server, wire->sent++, out + at, body, out + HVD_WIRE_HEAD);
	*bytes = out;
	*len = at + body;
	return 0;
}

static int check_head(const struct hvd_wire *wire, const unsigned char *buf, size_t len, struct hvd_err *err)
{
	/* Each byte is checked as soon as it has come, so as not to wait for the rest of something that is no frame. */
	if ((len > 0 && buf[0] != 'H') || (len > 1 && buf[1] != 'V'))
		return hvd_err_set(err, HVD_E_PROTO, "the peer does not speak this protocol");
	if (len > 2 && buf[2] != WIRE_VERSION) {
		hvd_err_set(err, HVD_E_PROTO, "the peer speaks version %u of the protocol, this is version %d", buf[2],
			    WIRE_VERSION);
		return hvd_err_hint(err, "the same release must be installed on all hosts");
	}
	if (len > 3 && buf[3] != (wire->keyed ? FLAG_SIGNED : 0))
		return hvd_err_set(err, HVD_E_AUTH, "the peer sent %s message where %s one is due",
				   buf[3] & FLAG_SIGNED ? "a signed" : "an unsigned",
				   wire->keyed ? "a signed" : "an unsigned");
	return 0;
}

int hvd_wire_decode(struct hvd_wire *wire, const unsigned char *buf, size_t len, size_t *used, json_t **msg,
		    struct hvd_err *err)
{
	size_t at = HVD_WIRE_HEAD + (wire->keyed ? HVD_MAC_LEN : 0);
	size_t max = wire->keyed ? wire->max : HVD_WIRE_MAX_OPEN;
	unsigned char mac[HVD_MAC_LEN];
	uint32_t length;
	size_t body;

	*used = 0;
	*msg = NULL;
	if (check_head(wire, buf, len, err) != 0)
		return -1;
	if (len < HVD_WIRE_HEAD)
		return 0;
	memcpy(&length, buf + 4, sizeof(length));
	body = be32toh(length);
	if (body > max)
		return hvd_err_set(err, HVD_E_LIMIT, "the peer announces %zu bytes, over the limit of %zu", body, max);
	if (len < at + body)
		return 0;
	if (wire->keyed) {
		sign(wire, !wire->server, wire->received, buf + at, body, mac);
		if (!hvd_mac_equal(mac, buf + HVD_WIRE_HEAD))
			return hvd_err_set(err, HVD_E_AUTH, "a message's signature is wrong");
		wire->received++;
	}
	*msg = json_loadb((const char *)buf + at, body, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*msg)) {
		json_decref(*msg);
		*msg = NULL;
		return hvd_err_set(err, HVD_E_PROTO, "a message is no JSON object");
	}
	*used = at + body;
	return 1;
}

int hvd_get_int(const json_t *msg, const char *key, int64_t min, int64_t max, int64_t *out, struct hvd_err *err)
{
	const json_t *v = json_object_get(msg, key);

	*out = min;
	if (!json_is_integer(v))
		return hvd_err_set(err, HVD_E_PROTO, "a message lacks the number \"%s\"", key);
	if (json_integer_value(v) < min || json_integer_value(v) > max)
		return hvd_err_set(err, HVD_E_PROTO, "\"%s\" is %lld, not within %lld and %lld", key,
				   (long long)json_integer_value(v), (long long)min, (long long)max);
	*out = json_integer_value(v);
	return 0;
}

int hvd_get_str(const json_t *msg, const char *key, size_t max, const char **out, struct hvd_err *err)
{
	const json_t *v = json_object_get(msg, key);

	*out = "";
	if (!json_is_string(v))
		return hvd_err_set(err, HVD_E_PROTO, "a message lacks the string \"%s\"", key);
	if (json_string_length(v) > max)
		return hvd_err_set(err, HVD_E_LIMIT, "\"%s\" is longer than %zu bytes", key, max);
	*out = json_string_value(v);
	return 0;
}

int hvd_get_array(const json_t *msg, const char *key, size_t max, json_t **out, struct hvd_err *err)
{
	json_t *v = json_object_get(msg, key);

	*out = NULL;
	if (!json_is_array(v))
		return hvd_err_set(err, HVD_E_PROTO, "a message lacks the list \"%s\"", key);
	if (json_array_size(v) > max)
		return hvd_err_set(err, HVD_E_LIMIT, "\"%s\" has more than %zu entries", key, max);
	*out = v;
	return 0;
}

int hvd_get_object(const json_t *msg, const char *key, json_t **out, struct hvd_err *err)
{
	json_t *v = json_object_get(msg, key);

	*out = NULL;
	if (!json_is_object(v))
		return hvd_err_set(err, HVD_E_PROTO, "a message lacks the object \"%s\"", key);
	*out = v;
	return 0;
}

size_t hvd_get_addrs(const json_t *msg, const char *key, struct hvd_addr **out)
{
	json_t *list, *entry;
	size_t i, n = 0;

	*out = NULL;
	if (hvd_get_array(msg, key, MAX_ADDRS, &list, NULL) != 0)
		return 0;
	*out = hvd_xcalloc(json_array_size(list), sizeof(**out));
	json_array_foreach(list, i, entry)
	{
		if (json_is_string(entry) && hvd_addr_parse(json_string_value(entry), &(*out)[n]) == 0)
			n++;
	}
	return n;
}
