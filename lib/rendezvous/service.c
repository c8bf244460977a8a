/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include "lib/base/hex.h"
#include "lib/base/xalloc.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines of what clients wait for. */
#define MAX_WAITS 32

/* ---- the proof that the server is the launch's ---- */

void hvd_rv_service_proof(const struct hvd_key *session_key, const char *nonce, const struct hvd_addr *addr,
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
	struct hvd_rv_service *service = arg;
	char text[2 * HVD_MAC_LEN + 1];
	struct hvd_addr self;

	if (room < 2 * HVD_MAC_LEN || hvd_addr_of_self(fd, &self) != 0)
		return -1;
	hvd_rv_service_proof(&service->session_key, nonce, &self, service->endpoints.port, text);
	memcpy(out, text, 2 * HVD_MAC_LEN);
	return 2 * HVD_MAC_LEN;
}

/* ---- TCPStore's clients ---- */

void hvd_rv_service_tcpstore(struct hvd_rv_service *service, const struct hvd_rv_service_ops *ops, void *arg)
{
	service->tcpstore = true;
	service->ops = ops;
	service->arg = arg;
}

static void on_joined(void *arg, const struct hvd_rv_join *join)
{
	struct hvd_rv_service *service = arg;

	if (service->ops)
		service->ops->joined(join, service->arg);
}

/* Takes the text. */
static void on_waits(char *text, void *arg)
{
	struct hvd_rv_service *service = arg;

	if (service->ops)
		service->ops->waits(text ? text : "", service->arg);
	free(text);
}

void hvd_rv_service_ask_waits(struct hvd_rv_service *service)
{
	if (service->rv)
		hvd_rv_tcpstore_ask_waits(service->rv, MAX_WAITS, on_waits, service);
}

void hvd_rv_service_ask_changes(struct hvd_rv_service *service)
{
	struct hvd_rv_stats stats;

	if (!service->rv || !service->ops)
		return;
	hvd_rv_stats(service->rv, &stats);
	service->ops->changes(stats.store.changes, service->arg);
}

/* ---- relays ---- */

void hvd_rv_service_relay_session(const struct hvd_key *session_key, const char *session_id,
				  struct hvd_session *session)
{
	struct hvd_session made = {.identity = {.kind = HVD_ID_KEY}}; /* `session_id` may be the session's own */

	snprintf(made.id, sizeof(made.id), "%s", session_id);
	*session = made;
	session->identity.key = hvd_key_derive(session_key, "relay", session->id, strlen(session->id));
	session->key = session->identity.key;
}

/* ---- open and close ---- */

static int listen_on(struct hvd_rv *rv, const struct hvd_addr *addrs, size_t n, in_port_t lo, in_port_t hi,
		     struct hvd_err *err)
{
	char(*texts)[HVD_ADDR_TEXT] = hvd_xcalloc(n, sizeof(*texts));
	const char **ips = hvd_xcalloc(n, sizeof(*ips));
	int rc;

	for (size_t i = 0; i < n; i++)
		ips[i] = hvd_addr_text(&addrs[i], texts[i]);
	rc = hvd_rv_listen(rv, ips, n, lo, hi, err);
	free(ips);
	free(texts);
	return rc;
}

int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, const struct hvd_key *session_key,
			const struct hvd_this_host *self, in_port_t lo, in_port_t hi, int32_t host,
			const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_endpoints *ep = &service->endpoints;
	struct hvd_rv_config cfg;

	service->log = log;
	service->session_key = *session_key;
	service->access = hvd_rv_access_create();
	/* While the hosts are not known nothing is open to them. */
	hvd_rv_access_replace(service->access, NULL, 0);
	hvd_rv_config_init(&cfg);
	cfg.access = service->access;
	cfg.probe = on_probe;
	cfg.probe_arg = service;
	cfg.tcpstore = service->tcpstore;
	cfg.joined = on_joined;
	cfg.joined_arg = service;
	service->rv = hvd_rv_create(base, &cfg, log, err);
	if (!service->rv || listen_on(service->rv, self->addrs, self->n_addrs, lo, hi, err) != 0) {
		hvd_rv_service_close(service);
		return hvd_err_prefix(err, "cannot start the rendezvous server");
	}
	ep->addrs = hvd_xcalloc(self->n_addrs, sizeof(*ep->addrs));
	memcpy(ep->addrs, self->addrs, self->n_addrs * sizeof(*ep->addrs));
	ep->n = self->n_addrs;
	ep->port = hvd_rv_port(service->rv);
	ep->host = host;
	memcpy(ep->machine, self->machine, sizeof(ep->machine));
	return 0;
}

bool hvd_rv_service_is_open(const struct hvd_rv_service *service)
{
	return service->endpoints.n > 0;
}

void hvd_rv_service_close(struct hvd_rv_service *service)
{
	hvd_rv_destroy(service->rv);
	hvd_rv_access_destroy(service->access);
	free(service->endpoints.addrs);
	memset(service, 0, sizeof(*service));
}

/* ---- operations ---- */

void hvd_rv_service_admit(struct hvd_rv_service *service, const struct hvd_addr *addrs, size_t n)
{
	if (!service->rv)
		return;
	hvd_rv_access_replace(service->access, addrs, n);
	hvd_rv_expel(service->rv);
}

void hvd_rv_service_admit_relays(struct hvd_rv_service *service, const uint32_t *origins, size_t n)
{
	if (service->rv)
		hvd_rv_relay_admit(service->rv, origins, n);
}

void hvd_rv_service_seclude(struct hvd_rv_service *service)
{
	struct hvd_addr loopback;

	if (!service->rv)
		return;
	hvd_addr_parse("127.0.0.1", &loopback);
	hvd_rv_keep(service->rv, &loopback, 1);
	hvd_rv_access_replace(service->access, NULL, 0);
	hvd_rv_expel(service->rv);
	hvd_rv_clear(service->rv, NULL);
	hvd_rv_tcpstore_renew(service->rv);
}

void hvd_rv_service_keep(struct hvd_rv_service *service, const struct hvd_addr *addrs, size_t n)
{
	if (service->rv)
		hvd_rv_keep(service->rv, addrs, n);
}

void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *l)
{
	struct hvd_rv *rv = service->rv;
	char scope[300];

	if (!rv)
		return;
	hvd_rv_tcpstore_ranks(rv, (size_t)l->size);
	hvd_rv_scope_size(rv, "global", (size_t)l->size, NULL);
	for (int h = 0; h < l->n_hosts; h++) {
		snprintf(scope, sizeof(scope), "local_%s", l->hosts[h].name);
		hvd_rv_scope_size(rv, scope, (size_t)l->hosts[h].n, NULL);
	}
	for (int r = 0; r < l->size; r++)
		if (l->rank_slots[r].cross_rank == 0) {
			snprintf(scope, sizeof(scope), "cross_%d", l->rank_slots[r].local_rank);
			hvd_rv_scope_size(rv, scope, (size_t)l->rank_slots[r].cross_size, NULL);
		}
}
