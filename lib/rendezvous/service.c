/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include "lib/protocol/conn.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hvd_rv_service_ask_waits(struct hvd_rv_service *service, unsigned most, hvd_rv_waits_fn *done, void *arg)
{
	if (!service->rv)
		return false;
	hvd_rv_tcpstore_ask_waits(service->rv, most, done, arg);
	return true;
}

uint64_t hvd_rv_service_changes(const struct hvd_rv_service *service)
{
	struct hvd_rv_stats stats;

	if (!service->rv || !service->ops->init_event)
		return 0;
	hvd_rv_stats(service->rv, &stats);
	return stats.store.changes;
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

int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, unsigned world,
			const struct hvd_rv_service_ops *ops, void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_rv_config cfg;

	hvd_rv_config_init(&cfg);
	cfg.channel = HVD_CHANNEL_STORE + world;
	cfg.tcpstore = ops->init_event;
	cfg.init_event = ops->init_event;
	cfg.horovod = ops->horovod;
	cfg.init_event_arg = cfg.horovod_arg = arg;
	*service = (struct hvd_rv_service){.rv = hvd_rv_create(base, &cfg, log, err), .ops = ops, .arg = arg};
	return service->rv ? 0 : hvd_err_prefix(err, "cannot start the rendezvous server");
}

void hvd_rv_service_close(struct hvd_rv_service *service)
{
	hvd_rv_destroy(service->rv);
	memset(service, 0, sizeof(*service));
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
