/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous_service.h"

#include "lib/base/xalloc.h"
#include "lib/rendezvous/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, const struct hvd_key *session_key,
			const struct hvd_addr *addrs, size_t n_addrs, in_port_t lo, in_port_t hi, int32_t host,
			const struct hvd_log *log, struct hvd_err *err)
{
	service->meeting = hvd_meeting_create(base, session_key, addrs, n_addrs, lo, hi, log, err);
	if (!service->meeting)
		return hvd_err_prefix(err, "cannot start the rendezvous server");
	service->endpoints.addrs = hvd_xcalloc(n_addrs, sizeof(*addrs));
	memcpy(service->endpoints.addrs, addrs, n_addrs * sizeof(*addrs));
	service->endpoints.n = n_addrs;
	service->endpoints.port = hvd_meeting_port(service->meeting);
	service->endpoints.host = host;
	return 0;
}

void hvd_rv_service_elsewhere(struct hvd_rv_service *service, struct hvd_conn *server, const struct hvd_node *first,
			      in_port_t port)
{
	struct hvd_endpoints *ep = &service->endpoints;
	const struct hvd_addr *addr;
	uint8_t iface;

	ep->addrs = hvd_xcalloc(HVD_MAX_ENDPOINTS, sizeof(*ep->addrs));
	hvd_addr_parse("127.0.0.1", &ep->addrs[ep->n++]);
	while (ep->n < HVD_MAX_ENDPOINTS && (addr = hvd_node_table_addr(first, ep->n - 1, &iface)))
		ep->addrs[ep->n++] = *addr;
	ep->port = port;
	ep->host = 0;
	memcpy(ep->machine, first->machine, sizeof(ep->machine));
	service->server = server;
}

void hvd_rv_service_close(struct hvd_rv_service *service)
{
	hvd_meeting_destroy(service->meeting);
	free(service->endpoints.addrs);
	memset(service, 0, sizeof(*service));
}

/* What `list` holds goes to the server elsewhere, if that is where it is. Takes the reference. */
static void tell(struct hvd_rv_service *service, const char *type, const char *key, json_t *list)
{
	if (service->server)
		hvd_conn_send(service->server, json_pack("{s:s, s:o}", "t", type, key, list));
	else
		json_decref(list);
}

static void list_addr(json_t *list, const struct hvd_addr *addr)
{
	char text[HVD_ADDR_TEXT];

	json_array_append_new(list, json_string(hvd_addr_text(addr, text)));
}

static size_t count_addrs(const struct hvd_node_table *roster)
{
	size_t n = 0;

	for (uint32_t h = 0; h < roster->n; h++)
		for (int i = 0; i < roster->nodes[h].n_ifaces; i++)
			n += (size_t)roster->nodes[h].ifaces[i].n_addrs;
	return n;
}

void hvd_rv_service_admit(struct hvd_rv_service *service, const struct hvd_node_table *roster)
{
	size_t room = count_addrs(roster), n = 0;
	struct hvd_addr *addrs = hvd_xcalloc(room, sizeof(*addrs));
	json_t *list;

	for (uint32_t h = 0; h < roster->n; h++)
		for (int i = 0; i < roster->nodes[h].n_ifaces; i++) {
			const struct hvd_node_iface *iface = &roster->nodes[h].ifaces[i];

			memcpy(&addrs[n], iface->addrs, (size_t)iface->n_addrs * sizeof(*addrs));
			n += (size_t)iface->n_addrs;
		}
	if (service->meeting)
		hvd_meeting_admit(service->meeting, addrs, n);
	if (service->server) {
		list = json_array();
		for (size_t i = 0; i < n; i++)
			list_addr(list, &addrs[i]);
		tell(service, "allow", "hosts", list);
	}
	free(addrs);
}

/* Here, or into the list that goes to the server elsewhere. */
static void set_size(struct hvd_rv_service *service, json_t *list, const char *scope, int members)
{
	if (service->meeting)
		hvd_rv_scope_size(hvd_meeting_server(service->meeting), scope, (size_t)members, NULL);
	if (service->server)
		json_array_append_new(list, json_pack("[si]", scope, members));
}

void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *l)
{
	json_t *list = json_array();
	char scope[300];

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
	tell(service, "size", "sizes", list);
}

void hvd_rv_service_settle(struct hvd_rv_service *service, const struct hvd_plan *plan,
			   const struct hvd_node_table *roster)
{
	const struct hvd_endpoints *ep = &service->endpoints;
	struct hvd_addr *kept = hvd_xcalloc(ep->n, sizeof(*kept));
	json_t *list = json_array();
	size_t n = 0;

	for (size_t i = 0; i < ep->n; i++)
		if (hvd_plan_uses(plan, roster, i)) {
			kept[n++] = ep->addrs[i];
			list_addr(list, &ep->addrs[i]);
		}
	if (service->meeting)
		hvd_meeting_keep(service->meeting, kept, n);
	tell(service, "keep", "addrs", list);
	hvd_rv_service_size(service, &plan->layout);
	free(kept);
}
