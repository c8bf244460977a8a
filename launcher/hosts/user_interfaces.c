/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_interfaces.c - the interfaces that users name: --network-interfaces leaves a host those that are wanted, and the
 * variables with which users select some are compared with the networks of the plan.
 */
#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/net/nicspec.h"
#include "planner.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXTS 8 /* different warnings about one variable; more are not worth the lines */

/* ---- --network-interfaces ---- */

static int lacks_iface(const struct hvd_host_info *node, const char *what, const char *name, struct hvd_err *err)
{
	hvd_cleanup_free char *have = hvd_host_info_ifaces_text(node);

	hvd_err_set(err, HVD_E_USAGE, "there is no usable interface %s%s there, only %s%s%s", what, name, have,
		    node->dropped ? "; left out: " : "", node->dropped ? node->dropped : "");
	hvd_err_hint(err, "name interfaces that every host has, by name, pattern (ib*), subnet (10.1.0.0/16) or "
			  "exclusion (^docker0); or leave the option out to detect them");
	return hvd_err_host(err, node->name);
}

static int check_nics(const struct hvd_host_info *node, const struct hvd_nicspec *spec, char *const *nics,
		      struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv list = {0};
	hvd_cleanup_free char *text = NULL;
	const char *name;

	for (size_t i = 0; (name = hvd_nicspec_name(spec, i)); i++)
		if (strcmp(name, "lo") != 0 && hvd_host_info_find_iface(node, name) < 0)
			return lacks_iface(node, "", name, err);
	if (hvd_nicspec_wants(spec, "lo", NULL))
		return 0;
	for (int i = 0; i < node->n_ifaces; i++)
		for (int a = 0; a < node->ifaces[i].n_addrs; a++)
			if (hvd_nicspec_wants(spec, node->ifaces[i].name, &node->ifaces[i].addrs[a]))
				return 0;
	hvd_strv_add_all(&list, nics);
	text = hvd_strv_join(&list, ",");
	return lacks_iface(node, "that matches ", text, err);
}

/* Connections of the host's processes may come from it all the same. */
static void drop_addr(struct hvd_host_info *node, const struct hvd_addr *addr)
{
	node->own = hvd_xrealloc(node->own, node->n_own + 1, sizeof(*node->own));
	node->own[node->n_own++] = *addr;
}

/* Leave an interface the addresses that are wanted. False when none is. */
static bool keep_addrs(struct hvd_host_info *node, struct hvd_host_iface *iface, const struct hvd_nicspec *spec)
{
	uint8_t kept = 0, first = HVD_NO_ADDR;

	for (uint8_t a = 0; a < iface->n_addrs; a++) {
		if (!hvd_nicspec_wants(spec, iface->name, &iface->addrs[a])) {
			drop_addr(node, &iface->addrs[a]);
			continue;
		}
		if (a == iface->first)
			first = kept;
		iface->addrs[kept++] = iface->addrs[a];
	}
	iface->n_addrs = kept;
	iface->first = first;
	return kept > 0;
}

int hvd_host_table_restrict(struct hvd_host_table *table, uint32_t index, char *const *nics, struct hvd_err *err)
{
	struct hvd_host_info *node = &table->hosts[index].node;
	struct hvd_host_entry *state = &table->hosts[index];
	HVD_CLEANUP(hvd_nicspec_clear) struct hvd_nicspec spec = {0};
	unsigned kept = 0, more = 0;

	if (hvd_nicspec_parse(&spec, nics, err) != 0 || (spec.n && check_nics(node, &spec, nics, err) != 0))
		return -1;
	state->named = spec.n > 0;
	state->loopback = hvd_nicspec_wants(&spec, "lo", NULL);
	state->n_kept = node->n_ifaces;
	state->kept = hvd_xcalloc(node->n_ifaces, 1);
	for (int i = 0; i < node->n_ifaces; i++) {
		bool wanted = !spec.n || keep_addrs(node, &node->ifaces[i], &spec);

		more += wanted && kept == HVD_MAX_NICS;
		wanted = wanted && kept < HVD_MAX_NICS;
		for (int a = 0; !wanted && a < node->ifaces[i].n_addrs; a++)
			drop_addr(node, &node->ifaces[i].addrs[a]);
		state->kept[i] = wanted ? (uint8_t)kept : HVD_NO_IFACE;
		if (wanted)
			node->ifaces[kept++] = node->ifaces[i];
		else
			free(node->ifaces[i].addrs);
	}
	node->n_ifaces = (uint16_t)kept;
	if (more)
		hvd_host_info_dropped(
			node, hvd_xasprintf("%u slower than the first %d; name them to use them", more, HVD_MAX_NICS),
			true);
	table->ipv6 = hvd_nicspec_ipv6(&spec);
	return 0;
}

/* ---- variables that select interfaces ---- */

static bool connects(const struct hvd_network_plan *plan, uint32_t h, int iface)
{
	for (int i = 0; i < plan->networks.n; i++)
		if (plan->networks.v[i].iface[h] == iface && plan->networks.v[i].by_name == plan->networks.v[0].by_name)
			return true;
	return false;
}

/* The warning about a host's variable, without the host's name; "" for none. Caller frees. */
static char *say(const struct hvd_network_plan *plan, const struct hvd_host_info *node, uint32_t h,
		 enum hvd_user_ifname_var var)
{
	hvd_cleanup_free char *good = NULL, *bad = NULL;
	bool any = false;

	if (node->user_ifnames[var].missing)
		return hvd_xasprintf("names %s, which no interface with an address has there: Gloo will fail",
				     node->user_ifnames[var].missing);
	if (plan->local)
		return hvd_xstrdup("");
	good = hvd_xstrdup("");
	bad = hvd_xstrdup("");
	for (int i = 0; i < node->n_ifaces; i++) {
		bool selected = hvd_user_ifname_selects(node->user_ifnames[var].value, var, node->ifaces[i].name);

		if (connects(plan, h, i)) {
			hvd_xappendf(&good, "%s%s", *good ? ", " : "", node->ifaces[i].name);
			any = any || selected;
		} else if (selected) {
			hvd_xappendf(&bad, "%s%s", *bad ? ", " : "", node->ifaces[i].name);
		}
	}
	if (*bad)
		return hvd_xasprintf("selects %s, which does not connect all hosts (%s does)", bad, good);
	return any ? hvd_xstrdup("") : hvd_xasprintf("selects nothing that connects all hosts (%s does)", good);
}

static void check_one(const struct hvd_network_plan *plan, const struct hvd_host_table *table,
		      enum hvd_user_ifname_var var, const struct hvd_log *log)
{
	char *texts[MAX_TEXTS] = {NULL};
	struct hvd_strv hosts[MAX_TEXTS] = {{0}};
	int n = 0;

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_host_info *node = &table->hosts[h].node;
		hvd_cleanup_free char *text = NULL, *what = NULL;
		int i = 0;

		if (!node->name || !node->user_ifnames[var].value)
			continue;
		what = say(plan, node, h, var);
		text = hvd_xasprintf("%s=%s (from %s) %s", hvd_user_ifname_name(var), node->user_ifnames[var].value,
				     node->user_ifnames[var].source, *what ? what : "is left unchanged");
		if (!*what)
			hvd_verbose(log, "%s: %s", node->name, text);
		while (*what && i < n && strcmp(texts[i], text) != 0)
			i++;
		if (*what && i < MAX_TEXTS) {
			hvd_strv_add(&hosts[i], node->name);
			if (i == n)
				texts[n++] = hvd_take_ptr(&text);
		}
	}
	for (int i = 0; i < n; i++) {
		hvd_cleanup_free char *list = hvd_hostlist_compress(hosts[i].v, hosts[i].n);

		hvd_warn(log, "%s: %s", list, texts[i]);
		free(texts[i]);
		hvd_strv_free(&hosts[i]);
	}
}

void hvd_network_plan_check_user_ifnames(const struct hvd_network_plan *plan, const struct hvd_host_table *table,
					 const struct hvd_log *log)
{
	for (int i = 0; i < HVD_N_USER_IFNAMES; i++)
		check_one(plan, table, i, log);
}
