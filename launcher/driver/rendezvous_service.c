/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous_service.h"

#include "lib/base/xalloc.h"
#include "lib/rendezvous/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hvd_venue_open(struct hvd_venue *venue, struct event_base *base, const struct hvd_key *session_key,
		   const struct hvd_addr *addrs, size_t n_addrs, in_port_t lo, in_port_t hi, int32_t host,
		   const struct hvd_log *log, struct hvd_err *err)
{
	venue->meeting = hvd_meeting_create(base, session_key, addrs, n_addrs, lo, hi, log, err);
	if (!venue->meeting)
		return hvd_err_prefix(err, "cannot start the rendezvous server");
	venue->endpoints.addrs = hvd_xcalloc(n_addrs, sizeof(*addrs));
	memcpy(venue->endpoints.addrs, addrs, n_addrs * sizeof(*addrs));
	venue->endpoints.n = n_addrs;
	venue->endpoints.port = hvd_meeting_port(venue->meeting);
	venue->endpoints.host = host;
	return 0;
}

void hvd_venue_elsewhere(struct hvd_venue *venue, struct hvd_conn *server, const struct hvd_node *first, in_port_t port)
{
	struct hvd_endpoints *ep = &venue->endpoints;
	const struct hvd_addr *addr;
	uint8_t iface;

	ep->addrs = hvd_xcalloc(HVD_MAX_ENDPOINTS, sizeof(*ep->addrs));
	hvd_addr_parse("127.0.0.1", &ep->addrs[ep->n++]);
	while (ep->n < HVD_MAX_ENDPOINTS && (addr = hvd_roster_addr(first, ep->n - 1, &iface)))
		ep->addrs[ep->n++] = *addr;
	ep->port = port;
	ep->host = 0;
	memcpy(ep->machine, first->machine, sizeof(ep->machine));
	venue->server = server;
}

void hvd_venue_close(struct hvd_venue *venue)
{
	hvd_meeting_destroy(venue->meeting);
	free(venue->endpoints.addrs);
	memset(venue, 0, sizeof(*venue));
}

/* What `list` holds goes to the server elsewhere, if that is where it is. Takes the reference. */
static void tell(struct hvd_venue *venue, const char *type, const char *key, json_t *list)
{
	if (venue->server)
		hvd_conn_send(venue->server, json_pack("{s:s, s:o}", "t", type, key, list));
	else
		json_decref(list);
}

static void list_addr(json_t *list, const struct hvd_addr *addr)
{
	char text[HVD_ADDR_TEXT];

	json_array_append_new(list, json_string(hvd_addr_text(addr, text)));
}

static size_t count_addrs(const struct hvd_roster *roster)
{
	size_t n = 0;

	for (uint32_t h = 0; h < roster->n; h++)
		for (int i = 0; i < roster->nodes[h].n_ifaces; i++)
			n += (size_t)roster->nodes[h].ifaces[i].n_addrs;
	return n;
}

void hvd_venue_admit(struct hvd_venue *venue, const struct hvd_roster *roster)
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
	if (venue->meeting)
		hvd_meeting_admit(venue->meeting, addrs, n);
	if (venue->server) {
		list = json_array();
		for (size_t i = 0; i < n; i++)
			list_addr(list, &addrs[i]);
		tell(venue, "allow", "hosts", list);
	}
	free(addrs);
}

/* Here, or into the list that goes to the server elsewhere. */
static void set_size(struct hvd_venue *venue, json_t *list, const char *scope, int members)
{
	if (venue->meeting)
		hvd_rv_scope_size(hvd_meeting_server(venue->meeting), scope, (size_t)members, NULL);
	if (venue->server)
		json_array_append_new(list, json_pack("[si]", scope, members));
}

void hvd_venue_size(struct hvd_venue *venue, const struct hvd_layout *l)
{
	json_t *list = json_array();
	char scope[300];

	set_size(venue, list, "global", l->size);
	for (int h = 0; h < l->n_hosts; h++) {
		snprintf(scope, sizeof(scope), "local_%s", l->hosts[h].name);
		set_size(venue, list, scope, l->hosts[h].n);
	}
	for (int r = 0; r < l->size; r++)
		if (l->places[r].cross_rank == 0) {
			snprintf(scope, sizeof(scope), "cross_%d", l->places[r].local_rank);
			set_size(venue, list, scope, l->places[r].cross_size);
		}
	tell(venue, "size", "sizes", list);
}

void hvd_venue_settle(struct hvd_venue *venue, const struct hvd_plan *plan, const struct hvd_roster *roster)
{
	const struct hvd_endpoints *ep = &venue->endpoints;
	struct hvd_addr *kept = hvd_xcalloc(ep->n, sizeof(*kept));
	json_t *list = json_array();
	size_t n = 0;

	for (size_t i = 0; i < ep->n; i++)
		if (hvd_plan_uses(plan, roster, i)) {
			kept[n++] = ep->addrs[i];
			list_addr(list, &ep->addrs[i]);
		}
	if (venue->meeting)
		hvd_meeting_keep(venue->meeting, kept, n);
	tell(venue, "keep", "addrs", list);
	hvd_venue_size(venue, &plan->layout);
	free(kept);
}
