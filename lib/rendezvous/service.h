/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the rendezvous of one world of a launch: a server (server.h) that is set up for it.
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

/* What its owner is told. Each may be NULL. */
struct hvd_rv_service_ops {
	/* An init event of a TCPStore client. NULL: such clients are not served. */
	hvd_rv_init_fn *init_event;
	/* A rank of Horovod has stored its first value: its init() has begun. */
	void (*horovod)(void *arg);
};

/* Zeroed: not open. Must not move while it is open. */
struct hvd_rv_service {
	struct hvd_rv *rv; /* the server; NULL while the service is not open */
	/* Private: */
	const struct hvd_rv_service_ops *ops;
	void *arg;
};

/* Start the server of the world with this number in this process. `ops` and `log` must outlive the service. */
int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, unsigned world,
			const struct hvd_rv_service_ops *ops, void *arg, const struct hvd_log *log,
			struct hvd_err *err);
/* The service is zero after this. It may be zero before. */
void hvd_rv_service_close(struct hvd_rv_service *service);

/* What both ends of a connection between two relays prove: that they have the launch's key. */
void hvd_rv_service_relay_session(const struct hvd_key *session_key, const char *session_id,
				  struct hvd_session *session);
/* Set how many ranks there are, and how many rendezvous in each of Horovod's scopes, so that a scope's values are
 * removed when all of its ranks have read them. */
void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *layout);

/* Ask what TCPStore clients wait for, in at most `most` lines (hvd_rv_tcpstore_ask_waits()). `done` is called once, from
 * the event loop, or when the service is closed. False: the service is not open, and it is not called. */
#define HVD_RV_WAITS_FEW  32
#define HVD_RV_WAITS_MOST 1000 /* as many as fit into the message of a relay, if keys are short */
bool hvd_rv_service_ask_waits(struct hvd_rv_service *service, unsigned most, hvd_rv_waits_fn *done, void *arg);
/* How often the stored values have changed; 0 if TCPStore clients are not served. */
uint64_t hvd_rv_service_changes(const struct hvd_rv_service *service);

#endif
