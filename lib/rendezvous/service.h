/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the rendezvous of one launch: a server (server.h) that is set up for the launch.
 *
 * It runs in the driver's process. Its life: it listens on all addresses of its host, and only processes of the same
 * user on this host may connect. Once the hosts of the job are known they are admitted. Once the plan is made the
 * service stops listening on the addresses that the plan does not use, and learns how many ranks meet in each scope.
 *
 * Where ranks meet at relays it is secluded instead: it listens on loopback only, and relays reach it by the
 * connections that hosts have to the driver (hvd_rv_child_share()).
 */
#ifndef HVD_RENDEZVOUS_SERVICE_H
#define HVD_RENDEZVOUS_SERVICE_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/job/layout.h"
#include "lib/job/this_host.h"
#include "lib/net/addr.h"
#include "lib/protocol/auth.h"
#include "lib/protocol/handshake.h"
#include "server.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

/* Where the rendezvous listens. */
struct hvd_endpoints {
	struct hvd_addr *addrs; /* at most HVD_MAX_ENDPOINTS (network.h) */
	size_t n;
	in_port_t port;
	/* Index of the host that the rendezvous runs on, whose own ranks reach it at any address; -1 when that is none
	 * of the job's hosts. */
	int32_t host;
	char machine[HVD_MACHINE_LEN + 1]; /* whose addresses they are (node.h) */
};

/* What the service tells of its TCPStore clients. */
struct hvd_rv_service_ops {
	void (*joined)(const struct hvd_rv_join *join, void *arg);
	/* The answer to hvd_rv_service_ask_waits(): lines, "" when nobody waits. */
	void (*waits)(const char *text, void *arg);
	/* The answer to hvd_rv_service_ask_changes(). */
	void (*changes)(uint64_t n, void *arg);
};

/* Zeroed: not open. Must not move while it is open. */
struct hvd_rv_service {
	struct hvd_rv *rv; /* the server; NULL while the service is not open */
	struct hvd_endpoints endpoints;
	/* Private: */
	struct hvd_rv_access *access;
	struct hvd_key session_key;
	bool tcpstore;
	const struct hvd_rv_service_ops *ops; /* NULL = nobody is told */
	void *arg;
	const struct hvd_log *log;
};

/* Before the service is opened: TCPStore clients are answered, and `ops`, which may be NULL and must outlive the
 * service, are told. */
void hvd_rv_service_tcpstore(struct hvd_rv_service *service, const struct hvd_rv_service_ops *ops, void *arg);

/* Start the server in this process, on all addresses of `self` at one port of lo … hi (0, 0: any port). `host` is the
 * index of this host in the job, or -1. On error the service is zero. `log` must outlive the service. */
int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, const struct hvd_key *session_key,
			const struct hvd_this_host *self, in_port_t lo, in_port_t hi, int32_t host,
			const struct hvd_log *log, struct hvd_err *err);
bool hvd_rv_service_is_open(const struct hvd_rv_service *service);
/* The service is zero after this. It may be zero before. */
void hvd_rv_service_close(struct hvd_rv_service *service);

/* Admit these addresses, and no others: connections from an address that was admitted before and is not among them are
 * closed. This host's own user may connect over loopback at any time. */
void hvd_rv_service_admit(struct hvd_rv_service *service, const struct hvd_addr *addrs, size_t n);
/* Relays are used, and no rank has started yet: close the service to all but them, and this host's own user over
 * loopback. What strangers may have stored until now is removed: all values but those of scopes that last
 * (hvd_rv_lasting()), which this process has put there. */
void hvd_rv_service_seclude(struct hvd_rv_service *service);
/* Only the relays of these hosts may be connected from now on (their numbers in the job). */
void hvd_rv_service_admit_relays(struct hvd_rv_service *service, const uint32_t *origins, size_t n);
/* What both ends of a connection between two relays prove: that they have the launch's key. */
void hvd_rv_service_relay_session(const struct hvd_key *session_key, const char *session_id,
				  struct hvd_session *session);
/* From now on listen on these addresses only. */
void hvd_rv_service_keep(struct hvd_rv_service *service, const struct hvd_addr *addrs, size_t n);
/* Say how many ranks there are, and how many meet in each of Horovod's scopes, so that a scope's values go when all of
 * its ranks have read them. */
void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *layout);

/* Ask what TCPStore clients wait for. ops->waits is called, at once or later, if the service is open. */
void hvd_rv_service_ask_waits(struct hvd_rv_service *service);
/* Ask how often what is stored was changed. ops->changes is called at once, if the service is open. */
void hvd_rv_service_ask_changes(struct hvd_rv_service *service);

/* The answer of this launch's server to a probe (HVD_RV_PROBE_PATH) that comes to one of its addresses: hex of an HMAC
 * over nonce, address and port, 2 * HVD_MAC_LEN + 1 bytes. A probe that was forwarded from another address or port gets
 * another answer. */
void hvd_rv_service_proof(const struct hvd_key *session_key, const char *nonce, const struct hvd_addr *addr,
			  in_port_t port, char *text);

#endif
