/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "lib/base/xalloc.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define WIRE_VERSION 4
#define MAX_ADDRS    (1 << 20)
#define CHANNEL_LEN  ((size_t)(HVD_WIRE_BYTES - HVD_WIRE_BODY))

enum {
	FLAG_SIGNED = 1,
	FLAG_BYTES = 2,
	FLAG_MORE = 4,
};

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

/* Flags other than FLAG_SIGNED are signed, too. No frame of JSON has the signature of another kind of frame: its first
 * piece is shorter, and hvd_hmac() signs the lengths of pieces. */
static void sign(const struct hvd_wire *wire, bool from_server, uint64_t count, unsigned char flags, const void *body,
		 size_t len, unsigned char mac[HVD_MAC_LEN])
{
	unsigned char head[10] = {from_server ? 'S' : 'C'};
	struct hvd_piece pieces[] = {{head, flags == FLAG_SIGNED ? 9 : 10}, {body, len}};

	count = htobe64(count);
	memcpy(head + 1, &count, sizeof(count));
	head[9] = flags;
	hvd_hmac(&wire->key, pieces, 2, mac);
}

/* Write the head of a frame whose body is in place, and its signature where there is a key. */
static void seal(struct hvd_wire *wire, unsigned char *frame, unsigned char flags, size_t body)
{
	uint32_t length = htobe32((uint32_t)body);

	frame[0] = 'H';
	frame[1] = 'V';
	frame[2] = WIRE_VERSION;
	frame[3] = flags;
	memcpy(frame + 4, &length, sizeof(length));
	if (flags & FLAG_SIGNED)
		sign(wire, wire->server, wire->sent++, flags, frame + HVD_WIRE_BODY, body, frame + HVD_WIRE_HEAD);
}

/* A frame that grows while its body is written. */
struct draft {
	unsigned char *bytes;
	size_t len, room, max; /* `max`: of the frame */
	bool too_long;
};

static int append(const char *text, size_t n, void *arg)
{
	struct draft *d = arg;

	if (n > d->max - d->len) {
		d->too_long = true;
		return -1;
	}
	if (n > d->room - d->len) {
		d->room = 2 * d->room > d->len + n ? 2 * d->room : d->len + n;
		d->bytes = hvd_xrealloc(d->bytes, d->room, 1);
	}
	memcpy(d->bytes + d->len, text, n);
	d->len += n;
	return 0;
}

int hvd_wire_encode(struct hvd_wire *wire, const json_t *msg, unsigned char **bytes, size_t *len, struct hvd_err *err)
{
	size_t max = wire->keyed ? HVD_WIRE_MAX : HVD_WIRE_MAX_OPEN;
	size_t at = wire->keyed ? HVD_WIRE_BODY : HVD_WIRE_HEAD;
	struct draft d = {.bytes = hvd_xcalloc(512, 1), .len = at, .room = 512, .max = at + max};

	if (json_dump_callback(msg, append, &d, JSON_COMPACT) != 0) {
		free(d.bytes);
		return d.too_long ? hvd_err_set(err, HVD_E_LIMIT, "a message is over the limit of %zu bytes", max)
				  : hvd_err_set(err, HVD_E_PROTO, "a message cannot be written as JSON");
	}
	seal(wire, d.bytes, wire->keyed ? FLAG_SIGNED : 0, d.len - at);
	*bytes = d.bytes;
	*len = d.len;
	return 0;
}

int hvd_wire_seal_bytes(struct hvd_wire *wire, unsigned char *frame, unsigned channel, size_t len, bool more,
			struct hvd_err *err)
{
	uint16_t number = htobe16((uint16_t)channel);

	if (!wire->keyed)
		return hvd_err_set(err, HVD_E_AUTH, "bytes cannot be sent before the peer has proven who it is");
	if (len > HVD_WIRE_PIECE || (len == 0 && more))
		return hvd_err_set(err, HVD_E_LIMIT, "%zu bytes are not a piece of a message", len);
	memcpy(frame + HVD_WIRE_BODY, &number, CHANNEL_LEN);
	seal(wire, frame, FLAG_SIGNED | FLAG_BYTES | (more ? FLAG_MORE : 0), CHANNEL_LEN + len);
	return 0;
}

static int check_flags(const struct hvd_wire *wire, unsigned char flags, struct hvd_err *err)
{
	if (flags == (wire->keyed ? FLAG_SIGNED : 0))
		return 0;
	if ((flags & FLAG_SIGNED) != (wire->keyed ? FLAG_SIGNED : 0))
		return hvd_err_set(err, HVD_E_AUTH, "the peer sent %s message where %s one was expected",
				   wire->keyed ? "an unsigned" : "a signed", wire->keyed ? "a signed" : "an unsigned");
	if (wire->keyed && wire->bytes && (flags & ~FLAG_MORE) == (FLAG_SIGNED | FLAG_BYTES))
		return 0;
	return hvd_err_set(err, HVD_E_PROTO, "the peer sent a message of an unexpected kind");
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
	return len > 3 ? check_flags(wire, buf[3], err) : 0;
}

static size_t most(const struct hvd_wire *wire, unsigned char flags)
{
	if (flags & FLAG_BYTES)
		return CHANNEL_LEN + HVD_WIRE_PIECE;
	return wire->keyed ? wire->max : HVD_WIRE_MAX_OPEN;
}

int hvd_wire_read(struct hvd_wire *wire, const unsigned char *buf, size_t len, struct hvd_frame *frame,
		  struct hvd_err *err)
{
	size_t at = wire->keyed ? HVD_WIRE_BODY : HVD_WIRE_HEAD, body;
	unsigned char mac[HVD_MAC_LEN];
	uint32_t length;
	bool bytes;

	memset(frame, 0, sizeof(*frame));
	if (check_head(wire, buf, len, err) != 0)
		return -1;
	if (len < HVD_WIRE_HEAD) {
		frame->used = HVD_WIRE_HEAD;
		return 0;
	}
	memcpy(&length, buf + 4, sizeof(length));
	body = be32toh(length);
	bytes = buf[3] & FLAG_BYTES;
	if (body > most(wire, buf[3]))
		return hvd_err_set(err, HVD_E_LIMIT, "the peer announces %zu bytes, over the limit of %zu", body,
				   most(wire, buf[3]));
	if (bytes && body < CHANNEL_LEN + (buf[3] & FLAG_MORE ? 1 : 0))
		return hvd_err_set(err, HVD_E_PROTO, "the peer sent a malformed message of bytes");
	if (len < at + body) {
		frame->used = at + body;
		return 0;
	}
	if (wire->keyed) {
		sign(wire, !wire->server, wire->received, buf[3], buf + at, body, mac);
		if (!hvd_mac_equal(mac, buf + HVD_WIRE_HEAD))
			return hvd_err_set(err, HVD_E_AUTH, "a message's signature is wrong");
		wire->received++;
	}
	if (!bytes) {
		json_t *msg = json_loadb((const char *)buf + at, body, JSON_REJECT_DUPLICATES, NULL);

		if (!json_is_object(msg)) {
			json_decref(msg);
			return hvd_err_set(err, HVD_E_PROTO, "a message is not a JSON object");
		}
		frame->msg = msg;
	} else {
		frame->channel = (unsigned)buf[at] << 8 | buf[at + 1];
		frame->bytes = buf + at + CHANNEL_LEN;
		frame->len = body - CHANNEL_LEN;
		frame->more = buf[3] & FLAG_MORE;
	}
	frame->used = at + body;
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
