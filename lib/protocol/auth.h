/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - who a peer is, and the keys that follow from it.
 *
 * A launch has one random session key, made by the driver. It reaches the
 * other processes of the launch in one of two ways:
 *
 *   munge     Both sides hand each other a munge credential. The client's
 *             proves its uid to the driver and is bound to the session and to
 *             both nonces, so a captured one is worth nothing in another
 *             connection. The driver's answer can be decoded by this uid only
 *             and carries the session key.
 *   key       Both sides hold the same secret already (a file of mode 0600, or
 *             an inherited descriptor) and prove it by HMAC. The secret itself
 *             is the session key.
 *
 * Either way no secret is in an environment or on a command line. Afterwards
 * every message carries an HMAC-SHA256 (wire.h).
 *
 * libmunge is loaded when it is used (munge.h), and talks to munged with time
 * limits of its own (seconds). All functions may be called by several threads
 * with different identities.
 */
#ifndef HVD_AUTH_H
#define HVD_AUTH_H

#include "lib/base/err.h"
#include "lib/base/key.h"

#include <stddef.h>

#define HVD_NONCE_LEN 16
#define HVD_MAC_LEN   32
#define HVD_CRED_MAX  4096 /* the longest credential that is looked at */

enum hvd_identity_kind {
	HVD_ID_MUNGE,
	HVD_ID_KEY,
};

struct hvd_identity {
	enum hvd_identity_kind kind;
	const char *munge_socket; /* NULL = where libmunge looks by itself; not owned */
	struct hvd_key key;       /* HVD_ID_KEY: the shared secret */
};

/* What a credential is bound to: a digest of session, nonces and role. */
struct hvd_context {
	unsigned char b[HVD_MAC_LEN];
};

/* HMAC-SHA256 over up to four pieces (NULL pieces are passed over). Lengths are part of
 * what is signed, so moving a border between pieces changes the result. */
struct hvd_piece {
	const void *p;
	size_t n;
};
void hvd_hmac(const struct hvd_key *key, const struct hvd_piece *pieces, size_t n_pieces,
	      unsigned char mac[HVD_MAC_LEN]);
/* A key for one purpose, made from another. */
struct hvd_key hvd_key_derive(const struct hvd_key *key, const char *purpose, const void *salt, size_t salt_len);
/* Compare in constant time. */
int hvd_mac_equal(const unsigned char a[HVD_MAC_LEN], const unsigned char b[HVD_MAC_LEN]);

struct hvd_context hvd_context_of(const char *session, const unsigned char server_nonce[HVD_NONCE_LEN],
				  const unsigned char client_nonce[HVD_NONCE_LEN]);

/* Client: a credential for the driver. Caller frees. NULL with err set, e.g. when munged is down. */
char *hvd_id_prove(const struct hvd_identity *id, const struct hvd_context *to, struct hvd_err *err);
/* Driver: is it from this uid and bound to this connection? */
int hvd_id_check(const struct hvd_identity *id, const struct hvd_context *to, const char *cred, struct hvd_err *err);
/* Driver: the answer that hands out the session key to this uid only. Caller frees. */
char *hvd_id_grant(const struct hvd_identity *id, const struct hvd_context *to, const struct hvd_key *session_key,
		   struct hvd_err *err);
/* Client: check the driver's answer and take the session key out of it. */
int hvd_id_accept(const struct hvd_identity *id, const struct hvd_context *to, const char *cred,
		  struct hvd_key *session_key, struct hvd_err *err);

#endif
