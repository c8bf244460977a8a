/* SPDX-License-Identifier: Apache-2.0 */
/* wanted_interfaces.c - leave of a host's interfaces and addresses those that the user wants (--network-interfaces). */
#include "host_table.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/net/nicspec.h"

#include <stdlib.h>
#include <string.h>

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
	struct hvd_strv list = {0};
	const char *name;
	char *text;
	int rc;

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
	rc = lacks_iface(node, "that matches ", text, err);
	free(text);
	hvd_strv_free(&list);
	return rc;
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
	struct hvd_nicspec spec;
	unsigned kept = 0, more = 0;

	if (hvd_nicspec_parse(&spec, nics, err) != 0)
		return -1;
	if (spec.n && check_nics(node, &spec, nics, err) != 0) {
		hvd_nicspec_clear(&spec);
		return -1;
	}
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
	hvd_nicspec_clear(&spec);
	return 0;
}
