/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include "lib/base/hex.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/net/listen.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/wire.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In one message: global, one for each host, one for each local rank. */
#define MAX_SCOPES (2 * HVD_MAX_HOSTS)
#define MAX_JOINS  16384
/* Connections to the relays' port that are not authenticated yet; a quarter of this process's descriptors at most. */
#define MAX_PENDING 4096
/* Lines, and bytes, of what clients wait for. */
#define MAX_WAITS      32
#define MAX_WAITS_TEXT 65536
/* Messages of a server to the driver in all: what strangers can have it say is limited. */
#define MAX_SAID      200
#define MAX_SAID_TEXT 4096

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

static void report_joins(struct hvd_rv_service *service)
{
	if (service->joins && service->report)
		hvd_conn_send(service->report, json_pack("{s:s, s:O}", "t", "joined", "joins", service->joins));
	json_decref(service->joins);
	service->joins = NULL;
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	report_joins(arg);
}

void hvd_rv_service_report_to(struct hvd_rv_service *service, struct event_base *base, struct hvd_conn *conn)
{
	service->report = conn;
	service->flush = evtimer_new(base, on_flush, service);
}

/* All that come in one turn of the event loop share a message. */
static void on_joined(void *arg, const struct hvd_rv_join *join)
{
	struct hvd_rv_service *service = arg;
	char text[HVD_ADDR_TEXT];

	if (service->ops)
		service->ops->joined(join, service->arg);
	if (!service->report)
		return;
	if (!service->joins) {
		service->joins = json_array();
		event_active(service->flush, EV_TIMEOUT, 0);
	}
	json_array_append_new(service->joins, json_pack("[sII]", hvd_addr_text(&join->from, text),
							(json_int_t)join->pid, (json_int_t)join->generation));
	if (json_array_size(service->joins) == MAX_JOINS)
		report_joins(service);
}

static void report_waits(struct hvd_rv_service *service, const char *text)
{
	json_t *msg = json_pack("{s:s, s:s%}", "t", "waits", "waits", text, strnlen(text, MAX_WAITS_TEXT));

	/* NULL: the text, whose keys are a client's, is no UTF-8. */
	if (msg)
		hvd_conn_send(service->report, msg);
}

static void report_said(enum hvd_log_level level, const char *text, void *arg)
{
	struct hvd_rv_service *service = arg;
	json_t *msg = json_pack("{s:s, s:i, s:s%}", "t", "said", "level", (int)level, "text", text,
				strnlen(text, MAX_SAID_TEXT));

	/* NULL: the text is no UTF-8. */
	if (msg && service->report && service->n_said++ < MAX_SAID)
		hvd_conn_send(service->report, msg);
	else
		json_decref(msg);
}

/* Takes the text. */
static void on_waits(char *text, void *arg)
{
	struct hvd_rv_service *service = arg;

	if (service->report)
		report_waits(service, text ? text : "");
	else if (service->ops)
		service->ops->waits(text ? text : "", service->arg);
	free(text);
}

void hvd_rv_service_ask_waits(struct hvd_rv_service *service)
{
	if (service->conn)
		hvd_conn_send(service->conn, json_pack("{s:s}", "t", "waits"));
	if (service->rv)
		hvd_rv_tcpstore_ask_waits(service->rv, MAX_WAITS, on_waits, service);
}

void hvd_rv_service_ask_changes(struct hvd_rv_service *service)
{
	struct hvd_rv_stats stats;

	if (service->conn)
		hvd_conn_send(service->conn, json_pack("{s:s}", "t", "changes"));
	if (!service->rv)
		return;
	hvd_rv_stats(service->rv, &stats);
	if (service->report)
		hvd_conn_send(service->report,
			      json_pack("{s:s, s:I}", "t", "changes", "changes", (json_int_t)stats.store.changes));
	else if (service->ops)
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

void hvd_rv_service_relays(struct hvd_rv_service *service, const char *session_id)
{
	service->relays = true;
	snprintf(service->relay_session.id, sizeof(service->relay_session.id), "%s", session_id);
}

static void on_relay(struct hvd_conn *conn, void *arg)
{
	hvd_rv_relay_take(((struct hvd_rv_service *)arg)->rv, conn);
}

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	const struct hvd_rv_service *service = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_verbose(service->log, "refused a connection from %s to the port for relays: %s", hvd_addr_text(from, peer),
		    why->msg);
}

static void on_full(void *arg)
{
	hvd_warn(((struct hvd_rv_service *)arg)->log,
		 "the rendezvous has no descriptor left for another relay: the limit is %lu", hvd_nofile());
}

static int listen_for_relays(struct hvd_rv_service *service, struct event_base *base, in_port_t lo, in_port_t hi,
			     struct hvd_err *err)
{
	static const struct hvd_pending_ops ops = {
		.proven = on_relay, .refused = on_refused, .dropped = on_refused, .full = on_full};
	unsigned long room = hvd_nofile() / 4;
	int fd = hvd_listen_any(false, lo, hi, &service->endpoints.relay_port, err);

	if (fd < 0)
		return -1;
	hvd_rv_service_relay_session(&service->session_key, service->relay_session.id, &service->relay_session);
	service->pending = hvd_pending_create(base, fd, &service->relay_session,
					      room < MAX_PENDING ? (unsigned)room : MAX_PENDING, &ops, service, err);
	if (service->pending)
		return 0;
	close(fd);
	return -1;
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

	if (service->report && log) {
		service->said = *log;
		service->said.sink = report_said;
		service->said.arg = service;
		log = &service->said;
	}
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
	if (!service->rv || listen_on(service->rv, self->addrs, self->n_addrs, lo, hi, err) != 0 ||
	    (service->relays && listen_for_relays(service, base, lo, hi, err) != 0)) {
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

void hvd_rv_service_connect(struct hvd_rv_service *service, struct hvd_conn *conn,
			    const struct hvd_endpoints *endpoints)
{
	service->conn = conn;
	service->endpoints = *endpoints;
}

void hvd_rv_service_lost(struct hvd_rv_service *service, const struct hvd_conn *conn)
{
	if (service->conn == conn)
		service->conn = NULL;
	if (service->report == conn)
		service->report = NULL;
}

bool hvd_rv_service_is_open(const struct hvd_rv_service *service)
{
	return service->endpoints.n > 0;
}

void hvd_rv_service_close(struct hvd_rv_service *service)
{
	hvd_pending_destroy(service->pending);
	hvd_rv_destroy(service->rv);
	hvd_rv_access_destroy(service->access);
	free(service->endpoints.addrs);
	if (service->flush)
		event_free(service->flush);
	json_decref(service->joins);
	memset(service, 0, sizeof(*service));
}

/* ---- the operations, on the server here or as a message ---- */

/* Takes the reference to `list`. */
static void send_list(struct hvd_rv_service *service, const char *type, const char *key, json_t *list)
{
	hvd_conn_send(service->conn, json_pack("{s:s, s:o}", "t", type, key, list));
}

static json_t *addr_list(const struct hvd_addr *addrs, size_t n)
{
	json_t *list = json_array();
	char text[HVD_ADDR_TEXT];

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(hvd_addr_text(&addrs[i], text)));
	return list;
}

void hvd_rv_service_admit(struct hvd_rv_service *service, const struct hvd_addr *addrs, size_t n)
{
	if (service->conn) {
		send_list(service, "allow", "hosts", addr_list(addrs, n));
	} else if (service->rv) {
		hvd_rv_access_replace(service->access, addrs, n);
		hvd_rv_expel(service->rv);
	}
}

void hvd_rv_service_admit_relays(struct hvd_rv_service *service, const uint32_t *origins, size_t n)
{
	json_t *list;

	if (!service->conn) {
		if (service->rv)
			hvd_rv_relay_admit(service->rv, origins, n);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(origins[i]));
	send_list(service, "relays", "origins", list);
}

void hvd_rv_service_no_relays(struct hvd_rv_service *service)
{
	if (service->conn)
		hvd_conn_send(service->conn, json_pack("{s:s}", "t", "no-relays"));
	hvd_pending_destroy(service->pending);
	service->pending = NULL;
	service->endpoints.relay_port = 0;
}

void hvd_rv_service_seclude(struct hvd_rv_service *service)
{
	struct hvd_addr loopback;

	if (service->conn)
		hvd_conn_send(service->conn, json_pack("{s:s}", "t", "seclude"));
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
	if (service->conn)
		send_list(service, "keep", "addrs", addr_list(addrs, n));
	else if (service->rv)
		hvd_rv_keep(service->rv, addrs, n);
}

/* To the server here, or to the list for the one elsewhere. */
static void set_size(struct hvd_rv_service *service, json_t *list, const char *scope, int members)
{
	if (list)
		json_array_append_new(list, json_pack("[si]", scope, members));
	else if (service->rv)
		hvd_rv_scope_size(service->rv, scope, (size_t)members, NULL);
}

void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *l)
{
	json_t *list = service->conn ? json_array() : NULL;
	char scope[300];

	if (service->rv)
		hvd_rv_tcpstore_ranks(service->rv, (size_t)l->size);
	set_size(service, list, "global", l->size);
	for (int h = 0; h < l->n_hosts; h++) {
		snprintf(scope, sizeof(scope), "local_%s", l->hosts[h].name);
		set_size(service, list, scope, l->hosts[h].n);
	}
	for (int r = 0; r < l->size; r++)
		if (l->rank_slots[r].cross_rank == 0) {
			snprintf(scope, sizeof(scope), "cross_%d", l->rank_slots[r].local_rank);
			set_size(service, list, scope, l->rank_slots[r].cross_size);
		}
	if (list)
		hvd_conn_send(service->conn,
			      json_pack("{s:s, s:i, s:o}", "t", "size", "ranks", l->size, "sizes", list));
}

/* ---- the messages, at their destination ---- */

/* Sizes that make no sense cost their scope only. */
static void read_sizes(struct hvd_rv_service *service, const json_t *msg)
{
	json_t *list, *entry;
	int64_t ranks;
	size_t i;

	if (service->rv && hvd_get_int(msg, "ranks", 1, HVD_MAX_RANKS, &ranks, NULL) == 0)
		hvd_rv_tcpstore_ranks(service->rv, (size_t)ranks);
	if (hvd_get_array(msg, "sizes", MAX_SCOPES, &list, NULL) != 0)
		return;
	json_array_foreach(list, i, entry)
	{
		const char *scope = json_string_value(json_array_get(entry, 0));
		json_int_t members = json_integer_value(json_array_get(entry, 1));

		if (scope && members > 0 && members <= HVD_MAX_RANKS)
			set_size(service, NULL, scope, (int)members);
	}
}

static void read_origins(struct hvd_rv_service *service, const json_t *msg)
{
	uint32_t *origins;
	json_t *list, *entry;
	size_t i;

	if (hvd_get_array(msg, "origins", HVD_MAX_HOSTS, &list, NULL) != 0)
		return;
	origins = hvd_xcalloc(json_array_size(list), sizeof(*origins));
	json_array_foreach(list, i, entry) origins[i] = (uint32_t)json_integer_value(entry);
	hvd_rv_service_admit_relays(service, origins, json_array_size(list));
	free(origins);
}

/* Of the server elsewhere. */
static void read_joins(const struct hvd_rv_service *service, const json_t *msg)
{
	json_t *list, *entry;
	size_t i;

	if (hvd_get_array(msg, "joins", MAX_JOINS, &list, NULL) != 0)
		return;
	json_array_foreach(list, i, entry)
	{
		const char *from = json_string_value(json_array_get(entry, 0));
		json_int_t pid = json_integer_value(json_array_get(entry, 1));
		json_int_t generation = json_integer_value(json_array_get(entry, 2));
		struct hvd_rv_join join = {.pid = (uint32_t)pid, .generation = (uint32_t)generation};

		if (from && hvd_addr_parse(from, &join.from) == 0 && pid >= 0 && pid <= UINT32_MAX && generation >= 0 &&
		    generation <= UINT32_MAX)
			service->ops->joined(&join, service->arg);
	}
}

/* What the server elsewhere tells. */
static void read_report(const struct hvd_rv_service *service, const json_t *msg)
{
	const char *text;
	int64_t level, n;

	read_joins(service, msg);
	if (hvd_get_int(msg, "changes", 0, INT64_MAX, &n, NULL) == 0)
		service->ops->changes((uint64_t)n, service->arg);
	if (hvd_get_int(msg, "level", HVD_LOG_WARN, HVD_LOG_DEBUG, &level, NULL) == 0 &&
	    hvd_get_str(msg, "text", MAX_SAID_TEXT, &text, NULL) == 0)
		service->ops->said((enum hvd_log_level)level, text, service->arg);
	if (hvd_get_str(msg, "waits", MAX_WAITS_TEXT, &text, NULL) == 0)
		service->ops->waits(text, service->arg);
}

void hvd_rv_service_message(struct hvd_rv_service *service, const json_t *msg)
{
	struct hvd_addr *addrs;
	const char *type;
	size_t n;

	if (service->conn) {
		if (service->ops)
			read_report(service, msg);
		return;
	}
	n = hvd_get_addrs(msg, "hosts", &addrs);
	if (n)
		hvd_rv_service_admit(service, addrs, n);
	free(addrs);
	n = hvd_get_addrs(msg, "addrs", &addrs);
	if (n)
		hvd_rv_service_keep(service, addrs, n);
	free(addrs);
	read_sizes(service, msg);
	read_origins(service, msg);
	if (hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "waits") == 0)
		hvd_rv_service_ask_waits(service);
	else if (strcmp(type, "changes") == 0)
		hvd_rv_service_ask_changes(service);
	else if (strcmp(type, "no-relays") == 0)
		hvd_rv_service_no_relays(service);
	else if (strcmp(type, "seclude") == 0)
		hvd_rv_service_seclude(service);
}
