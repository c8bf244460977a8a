/* SPDX-License-Identifier: Apache-2.0 */
#include "handshake.h"

#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/random.h"

#include <stdlib.h>
#include <string.h>

void hvd_session_bind_key(struct hvd_session *session)
{
	session->identity.key = hvd_key_derive(&session->identity.key, "session", session->id, strlen(session->id));
}

int hvd_session_create(struct hvd_session *session, const struct hvd_identity *identity, struct hvd_err *err)
{
	unsigned char id[HVD_SESSION_LEN / 2];

	memset(session, 0, sizeof(*session));
	session->identity = *identity;
	if (hvd_random(id, sizeof(id), err) != 0 || hvd_random(session->key.b, HVD_KEY_LEN, err) != 0)
		return -1;
	hvd_hex(id, sizeof(id), session->id);
	if (identity->kind == HVD_ID_KEY) {
		hvd_session_bind_key(session);
		session->key = session->identity.key;
	}
	return 0;
}

/* Messages mean something else in another release, or nothing. */
static int check_release(const json_t *msg, struct hvd_err *err)
{
	const char *release = json_string_value(json_object_get(msg, "release"));
	char quote[64] = "?";

	if (release && strcmp(release, HVD_VERSION) == 0)
		return 0;
	if (release)
		hvd_printable_quote(release, quote, sizeof(quote));
	hvd_err_set(err, HVD_E_PROTO, "the peer is of release %s, this one is of release %s", quote, HVD_VERSION);
	return hvd_err_hint(err, "the same release must be installed on all hosts");
}

/* By this text of the other end each end sees that it belongs to the same launch, before it makes or opens a credential.
 * It differs for each connection, and nobody learns from it the session's id, by which the agents' sockets are named
 * (agent/agent_socket.h). */
static void launch_text(const struct hvd_handshake *hs, bool server, char text[2 * HVD_MAC_LEN + 1])
{
	struct hvd_piece pieces[] = {
		{server ? "hvd-launch-server-1" : "hvd-launch-client-1", 19},
		{hs->session->id, strlen(hs->session->id)},
		{hs->server_nonce, HVD_NONCE_LEN},
		{server ? NULL : hs->client_nonce, HVD_NONCE_LEN}, /* the server speaks first */
	};
	unsigned char digest[HVD_MAC_LEN];

	hvd_digest(pieces, 4, digest);
	hvd_hex(digest, sizeof(digest), text);
}

json_t *hvd_handshake_hello(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_err *err)
{
	char hex[2 * HVD_NONCE_LEN + 1], launch[2 * HVD_MAC_LEN + 1];

	memset(hs, 0, sizeof(*hs));
	hs->session = session;
	hs->server = true;
	if (hvd_random(hs->server_nonce, HVD_NONCE_LEN, err) != 0)
		return NULL;
	hvd_hex(hs->server_nonce, HVD_NONCE_LEN, hex);
	launch_text(hs, true, launch);
	return json_pack("{s:s, s:s, s:s, s:s}", "t", "hello", "release", HVD_VERSION, "launch", launch, "nonce", hex);
}

int hvd_handshake_start(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_err *err)
{
	memset(hs, 0, sizeof(*hs));
	hs->session = session;
	return hvd_random(hs->client_nonce, HVD_NONCE_LEN, err);
}

static struct hvd_context context(const struct hvd_handshake *hs)
{
	return hvd_context_of(hs->session->id, hs->server_nonce, hs->client_nonce);
}

static int established(struct hvd_handshake *hs, struct hvd_conn *conn)
{
	unsigned char salt[2 * HVD_NONCE_LEN];
	struct hvd_key key;

	memcpy(salt, hs->server_nonce, HVD_NONCE_LEN);
	memcpy(salt + HVD_NONCE_LEN, hs->client_nonce, HVD_NONCE_LEN);
	key = hvd_key_derive(&hs->session->key, "connection", salt, sizeof(salt));
	hvd_conn_set_key(conn, &key);
	hs->done = true;
	return 1;
}

static int server_message(struct hvd_handshake *hs, struct hvd_conn *conn, const json_t *msg, struct hvd_err *err)
{
	const char *type, *nonce, *cred, *launch;
	char own[2 * HVD_MAC_LEN + 1];
	struct hvd_context to;
	char *grant;

	if (hvd_get_str(msg, "t", 16, &type, err) != 0 || check_release(msg, err) != 0 ||
	    hvd_get_str(msg, "nonce", 2 * HVD_NONCE_LEN, &nonce, err) != 0 ||
	    hvd_get_str(msg, "launch", 2 * HVD_MAC_LEN, &launch, err) != 0 ||
	    hvd_get_str(msg, "cred", HVD_CRED_MAX, &cred, err) != 0)
		return -1;
	if (strcmp(type, "auth") != 0 || hvd_unhex(nonce, hs->client_nonce, HVD_NONCE_LEN) != 0)
		return hvd_err_set(err, HVD_E_PROTO, "the peer did not answer the greeting");
	/* Anybody can have munged open a credential, which takes some of a millisecond. */
	launch_text(hs, false, own);
	if (strcmp(launch, own) != 0)
		return hvd_err_set(err, HVD_E_AUTH, "the peer does not know this launch");
	to = context(hs);
	if (hvd_id_check(&hs->session->identity, &to, cred, err) != 0 ||
	    !(grant = hvd_id_grant(&hs->session->identity, &to, &hs->session->key, err)))
		return -1;
	hvd_conn_send(conn, json_pack("{s:s, s:s}", "t", "welcome", "cred", grant));
	free(grant);
	return established(hs, conn);
}

static int client_hello(struct hvd_handshake *hs, struct hvd_conn *conn, const json_t *msg, struct hvd_err *err)
{
	char hex[2 * HVD_NONCE_LEN + 1], own[2 * HVD_MAC_LEN + 1];
	const char *launch, *nonce;
	struct hvd_context to;
	char *cred;

	if (hs->greeted)
		return hvd_err_set(err, HVD_E_PROTO, "the peer sent a second greeting");
	hs->greeted = true;
	if (check_release(msg, err) != 0 || hvd_get_str(msg, "launch", 2 * HVD_MAC_LEN, &launch, err) != 0 ||
	    hvd_get_str(msg, "nonce", 2 * HVD_NONCE_LEN, &nonce, err) != 0)
		return -1;
	if (hvd_unhex(nonce, hs->server_nonce, HVD_NONCE_LEN) != 0)
		return hvd_err_set(err, HVD_E_PROTO, "the driver's greeting is malformed");
	launch_text(hs, true, own);
	if (strcmp(launch, own) != 0)
		return hvd_err_set(err, HVD_E_AUTH, "the driver there belongs to another launch");
	to = context(hs);
	cred = hvd_id_prove(&hs->session->identity, &to, err);
	if (!cred)
		return -1;
	hvd_hex(hs->client_nonce, HVD_NONCE_LEN, hex);
	launch_text(hs, false, own);
	hvd_conn_send(conn, json_pack("{s:s, s:s, s:s, s:s, s:s}", "t", "auth", "release", HVD_VERSION, "launch", own,
				      "nonce", hex, "cred", cred));
	free(cred);
	return 0;
}

static int client_message(struct hvd_handshake *hs, struct hvd_conn *conn, const json_t *msg, struct hvd_err *err)
{
	const char *type, *text;
	struct hvd_context to;
	char quote[512];

	if (hvd_get_str(msg, "t", 16, &type, err) != 0)
		return -1;
	if (strcmp(type, "hello") == 0)
		return client_hello(hs, conn, msg, err);
	if (strcmp(type, "refused") == 0) {
		if (hvd_get_str(msg, "why", 1024, &text, err) != 0)
			return -1;
		hvd_printable_quote(text, quote, sizeof(quote));
		return hvd_err_set(err, HVD_E_AUTH,
				   "the driver there, which has not proven who it is, refuses this process: %s", quote);
	}
	if (strcmp(type, "welcome") != 0) {
		hvd_printable_quote(type, quote, sizeof(quote));
		return hvd_err_set(err, HVD_E_PROTO, "the driver sent %s before it proved who it is", quote);
	}
	if (hvd_get_str(msg, "cred", HVD_CRED_MAX, &text, err) != 0)
		return -1;
	to = context(hs);
	if (hvd_id_accept(&hs->session->identity, &to, text, &hs->session->key, err) != 0)
		return hvd_err_prefix(err, "the driver could not prove who it is");
	return established(hs, conn);
}

int hvd_handshake_message(struct hvd_handshake *hs, struct hvd_conn *conn, const json_t *msg, struct hvd_err *err)
{
	int rc;

	if (!hs->server)
		return client_message(hs, conn, msg, err);
	rc = server_message(hs, conn, msg, err);
	if (rc < 0)
		hvd_conn_send(conn, json_pack("{s:s, s:s}", "t", "refused", "why", err->msg));
	return rc;
}
