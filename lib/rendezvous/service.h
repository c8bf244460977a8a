/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the rendezvous of one launch: a server (server.h) that is set up for the launch.
 *
 * It runs in the driver's process, and listens nowhere. Ranks reach it through the relays of their hosts, which use the
 * connections that hosts have to the driver (hvd_rv_child_share()), or those of other relays.
 */
#ifndef HVD_RENDEZVOUS_SERVICE_H
#define HVD_RENDEZVOUS_SERVICE_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/host/layout.h"
#include "lib/protocol/auth.h"
#include "lib/protocol/handshake.h"
#include "server.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

/* Events and answers that concern the service's TCPStore clients. */
struct hvd_rv_service_ops {
	void (*init_event)(const struct hvd_rv_init_event *join, void *arg);
	/* The answer to hvd_rv_service_ask_waits(): lines, "" when nobody waits. */
	void (*waits)(const char *text, void *arg);
	/* The answer to hvd_rv_service_ask_changes(). */
	void (*changes)(uint64_t n, void *arg);
};

/* Zeroed: not open. Must not move while it is open. */
struct hvd_rv_service {
	struct hvd_rv *rv; /* the server; NULL while the service is not open */
	/* Private: */
	bool tcpstore;
	const struct hvd_rv_service_ops *ops; /* NULL = there are none */
	void (*horovod)(void *arg);           /* NULL = nothing is to be called */
	void *arg;
	const struct hvd_log *log;
};

/* Before the service is opened: answer TCPStore clients, and call `ops`, which may be NULL and must outlive the
 * service. */
void hvd_rv_service_tcpstore(struct hvd_rv_service *service, const struct hvd_rv_service_ops *ops, void *arg);

/* Before the service is opened: call this for the values of Horovod's init(), with the same `arg`. */
void hvd_rv_service_horovod(struct hvd_rv_service *service, void (*horovod)(void *arg), void *arg);

/* Start the server in this process. On error the service is zero. `log` must outlive the service. */
int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, const struct hvd_log *log,
			struct hvd_err *err);
bool hvd_rv_service_is_open(const struct hvd_rv_service *service);
/* The service is zero after this. It may be zero before. */
void hvd_rv_service_close(struct hvd_rv_service *service);

/* Only the relays of these hosts may be connected from now on (their numbers in the job). */
void hvd_rv_service_admit_relays(struct hvd_rv_service *service, const uint32_t *relay_ids, size_t n);
/* What both ends of a connection between two relays prove: that they have the launch's key. */
void hvd_rv_service_relay_session(const struct hvd_key *session_key, const char *session_id,
				  struct hvd_session *session);
/* Set how many ranks there are, and how many rendezvous in each of Horovod's scopes, so that a scope's values are
 * removed when all of its ranks have read them. */
void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *layout);

/* Ask what TCPStore clients wait for. ops->waits is called, at once or later, if the service is open. */
void hvd_rv_service_ask_waits(struct hvd_rv_service *service);
/* Ask how often the stored values have changed. ops->changes is called at once, if the service is open. */
void hvd_rv_service_ask_changes(struct hvd_rv_service *service);

#endif
