/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - how a process proves that it belongs to a launch, and the keys that follow from the proof.
 *
 * A launch has one random session key, which the driver makes. It reaches the other processes of the launch in one of
 * two ways:
 *
 *   munge     Both sides send each other a munge credential. The client's proves its uid to the driver. It is bound to
 *             the session and to both nonces, so it is worthless in any other connection. Only the same uid can decode
 *             the driver's credential, which carries the session key.
 *   key       Both sides hold the same secret already (a file of mode 0600, or an inherited descriptor) and prove it by
 *             HMAC. The secret itself is the session key.
 *
 * Either way no secret is in an environment or on a command line. After the proof every message carries an HMAC-SHA256
 * (wire.h).
 *
 * libmunge is loaded when it is first used (munge.h), and waits for munged no longer than its own limits of some
 * seconds. Several threads may call these functions, each with an identity of its own.
 */
#ifndef HVD_AUTH_H
#define HVD_AUTH_H

#include "lib/base/err.h"
#include "lib/base/key.h"

#include <stddef.h>

#define HVD_NONCE_LEN 16
#define HVD_MAC_LEN   32
#define HVD_CRED_MAX  4096 /* longer credentials are refused */

enum hvd_identity_kind {
	HVD_ID_MUNGE,
	HVD_ID_KEY,
};

struct hvd_identity {
	enum hvd_identity_kind kind;
	const char *munge_socket; /* NULL for libmunge's own choice; not owned */
	struct hvd_key key;       /* the shared secret, with HVD_ID_KEY */
};

/* What a proof is bound to: a digest of the session and of both nonces. */
struct hvd_context {
	unsigned char b[HVD_MAC_LEN];
};

struct hvd_piece {
	const void *p;
	size_t n;
};
/* HMAC-SHA256 over several pieces; a piece whose pointer is NULL counts as empty. The length of each piece is signed
 * too, so the same bytes in other pieces have another HMAC. */
void hvd_hmac(const struct hvd_key *key, const struct hvd_piece *pieces, size_t n_pieces,
	      unsigned char mac[HVD_MAC_LEN]);
/* A key for one purpose, derived from another key. */
struct hvd_key hvd_key_derive(const struct hvd_key *key, const char *purpose, const void *salt, size_t salt_len);
/* Are the two equal? The comparison takes the same time wherever they differ. */
int hvd_mac_equal(const unsigned char a[HVD_MAC_LEN], const unsigned char b[HVD_MAC_LEN]);

/* A digest of the pieces: what it is for comes first. Who does not know all of them learns nothing about them. */
void hvd_digest(const struct hvd_piece *pieces, size_t n_pieces, unsigned char digest[HVD_MAC_LEN]);

struct hvd_context hvd_context_of(const char *session, const unsigned char server_nonce[HVD_NONCE_LEN],
				  const unsigned char client_nonce[HVD_NONCE_LEN]);

/* Client: make a credential for the driver, which the caller frees. NULL with err set, e.g. if munged is down. */
char *hvd_id_prove(const struct hvd_identity *id, const struct hvd_context *to, struct hvd_err *err);
/* Driver: check that a client's credential is from this uid and for this connection. 0, or -1 with err set. */
int hvd_id_check(const struct hvd_identity *id, const struct hvd_context *to, const char *cred, struct hvd_err *err);
/* Driver: make the answer, from which only this uid can take the session key. The caller frees it. NULL with err
 * set. */
char *hvd_id_grant(const struct hvd_identity *id, const struct hvd_context *to, const struct hvd_key *session_key,
		   struct hvd_err *err);
/* Client: check the driver's answer and take the session key from it. 0, or -1 with err set: *session_key is then
 * undefined. */
int hvd_id_accept(const struct hvd_identity *id, const struct hvd_context *to, const char *cred,
		  struct hvd_key *session_key, struct hvd_err *err);

#endif
