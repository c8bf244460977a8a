/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of any bytes, before and after a key is set. With a key nothing may be taken that was not signed: the bytes
 * are first put to a keyed decoder as they are, then signed for it as a body.
 */
#include "fuzz.h"
#include "lib/protocol/wire.h"

/* All frames at the start of the bytes, from a buffer of exactly that size. */
static int decode_all(struct hvd_wire *wire, const uint8_t *data, size_t size)
{
	unsigned char *copy = malloc(size ? size : 1);
	size_t at = 0, used;
	int rc, taken = 0;
	json_t *msg;

	must(copy != NULL);
	memcpy(copy, data, size);
	while ((rc = hvd_wire_decode(wire, copy + at, size - at, &used, &msg, NULL)) == 1) {
		must(used >= HVD_WIRE_HEAD && used <= size - at && json_is_object(msg));
		json_decref(msg);
		at += used;
		taken++;
	}
	must(used == 0 && msg == NULL);
	free(copy);
	return taken;
}

/* What can be decoded can be encoded, and comes back the same. */
static void round_trip(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *back;
	static const struct hvd_key key = {{1, 2, 3}};
	struct hvd_wire out, in;
	unsigned char *bytes;
	size_t len, used;

	hvd_wire_init(&out, true);
	hvd_wire_init(&in, false);
	hvd_wire_set_key(&out, &key);
	hvd_wire_set_key(&in, &key);
	if (json_is_object(msg) && hvd_wire_encode(&out, msg, &bytes, &len, NULL) == 0) {
		must(hvd_wire_decode(&in, bytes, len, &used, &back, NULL) == 1 && used == len);
		must(json_equal(msg, back));
		json_decref(back);
		free(bytes);
	}
	json_decref(msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct hvd_key key = {{1, 2, 3}};
	struct hvd_wire wire;

	hvd_wire_init(&wire, false);
	decode_all(&wire, data, size);
	hvd_wire_set_key(&wire, &key);
	must(decode_all(&wire, data, size) == 0);
	round_trip(data, size);
	return 0;
}
