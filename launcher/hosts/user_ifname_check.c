/* SPDX-License-Identifier: Apache-2.0 */
/* user_ifname_check.c - compares the variables with which users select interfaces with the networks of the plan. */
#include "lib/base/hostlist.h"
#include "lib/base/xalloc.h"
#include "planner.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXTS 8 /* different warnings about one variable; more are not worth the lines */

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
	char *good, *bad, *text;
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
		text = hvd_xasprintf("selects %s, which does not connect all hosts (%s does)", bad, good);
	else
		text = any ? hvd_xstrdup("") : hvd_xasprintf("selects nothing that connects all hosts (%s does)", good);
	free(good);
	free(bad);
	return text;
}

static void check_one(const struct hvd_network_plan *plan, const struct hvd_host_table *table,
		      enum hvd_user_ifname_var var, const struct hvd_log *log)
{
	char *texts[MAX_TEXTS] = {NULL};
	struct hvd_strv hosts[MAX_TEXTS] = {{0}};
	int n = 0;

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_host_info *node = &table->hosts[h].node;
		char *text, *what;
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
				texts[n++] = hvd_xstrdup(text);
		}
		free(what);
		free(text);
	}
	for (int i = 0; i < n; i++) {
		char *list = hvd_hostlist_compress(hosts[i].v, hosts[i].n);

		hvd_warn(log, "%s: %s", list, texts[i]);
		free(list);
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
