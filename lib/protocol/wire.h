/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - messages as bytes: the codec of every connection of a launch.
 *
 * A frame is
 *     'H' 'V'  version (1)  flags  length (4 bytes, big endian)
 *     [ HMAC-SHA256, 32 bytes: only with flag 1 ]
 *     length bytes of JSON: one object
 * Until a key is set frames are unsigned and short; from then on every frame
 * must be signed. The signature covers the direction, a counter per direction
 * and the body, so a frame can be neither replayed, reflected nor reordered.
 *
 * Pure: no sockets here. One struct per connection, one thread at a time.
 */
#ifndef HVD_WIRE_H
#define HVD_WIRE_H

#include "auth.h"
#include "lib/base/err.h"
#include "lib/net/addr.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define HVD_WIRE_HEAD     8
#define HVD_WIRE_MAX_OPEN 8192              /* longest body before a key is set */
#define HVD_WIRE_MAX      (8 * 1024 * 1024) /* longest body afterwards */

struct hvd_wire {
	bool server; /* which end this is: part of what is signed */
	bool keyed;
	struct hvd_key key;
	uint64_t sent, received;
	size_t max; /* longest body that is taken once keyed */
};

void hvd_wire_init(struct hvd_wire *wire, bool server);
void hvd_wire_set_key(struct hvd_wire *wire, const struct hvd_key *key); /* restarts both counters */
/* Take no longer bodies than this, instead of HVD_WIRE_MAX. A frame is kept until it is whole, and only then is its
 * signature looked at: whoever sets a key before the peer has proven anything should set this, too. */
void hvd_wire_set_max(struct hvd_wire *wire, size_t max);

/* `msg` as a frame in *bytes (caller frees), *len long. Does not take the reference. */
int hvd_wire_encode(struct hvd_wire *wire, const json_t *msg, unsigned char **bytes, size_t *len, struct hvd_err *err);

/* Look for one frame at the start of buf. Returns 1 with *used bytes consumed and *msg an object that
 * the caller owns; 0 when more bytes are needed (*used is 0); -1 when the peer is not to be talked to
 * any longer (err says why: HVD_E_PROTO, HVD_E_AUTH or HVD_E_LIMIT). */
int hvd_wire_decode(struct hvd_wire *wire, const unsigned char *buf, size_t len, size_t *used, json_t **msg,
		    struct hvd_err *err);

/* Typed access to what a peer sent: -1 with HVD_E_PROTO naming the key when it is absent, of another type
 * or out of range. Strings point into the message and are at most `max` bytes long. */
int hvd_get_int(const json_t *msg, const char *key, int64_t min, int64_t max, int64_t *out, struct hvd_err *err);
int hvd_get_str(const json_t *msg, const char *key, size_t max, const char **out, struct hvd_err *err);
int hvd_get_array(const json_t *msg, const char *key, size_t max, json_t **out, struct hvd_err *err);
int hvd_get_object(const json_t *msg, const char *key, json_t **out, struct hvd_err *err);

/* The addresses in the list under `key`. Entries that are no address are skipped. Returns how many there are: 0 when
 * there is no such list. The caller frees *out, which may be NULL when 0 is returned. */
size_t hvd_get_addrs(const json_t *msg, const char *key, struct hvd_addr **out);

#endif
