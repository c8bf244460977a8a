/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include "lib/base/digits.h"
#include "lib/base/uid.h"
#include "lib/base/xalloc.h"
#include "munge.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Uses nettle and not libcrypto: a rank shim lives for a few milliseconds, and loading libcrypto takes more than
 * one. */
void hvd_hmac(const struct hvd_key *key, const struct hvd_piece *pieces, size_t n_pieces,
	      unsigned char mac[HVD_MAC_LEN])
{
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, HVD_KEY_LEN, key->b);
	for (size_t i = 0; i < n_pieces; i++) {
		uint64_t n = pieces[i].p ? pieces[i].n : 0;
		uint8_t len[8];

		for (int b = 0; b < 8; b++)
			len[b] = (uint8_t)(n >> (56 - 8 * b));
		hmac_sha256_update(&ctx, sizeof(len), len);
		if (n)
			hmac_sha256_update(&ctx, n, pieces[i].p);
	}
	hmac_sha256_digest(&ctx, HVD_MAC_LEN, mac);
	explicit_bzero(&ctx, sizeof(ctx));
}

struct hvd_key hvd_key_derive(const struct hvd_key *key, const char *purpose, const void *salt, size_t salt_len)
{
	struct hvd_piece pieces[] = {{purpose, strlen(purpose)}, {salt, salt_len}};
	struct hvd_key out;

	hvd_hmac(key, pieces, 2, out.b);
	return out;
}

int hvd_mac_equal(const unsigned char a[HVD_MAC_LEN], const unsigned char b[HVD_MAC_LEN])
{
	return memeql_sec(a, b, HVD_MAC_LEN);
}

void hvd_digest(const struct hvd_piece *pieces, size_t n_pieces, unsigned char digest[HVD_MAC_LEN])
{
	static const struct hvd_key none;

	hvd_hmac(&none, pieces, n_pieces, digest);
}

struct hvd_context hvd_context_of(const char *session, const unsigned char server_nonce[HVD_NONCE_LEN],
				  const unsigned char client_nonce[HVD_NONCE_LEN])
{
	struct hvd_piece pieces[] = {
		{"hvd-context-1", 13},
		{session, strlen(session)},
		{server_nonce, HVD_NONCE_LEN},
		{client_nonce, HVD_NONCE_LEN},
	};
	struct hvd_context to;

	hvd_digest(pieces, 4, to.b);
	return to;
}

/* The two roles sign different texts, so that a side's own proof cannot be sent back to it. */
static void shared_proof(const struct hvd_identity *id, const struct hvd_context *to, const char *role,
			 unsigned char mac[HVD_MAC_LEN])
{
	struct hvd_piece pieces[] = {{role, strlen(role)}, {to->b, sizeof(to->b)}};

	hvd_hmac(&id->key, pieces, 2, mac);
}

static char *shared_prove(const struct hvd_identity *id, const struct hvd_context *to, const char *role)
{
	unsigned char mac[HVD_MAC_LEN];
	char *text = hvd_xcalloc(2 * HVD_MAC_LEN + 1, 1);

	shared_proof(id, to, role, mac);
	hvd_hex(mac, sizeof(mac), text);
	return text;
}

static int shared_check(const struct hvd_identity *id, const struct hvd_context *to, const char *role, const char *cred,
			struct hvd_err *err)
{
	unsigned char want[HVD_MAC_LEN], got[HVD_MAC_LEN];

	shared_proof(id, to, role, want);
	if (hvd_unhex(cred, got, sizeof(got)) != 0 || !hvd_mac_equal(want, got))
		return hvd_err_set(err, HVD_E_AUTH, "the peer does not hold this launch's key");
	return 0;
}

static void munge_hint(int rc, struct hvd_err *err)
{
	switch (rc) {
	case HVD_MUNGE_SOCKET:
	case HVD_MUNGE_TIMEOUT:
		hvd_err_hint(err, "is munged running on this host? (systemctl status munge)");
		break;
	case HVD_MUNGE_CRED_EXPIRED:
	case HVD_MUNGE_CRED_REWOUND:
		hvd_err_hint(err, "the clocks of the two hosts differ by minutes; synchronize them (chrony, ntp)");
		break;
	case HVD_MUNGE_CRED_INVALID:
		hvd_err_hint(err, "the two hosts have different munge keys (/etc/munge/munge.key)");
		break;
	default:
		break;
	}
}

/* Make a context of libmunge for this identity. NULL with err set if the library is missing. */
static void *munge_open(struct hvd_munge *munge, const struct hvd_identity *id, struct hvd_err *err)
{
	void *ctx;

	if (hvd_munge_load(munge, NULL, err) != 0)
		return NULL;
	ctx = munge->ctx_create();
	if (!ctx)
		hvd_err_set(err, HVD_E_SYS, "cannot make a munge context");
	else if (id->munge_socket)
		munge->ctx_set(ctx, HVD_MUNGE_OPT_SOCKET, id->munge_socket);
	return ctx;
}

static char *munge_make(const struct hvd_identity *id, const void *payload, size_t len, struct hvd_err *err)
{
	struct hvd_munge munge;
	void *ctx = munge_open(&munge, id, err);
	char *cred = NULL;
	int rc;

	if (!ctx)
		return NULL;
	munge.ctx_set(ctx, HVD_MUNGE_OPT_UID_RESTRICTION, hvd_uid_outside());
	rc = munge.encode(&cred, ctx, payload, (int)len);
	if (rc != HVD_MUNGE_SUCCESS) {
		/* Not HVD_E_AUTH: this is not the fault of the peer, and happens with every peer. */
		hvd_err_set(err, HVD_E_SYS, "munge cannot make a credential: %s", munge.ctx_strerror(ctx));
		munge_hint(rc, err);
		cred = NULL;
	}
	munge.ctx_destroy(ctx);
	return cred;
}

/* Decode a credential and check that its payload is `want` with `extra` bytes behind it, which are copied to out. */
static int munge_open_cred(const struct hvd_identity *id, const char *cred, const struct hvd_context *want, void *out,
			   size_t extra, struct hvd_err *err)
{
	struct hvd_munge munge;
	void *ctx = munge_open(&munge, id, err), *payload = NULL;
	int len = 0, rc = -1, mrc;
	uid_t uid = (uid_t)-1;
	gid_t gid;

	if (!ctx)
		return -1;
	mrc = munge.decode(cred, ctx, &payload, &len, &uid, &gid);
	if (mrc != HVD_MUNGE_SUCCESS) {
		hvd_err_set(err, HVD_E_AUTH, "munge refuses the peer's credential: %s", munge.ctx_strerror(ctx));
		munge_hint(mrc, err);
	} else if (uid != hvd_uid_outside()) {
		hvd_err_set(err, HVD_E_AUTH, "the peer is uid %u, this launch belongs to uid %u", (unsigned)uid,
			    (unsigned)hvd_uid_outside());
	} else if ((size_t)len != sizeof(want->b) + extra || memcmp(payload, want->b, sizeof(want->b)) != 0) {
		hvd_err_set(err, HVD_E_AUTH, "the peer's credential was made for another connection");
	} else {
		if (extra)
			memcpy(out, (unsigned char *)payload + sizeof(want->b), extra);
		rc = 0;
	}
	if (payload) {
		explicit_bzero(payload, (size_t)len);
		free(payload);
	}
	munge.ctx_destroy(ctx);
	return rc;
}

char *hvd_id_prove(const struct hvd_identity *id, const struct hvd_context *to, struct hvd_err *err)
{
	if (id->kind == HVD_ID_KEY)
		return shared_prove(id, to, "client");
	return munge_make(id, to->b, sizeof(to->b), err);
}

int hvd_id_check(const struct hvd_identity *id, const struct hvd_context *to, const char *cred, struct hvd_err *err)
{
	if (strlen(cred) > HVD_CRED_MAX)
		return hvd_err_set(err, HVD_E_AUTH, "the peer's credential is too long");
	if (id->kind == HVD_ID_KEY)
		return shared_check(id, to, "client", cred, err);
	return munge_open_cred(id, cred, to, NULL, 0, err);
}

char *hvd_id_grant(const struct hvd_identity *id, const struct hvd_context *to, const struct hvd_key *session_key,
		   struct hvd_err *err)
{
	unsigned char payload[sizeof(to->b) + HVD_KEY_LEN];
	char *cred;

	if (id->kind == HVD_ID_KEY)
		return shared_prove(id, to, "driver");
	memcpy(payload, to->b, sizeof(to->b));
	memcpy(payload + sizeof(to->b), session_key->b, HVD_KEY_LEN);
	cred = munge_make(id, payload, sizeof(payload), err);
	explicit_bzero(payload, sizeof(payload));
	return cred;
}

int hvd_id_accept(const struct hvd_identity *id, const struct hvd_context *to, const char *cred,
		  struct hvd_key *session_key, struct hvd_err *err)
{
	if (strlen(cred) > HVD_CRED_MAX)
		return hvd_err_set(err, HVD_E_AUTH, "the driver's credential is too long");
	if (id->kind == HVD_ID_KEY) {
		*session_key = id->key;
		return shared_check(id, to, "driver", cred, err);
	}
	return munge_open_cred(id, cred, to, session_key->b, HVD_KEY_LEN, err);
}
