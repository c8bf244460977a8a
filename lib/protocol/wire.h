/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - messages as bytes: the format of every connection between the processes of a launch.
 *
 * A frame is
 *     'H' 'V'  version (1)  flags  length (4 bytes, big endian)
 *     [ HMAC-SHA256, 32 bytes: only with flag 1 ]
 *     length bytes: JSON, one object; with flag 2, a channel (conn.h; 2 bytes, big endian) and bytes of a message
 *     of bytes in this channel; with flags 2 and 4, the message continues in the next frame
 * Before a connection has a key, frames are unsigned and short. Afterwards every frame must be signed. The signature
 * covers the direction, a counter for each direction, the flags where they are not 1, and the body. So a frame can be
 * neither replayed, nor sent back, nor moved within the stream.
 *
 * Does no I/O. One struct per connection, used by one thread at a time.
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
#define HVD_WIRE_MAX_OPEN 8192                          /* longest body before a key is set */
#define HVD_WIRE_MAX      (8 * 1024 * 1024)             /* longest body of JSON afterwards */
#define HVD_WIRE_PIECE    (256 * 1024)                  /* most bytes of a message of bytes in one frame */
#define HVD_WIRE_BODY     (HVD_WIRE_HEAD + HVD_MAC_LEN) /* where the body of a signed frame begins */
#define HVD_WIRE_BYTES    (HVD_WIRE_BODY + 2)           /* where the bytes of a frame of bytes begin */

struct hvd_wire {
	bool server; /* which end this is: the signature covers it */
	bool keyed;  /* `key` is set */
	struct hvd_key key;
	uint64_t sent, received; /* signed frames in each direction */
	size_t max;              /* longest body of JSON that is accepted once there is a key */
	bool bytes;              /* frames of bytes are accepted once there is a key; the caller sets it */
};

void hvd_wire_init(struct hvd_wire *wire, bool server);
/* Sign and demand signatures from now on; both counters start at 0. */
void hvd_wire_set_key(struct hvd_wire *wire, const struct hvd_key *key);
/* Accept no body longer than `max`, in place of HVD_WIRE_MAX. A frame stays in memory until it is complete, and its
 * signature is checked only then. So a caller that sets a key before the peer has proven its identity should set a
 * small maximum too. */
void hvd_wire_set_max(struct hvd_wire *wire, size_t max);

/* Write `msg` as a frame of *len bytes to *bytes, which the caller frees. Does not take the reference. HVD_E_LIMIT for
 * a body that is too long; *bytes is not set then. */
int hvd_wire_encode(struct hvd_wire *wire, const json_t *msg, unsigned char **bytes, size_t *len, struct hvd_err *err);

/* Make a frame of bytes in place: `frame` has room for HVD_WIRE_BYTES + len bytes, and the last `len` are already
 * there. `more`: the message continues in the next frame. HVD_E_LIMIT for more than HVD_WIRE_PIECE bytes, and for an
 * empty frame with `more`; HVD_E_AUTH before there is a key. */
int hvd_wire_seal_bytes(struct hvd_wire *wire, unsigned char *frame, unsigned channel, size_t len, bool more,
			struct hvd_err *err);

/* The contents of a frame. */
struct hvd_frame {
	size_t used;                /* the frame's length */
	json_t *msg;                /* a new reference; NULL in a frame of bytes */
	unsigned channel;           /* of the bytes */
	const unsigned char *bytes; /* they are part of the buffer */
	size_t len;
	bool more; /* the message of bytes goes on in the next frame */
};

/* Read one frame at the start of `buf`. Returns 1 with *frame; 0 if the frame is not complete; -1 with HVD_E_PROTO,
 * HVD_E_AUTH or HVD_E_LIMIT if it is refused: close the connection then. After 0, frame->used is how many bytes the
 * next try needs; all else in *frame is zero unless 1 is returned. Untrusted input is fine. */
int hvd_wire_read(struct hvd_wire *wire, const unsigned char *buf, size_t len, struct hvd_frame *frame,
		  struct hvd_err *err);

/* The value under `key` of a message from a peer. -1 with an error that names the key (HVD_E_PROTO, or HVD_E_LIMIT for
 * a string that is too long) if the value is absent, of another type or out of range; *out is then `min`, "" or NULL.
 * Results point into the message. A string has at most `max` bytes, an array at most `max` entries. */
int hvd_get_int(const json_t *msg, const char *key, int64_t min, int64_t max, int64_t *out, struct hvd_err *err);
int hvd_get_str(const json_t *msg, const char *key, size_t max, const char **out, struct hvd_err *err);
int hvd_get_array(const json_t *msg, const char *key, size_t max, json_t **out, struct hvd_err *err);
int hvd_get_object(const json_t *msg, const char *key, json_t **out, struct hvd_err *err);

/* The addresses in the list under `key`. Entries that are no address are skipped. Returns how many there are: 0 when
 * there is no such list. The caller frees *out, which may be NULL when 0 is returned. */
size_t hvd_get_addrs(const json_t *msg, const char *key, struct hvd_addr **out);

#endif
