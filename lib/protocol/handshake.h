/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - turns a bare connection into one that is signed in both directions.
 *
 *   driver -> shim   {"t":"hello",   "release":TEXT, "launch":HEX, "nonce":HEX}
 *   shim -> driver   {"t":"auth",    "release":TEXT, "launch":HEX, "nonce":HEX, "cred":TEXT}
 *   driver -> shim   {"t":"welcome", "cred":TEXT}      or {"t":"refused", "why":TEXT}
 *
 * A nonce is a random number that is used once. The driver sends a new one on each connection, so a captured "auth" is
 * of no use on another. "launch" is a digest of the session's id and the nonces that are known: each end recognises the
 * launch by it, and a stranger who connects does not learn the id. So the driver asks munge about nobody who does not know
 * the session: whatever strangers send costs it some microseconds. Each end refuses one of another release of this suite. A shim answers one "hello" on a
 * connection, since each answer costs it a credential. After "welcome" both ends sign with a key that is derived from the
 * session key and both nonces.
 */
#ifndef HVD_HANDSHAKE_H
#define HVD_HANDSHAKE_H

#include "boot.h"
#include "conn.h"

struct hvd_session {
	char id[HVD_SESSION_LEN + 1];
	struct hvd_identity identity;
	struct hvd_key key; /* the driver makes it at the start; a shim gets it with its first "welcome" */
};

struct hvd_handshake {
	struct hvd_session *session; /* not owned; a shim stores the session key in it */
	bool server;                 /* the driver's end */
	unsigned char server_nonce[HVD_NONCE_LEN], client_nonce[HVD_NONCE_LEN];
	bool greeted; /* the shim has answered a hello */
	bool done;    /* both ends sign now */
};

/* For an identity of kind HVD_ID_KEY: replace the shared secret by a secret that is derived from it and the session's
 * id, so that nothing captured from one launch is of use in another. Call it once, after id and secret are set.
 * hvd_session_create() does so itself. */
void hvd_session_bind_key(struct hvd_session *session);

/* Make the driver's session: a random id, and a random key, or for HVD_ID_KEY a key that is derived from secret and
 * id. */
int hvd_session_create(struct hvd_session *session, const struct hvd_identity *identity, struct hvd_err *err);

/* Begin at the driver's end. Returns the hello, which the caller sends as the first message and releases; NULL with err
 * set. */
json_t *hvd_handshake_hello(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_err *err);
/* Begin at the shim's end. */
int hvd_handshake_start(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_err *err);

/* Handle a message of the handshake. Returns 1 when the handshake is done, 0 when more messages follow, -1 with err set
 * when the peer is refused. The driver's end has then queued the reason for the peer: close with hvd_conn_finish(). */
int hvd_handshake_message(struct hvd_handshake *hs, struct hvd_conn *conn, const json_t *msg, struct hvd_err *err);

#endif
