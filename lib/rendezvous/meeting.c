/* SPDX-License-Identifier: Apache-2.0 */
#include "meeting.h"

#include "lib/base/hex.h"
#include "lib/base/xalloc.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hvd_meeting {
	struct hvd_key session_key;
	struct hvd_rv_access *access;
	struct hvd_rv *rv;
};

void hvd_meeting_proof(const struct hvd_key *session_key, const char *nonce, const struct hvd_addr *addr,
		       in_port_t port, char *text)
{
	struct hvd_key key = hvd_key_derive(session_key, "rendezvous", NULL, 0);
	unsigned char mac[HVD_MAC_LEN];
	char where[HVD_ADDR_TEXT + 16], ip[HVD_ADDR_TEXT];
	int n = snprintf(where, sizeof(where), " %s %u", hvd_addr_text(addr, ip), (unsigned)port);
	struct hvd_piece pieces[] = {{nonce, strlen(nonce)}, {where, (size_t)n}};

	hvd_hmac(&key, pieces, 2, mac);
	hvd_hex(mac, sizeof(mac), text);
}

static int on_probe(void *arg, const char *nonce, int fd, char *out, size_t room)
{
	struct hvd_meeting *meeting = arg;
	char text[2 * HVD_MAC_LEN + 1];
	struct hvd_addr self;

	if (room < 2 * HVD_MAC_LEN || hvd_addr_of_self(fd, &self) != 0)
		return -1;
	hvd_meeting_proof(&meeting->session_key, nonce, &self, hvd_meeting_port(meeting), text);
	memcpy(out, text, 2 * HVD_MAC_LEN);
	return 2 * HVD_MAC_LEN;
}

static int listen_on(struct hvd_meeting *meeting, const struct hvd_addr *addrs, size_t n_addrs, in_port_t lo,
		     in_port_t hi, struct hvd_err *err)
{
	char(*texts)[HVD_ADDR_TEXT] = hvd_xcalloc(n_addrs, sizeof(*texts));
	const char **ips = hvd_xcalloc(n_addrs, sizeof(*ips));
	int rc;

	for (size_t i = 0; i < n_addrs; i++)
		ips[i] = hvd_addr_text(&addrs[i], texts[i]);
	rc = hvd_rv_listen(meeting->rv, ips, n_addrs, lo, hi, err);
	free(ips);
	free(texts);
	return rc;
}

struct hvd_meeting *hvd_meeting_create(struct event_base *base, const struct hvd_key *session_key,
				       const struct hvd_addr *addrs, size_t n_addrs, in_port_t lo, in_port_t hi,
				       const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_meeting *meeting = hvd_xcalloc(1, sizeof(*meeting));
	struct hvd_rv_config cfg;

	meeting->session_key = *session_key;
	meeting->access = hvd_rv_access_create();
	hvd_rv_config_init(&cfg);
	cfg.access = meeting->access;
	cfg.probe = on_probe;
	cfg.probe_arg = meeting;
	meeting->rv = hvd_rv_create(base, &cfg, log, err);
	/* Nothing is open to others while the hosts are not known yet. */
	hvd_rv_access_replace(meeting->access, NULL, 0);
	if (meeting->rv && listen_on(meeting, addrs, n_addrs, lo, hi, err) == 0)
		return meeting;
	hvd_meeting_destroy(meeting);
	return NULL;
}

void hvd_meeting_destroy(struct hvd_meeting *meeting)
{
	if (!meeting)
		return;
	hvd_rv_destroy(meeting->rv);
	hvd_rv_access_destroy(meeting->access);
	free(meeting);
}

in_port_t hvd_meeting_port(const struct hvd_meeting *meeting)
{
	return hvd_rv_port(meeting->rv);
}

void hvd_meeting_admit(struct hvd_meeting *meeting, const struct hvd_addr *addrs, size_t n_addrs)
{
	hvd_rv_access_replace(meeting->access, addrs, n_addrs);
	hvd_rv_expel(meeting->rv);
}

void hvd_meeting_keep(struct hvd_meeting *meeting, const struct hvd_addr *addrs, size_t n_addrs)
{
	hvd_rv_keep(meeting->rv, addrs, n_addrs);
}

struct hvd_rv *hvd_meeting_server(struct hvd_meeting *meeting)
{
	return meeting->rv;
}
