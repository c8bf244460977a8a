/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - from a bare connection to one that is signed in both directions.
 *
 *   driver -> shim   {"t":"hello",   "session":HEX, "nonce":HEX}
 *   shim -> driver   {"t":"auth",    "nonce":HEX, "cred":TEXT}
 *   driver -> shim   {"t":"welcome", "cred":TEXT}      or {"t":"refused", "why":TEXT}
 *
 * The driver's nonce is fresh for each connection, so a captured "auth" opens
 * nothing. A connection has one "hello", since each costs the shim a credential.
 * After "welcome" both ends use a key derived from the session key and both
 * nonces.
 */
#ifndef HVD_HANDSHAKE_H
#define HVD_HANDSHAKE_H

#include "boot.h"
#include "conn.h"

struct hvd_session {
	char id[HVD_SESSION_LEN + 1];
	struct hvd_identity identity;
	struct hvd_key key; /* driver: made at the start; shim: known after the first handshake */
};

struct hvd_handshake {
	struct hvd_session *session; /* not owned; the shim's side puts the key there */
	bool server;
	unsigned char server_nonce[HVD_NONCE_LEN], client_nonce[HVD_NONCE_LEN];
	bool greeted; /* the shim's side has answered a hello */
	bool done;
};

/* HVD_ID_KEY: make the shared secret one for this session only, so that nothing of one launch is of use in another.
 * Once, when id and secret are set; hvd_session_create does it itself. */
void hvd_session_bind_key(struct hvd_session *session);

/* Make a driver's session: random id and key (with HVD_ID_KEY the key follows from the shared secret and the id). */
int hvd_session_create(struct hvd_session *session, const struct hvd_identity *identity, struct hvd_err *err);

/* Begin on the driver's side of a connection that is none of conn.h's yet: its hello, to be sent as the first message.
 * NULL with err set. */
json_t *hvd_handshake_hello(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_err *err);

/* Begin. The driver's side sends its hello at once. */
int hvd_handshake_start(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_conn *conn, bool server,
			struct hvd_err *err);

/* Feed a message that came before the handshake was done. Returns 1 when it is done now, 0 to go on, -1 when the peer
 * is refused (the driver's side has then told it why; close with hvd_conn_finish). */
int hvd_handshake_message(struct hvd_handshake *hs, struct hvd_conn *conn, const json_t *msg, struct hvd_err *err);

#endif
