/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of any bytes, before and after a key is set. With a key nothing may be taken that was not signed: the bytes
 * are first put to a keyed decoder as they are, then signed for it as a body, and at last they say which signed frames
 * a connection gets.
 */
#include "fuzz.h"
#include "lib/protocol/conn.h"
#include "tests/unit/wire_decode.h"

#include <sys/socket.h>
#include <unistd.h>

#define BYTES_MAX 1000

static const struct hvd_key key = {{1, 2, 3}};

/* All frames at the start of the bytes, from a buffer of exactly that size. */
static int decode_all(struct hvd_wire *wire, const uint8_t *data, size_t size)
{
	unsigned char *copy = malloc(size ? size : 1);
	size_t at = 0, used;
	int rc, taken = 0;
	json_t *msg;

	must(copy != NULL);
	memcpy(copy, data, size);
	wire->bytes = false;
	while ((rc = wire_decode(wire, copy + at, size - at, &used, &msg, NULL)) == 1) {
		must(used >= HVD_WIRE_HEAD && used <= size - at && json_is_object(msg));
		json_decref(msg);
		at += used;
		taken++;
	}
	must(used == 0 && msg == NULL);
	wire->bytes = true;
	if (wire->keyed) {
		struct hvd_frame frame;

		rc = hvd_wire_read(wire, copy, size, &frame, NULL);
		must(rc != 1 && !frame.msg && !frame.bytes && (rc < 0 || frame.used > size));
	}
	free(copy);
	return taken;
}

/* What can be decoded can be encoded, and comes back the same. */
static void round_trip(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *back;
	struct hvd_wire out, in;
	unsigned char *bytes;
	size_t len, used;

	hvd_wire_init(&out, true);
	hvd_wire_init(&in, false);
	hvd_wire_set_key(&out, &key);
	hvd_wire_set_key(&in, &key);
	if (json_is_object(msg) && hvd_wire_encode(&out, msg, &bytes, &len, NULL) == 0) {
		must(wire_decode(&in, bytes, len, &used, &back, NULL) == 1 && used == len);
		must(json_equal(msg, back));
		json_decref(back);
		free(bytes);
	}
	json_decref(msg);
}

/* ---- a peer who has the key ---- */

/* What was sent of a message of bytes, and what came of it. */
struct fate {
	size_t pieces, bytes; /* of the message that is under way */
	unsigned channel;     /* its own */
	unsigned sent, taken; /* whole messages of both kinds */
	bool refused;         /* what was sent has to end the connection */
	bool closed;
};

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	must(json_is_object(msg));
	((struct fate *)arg)->taken++;
}

static void on_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	must(channel < 2 && len <= BYTES_MAX && (len == 0 || memchr(data, 'x', len) == data));
	((struct fate *)arg)->taken++;
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	(void)why;
	((struct fate *)arg)->closed = true;
}

/* A frame for each two bytes: its kind and channel, and its length. */
static void send_frame(struct hvd_wire *wire, int fd, uint8_t kind, size_t len, struct fate *fate)
{
	unsigned char frame[HVD_WIRE_BYTES + 2 * 255], *json;
	json_t *msg;
	unsigned channel = kind >> 5 & 3; /* of these 2 are open */
	size_t n;

	if (kind % 8 == 0) {
		msg = json_pack("{s:i}", "n", 1);
		must(hvd_wire_encode(wire, msg, &json, &n, NULL) == 0 && write(fd, json, n) == (ssize_t)n);
		json_decref(msg);
		free(json);
		fate->refused |= fate->pieces > 0;
		fate->sent += !fate->refused;
		return;
	}
	len = kind % 8 == 1 ? 2 * len : len;
	memset(frame + HVD_WIRE_BYTES, 'x', len);
	if (hvd_wire_seal_bytes(wire, frame, channel, len, kind & 1, NULL) != 0) {
		must(len == 0);
		return;
	}
	must(write(fd, frame, HVD_WIRE_BYTES + len) == (ssize_t)(HVD_WIRE_BYTES + len));
	fate->bytes += len;
	fate->refused |= fate->bytes > BYTES_MAX || channel > 1 || (fate->pieces > 0 && channel != fate->channel);
	fate->channel = channel;
	fate->pieces = kind & 1 ? fate->pieces + 1 : 0;
	if (kind & 1)
		return;
	fate->sent += !fate->refused;
	fate->bytes = 0;
}

/* All whole messages before the first that has to be refused are taken, and nothing else. */
static void connection(const uint8_t *data, size_t size)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct event_base *base = event_base_new();
	struct hvd_conn *conn;
	struct hvd_wire wire;
	struct fate fate = {0};
	int fds[2];

	must(base && socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	hvd_wire_init(&wire, true);
	hvd_wire_set_key(&wire, &key);
	conn = hvd_conn_new(base, fds[0], false, &ops, &fate);
	hvd_conn_set_key(conn, &key);
	for (unsigned c = 0; c < 2; c++)
		hvd_conn_open(conn, c, BYTES_MAX, on_bytes, &fate);
	for (size_t i = 0; i + 1 < size && i < 128 && !fate.refused; i += 2) {
		send_frame(&wire, fds[1], data[i], data[i + 1], &fate);
		if (data[i] & 16)
			event_base_loop(base, EVLOOP_NONBLOCK);
	}
	for (int i = 0; i < 4; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	must(fate.taken == fate.sent && fate.closed == fate.refused);
	hvd_conn_free(conn);
	close(fds[1]);
	event_base_free(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_wire wire;

	hvd_wire_init(&wire, false);
	decode_all(&wire, data, size);
	hvd_wire_set_key(&wire, &key);
	must(decode_all(&wire, data, size) == 0);
	round_trip(data, size);
	connection(data, size);
	return 0;
}
