/* SPDX-License-Identifier: Apache-2.0 */
#include "host_info.h"

#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"
#include "lib/protocol/worlds.h"
#include "switch_path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROPPED_MAX 4096 /* bytes of hvd_host_info.dropped: a host may have hundreds of virtual interfaces */

void hvd_host_info_clear(struct hvd_host_info *node)
{
	if (!node)
		return;
	free(node->name);
	free(node->host);
	free(node->ranks);
	for (int i = 0; i < node->n_ifaces; i++)
		free(node->ifaces[i].addrs);
	free(node->ifaces);
	for (int i = 0; i < HVD_N_USER_IFNAMES; i++)
		hvd_user_ifname_clear(&node->user_ifnames[i]);
	free(node->ports);
	free(node->role_ports);
	free(node->relays);
	free(node->own);
	free(node->dropped);
	free(node->switch_path);
	memset(node, 0, sizeof(*node));
}

void hvd_host_info_set_user_ifnames(struct hvd_host_info *node, char *const *envp)
{
	for (int i = 0; i < HVD_N_USER_IFNAMES; i++)
		hvd_user_ifname_find(hvd_user_ifname_name(i), envp, NULL, &node->user_ifnames[i]);
	if (node->user_ifnames[HVD_GLOO_IFNAME].value)
		node->user_ifnames[HVD_GLOO_IFNAME].missing =
			hvd_user_ifname_missing(node->user_ifnames[HVD_GLOO_IFNAME].value);
}

void hvd_host_info_dropped(struct hvd_host_info *node, char *more, bool before)
{
	char *have = node->dropped ? node->dropped : hvd_xstrdup("");
	const char *comma = *have ? ", " : "";

	node->dropped = hvd_xasprintf("%s%s%s", before ? more : have, comma, before ? have : more);
	free(more);
	free(have);
}

void hvd_host_info_set_ifaces(struct hvd_host_info *node, const struct hvd_ifaces *ifs)
{
	node->n_ifaces = (uint16_t)(ifs->n < HVD_HOST_MAX_IFACES ? ifs->n : HVD_HOST_MAX_IFACES);
	node->ifaces = hvd_xcalloc(node->n_ifaces, sizeof(*node->ifaces));
	for (int i = 0; i < node->n_ifaces; i++) {
		const struct hvd_iface *from = &ifs->v[i];
		struct hvd_host_iface *to = &node->ifaces[i];

		memcpy(to->name, from->name, sizeof(to->name));
		to->kind = (uint8_t)from->kind;
		to->numa = (int16_t)from->numa;
		to->speed = (int32_t)from->speed;
		to->ranking = hvd_iface_rank(from);
		to->n_addrs = (uint8_t)(from->n_addrs < HVD_HOST_MAX_ADDRS ? from->n_addrs : HVD_HOST_MAX_ADDRS);
		to->first = HVD_NO_ADDR;
		to->addrs = hvd_xcalloc(to->n_addrs, sizeof(*to->addrs));
		for (int a = 0; a < to->n_addrs; a++) {
			to->addrs[a] = from->addrs[a].addr;
			if (from->addrs[a].first)
				to->first = (uint8_t)a;
		}
	}
	node->n_own = (uint32_t)ifs->n_own;
	node->own = hvd_xcalloc(node->n_own, sizeof(*node->own));
	memcpy(node->own, ifs->own, node->n_own * sizeof(*node->own));
	for (int i = 0; i < ifs->n_dropped; i++) {
		if (node->dropped && strlen(node->dropped) > DROPPED_MAX / 2) {
			hvd_host_info_dropped(node, hvd_xasprintf("%d more", ifs->n_dropped - i), false);
			break;
		}
		hvd_host_info_dropped(node, hvd_xasprintf("%s (%s)", ifs->dropped[i].name, ifs->dropped[i].reason),
				      false);
	}
	if (ifs->n > HVD_HOST_MAX_IFACES)
		hvd_host_info_dropped(node,
				      hvd_xasprintf("%d slower ones (a host reports at most %d)",
						    ifs->n - HVD_HOST_MAX_IFACES, HVD_HOST_MAX_IFACES),
				      true);
}

static json_t *iface_to_json(const struct hvd_host_iface *iface)
{
	json_t *addrs = json_array();
	char text[HVD_ADDR_TEXT];

	for (int a = 0; a < iface->n_addrs; a++)
		json_array_append_new(addrs, json_string(hvd_addr_text(&iface->addrs[a], text)));
	return json_pack("{s:s, s:s, s:i, s:I, s:i, s:o, s:i}", "n", iface->name, "k", hvd_iface_kind_name(iface->kind),
			 "s", iface->speed, "r", (json_int_t)iface->ranking, "u", iface->numa, "a", addrs, "f",
			 iface->first);
}

static void add_ports(json_t *msg, const char *key, const in_port_t *ports, uint32_t n)
{
	json_t *list = n ? json_array() : NULL;

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(ports[i]));
	if (list)
		json_object_set_new(msg, key, list);
}

static void add_relay(json_t *part, const struct hvd_relay_ports *relay)
{
	json_object_set_new(part, "relay", json_integer(relay->loopback));
	if (relay->network)
		json_object_set_new(part, "relay_network", json_integer(relay->network));
	if (relay->children)
		json_object_set_new(part, "relay_children", json_integer(relay->children));
}

json_t *hvd_host_info_to_json(const struct hvd_host_info *node, uint32_t index, uint32_t nodes, uint32_t size)
{
	json_t *ranks = json_array(), *ifaces = json_array(), *user_ifnames = json_array(), *msg;

	for (uint32_t i = 0; i < node->n_ranks; i++)
		json_array_append_new(ranks, json_integer(node->ranks[i]));
	for (int i = 0; i < node->n_ifaces; i++)
		json_array_append_new(ifaces, iface_to_json(&node->ifaces[i]));
	for (int i = 0; i < HVD_N_USER_IFNAMES; i++)
		if (node->user_ifnames[i].value)
			json_array_append_new(user_ifnames,
					      json_pack("[ssss*]", hvd_user_ifname_name(i), node->user_ifnames[i].value,
							node->user_ifnames[i].source, node->user_ifnames[i].missing));
	msg = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:i, s:o, s:s}", "t", "register", "node",
			(json_int_t)index, "nodes", (json_int_t)nodes, "size", (json_int_t)size, "name", node->name,
			"host", node->host, "machine", node->machine, "ranks", ranks, "port", node->port, "ifaces",
			ifaces, "dropped", node->dropped ? node->dropped : "");
	if (json_array_size(user_ifnames))
		json_object_set(msg, "user_ifnames", user_ifnames);
	add_ports(msg, "ports", node->ports, node->n_ports);
	add_ports(msg, "role_ports", node->role_ports, node->n_role_ports);
	for (unsigned w = 0; w < node->n_relays; w++)
		add_relay(hvd_world_add_part(msg, w), &node->relays[w]);
	if (node->nccl_ras)
		json_object_set_new(msg, "nccl_ras", json_integer(node->nccl_ras));
	if (node->job)
		json_object_set_new(msg, "job", json_integer(node->job));
	if (node->switch_path)
		json_object_set_new(msg, "switch_path", json_string(node->switch_path));
	json_decref(user_ifnames);
	return msg;
}

static int iface_from_json(const json_t *msg, struct hvd_host_iface *iface, struct hvd_err *err)
{
	const char *name, *kind;
	int64_t speed, ranking, numa, first = 0;
	json_t *addrs;
	size_t n;

	if (hvd_get_str(msg, "n", IF_NAMESIZE - 1, &name, err) != 0 || hvd_get_str(msg, "k", 32, &kind, err) != 0 ||
	    hvd_get_int(msg, "s", -1, INT32_MAX, &speed, err) != 0 ||
	    hvd_get_int(msg, "r", INT64_MIN, INT64_MAX, &ranking, err) != 0 ||
	    hvd_get_int(msg, "u", -1, INT16_MAX, &numa, err) != 0 ||
	    hvd_get_array(msg, "a", HVD_HOST_MAX_ADDRS, &addrs, err) != 0 ||
	    (json_object_get(msg, "f") && hvd_get_int(msg, "f", 0, HVD_NO_ADDR, &first, err) != 0))
		return -1;
	if (hvd_iface_kind_of(kind) < 0)
		return hvd_err_set(err, HVD_E_PROTO, "interface %s is of unknown kind \"%s\"", name, kind);
	memcpy(iface->name, name, strlen(name) + 1);
	iface->kind = (uint8_t)hvd_iface_kind_of(kind);
	iface->speed = (int32_t)speed;
	iface->ranking = ranking;
	iface->numa = (int16_t)numa;
	n = json_array_size(addrs);
	iface->first = first < (int64_t)n ? (uint8_t)first : HVD_NO_ADDR;
	iface->addrs = hvd_xcalloc(n, sizeof(*iface->addrs));
	for (size_t i = 0; i < n; i++) {
		const char *text = json_string_value(json_array_get(addrs, i));

		if (!text || hvd_addr_parse(text, &iface->addrs[i]) != 0)
			return hvd_err_set(err, HVD_E_PROTO, "interface %s has a malformed address", name);
		iface->n_addrs++;
	}
	return 0;
}

static int user_ifnames_from_json(const json_t *list, struct hvd_host_info *node, struct hvd_err *err)
{
	const json_t *entry;
	size_t at;

	json_array_foreach(list, at, entry)
	{
		const char *text[4] = {NULL};

		for (size_t i = 0; i < 4 && i < json_array_size(entry); i++) {
			text[i] = json_string_value(json_array_get(entry, i));
			if (!text[i] || strlen(text[i]) > HVD_USER_IFNAME_MAX)
				return hvd_err_set(err, HVD_E_PROTO, "a variable of host %s is malformed", node->name);
		}
		if (!text[2])
			return hvd_err_set(err, HVD_E_PROTO, "a variable of host %s is malformed", node->name);
		for (int i = 0; i < HVD_N_USER_IFNAMES; i++)
			if (!node->user_ifnames[i].value && strcmp(text[0], hvd_user_ifname_name(i)) == 0) {
				node->user_ifnames[i].value = hvd_xstrdup(text[1]);
				node->user_ifnames[i].source = hvd_xstrdup(text[2]);
				node->user_ifnames[i].missing = text[3] ? hvd_xstrdup(text[3]) : NULL;
			}
	}
	return 0;
}

static int ports_from_json(const json_t *msg, const char *key, const char *host, in_port_t **ports, uint32_t *count,
			   struct hvd_err *err)
{
	json_t *list;
	size_t n;

	if (!json_object_get(msg, key))
		return 0;
	if (hvd_get_array(msg, key, HVD_HOST_MAX_PORTS, &list, err) != 0)
		return -1;
	n = json_array_size(list);
	*ports = hvd_xcalloc(n, sizeof(**ports));
	for (size_t i = 0; i < n; i++) {
		const json_t *port = json_array_get(list, i);

		if (!json_is_integer(port) || json_integer_value(port) < 1 || json_integer_value(port) > 65535)
			return hvd_err_set(err, HVD_E_PROTO, "host %s sent an invalid port", host);
		(*ports)[(*count)++] = (in_port_t)json_integer_value(port);
	}
	return 0;
}

static int relay_from_json(const json_t *part, struct hvd_relay_ports *relay, struct hvd_err *err)
{
	int64_t port, network = 0, children = 0;

	if (hvd_get_int(part, "relay", 0, 65535, &port, err) != 0 ||
	    (json_object_get(part, "relay_network") &&
	     hvd_get_int(part, "relay_network", 1, 65535, &network, err) != 0) ||
	    (json_object_get(part, "relay_children") &&
	     hvd_get_int(part, "relay_children", 1, 65535, &children, err) != 0))
		return -1;
	*relay = (struct hvd_relay_ports){(in_port_t)port, (in_port_t)network, (in_port_t)children};
	return 0;
}

static int relays_from_json(const json_t *msg, struct hvd_host_info *node, struct hvd_err *err)
{
	const unsigned n = hvd_world_parts(msg);

	node->relays = hvd_xcalloc(n, sizeof(*node->relays));
	for (; node->n_relays < n; node->n_relays++)
		if (relay_from_json(hvd_world_part(msg, node->n_relays), &node->relays[node->n_relays], err) != 0)
			return -1;
	return 0;
}

static int numbers_from_json(const json_t *msg, struct hvd_host_info *node, struct hvd_err *err)
{
	int64_t job = 0, nccl_ras = 0;

	if ((json_object_get(msg, "job") && hvd_get_int(msg, "job", 1, UINT32_MAX, &job, err) != 0) ||
	    (json_object_get(msg, "nccl_ras") && hvd_get_int(msg, "nccl_ras", 1, 65535, &nccl_ras, err) != 0))
		return -1;
	node->job = (uint32_t)job;
	node->nccl_ras = (in_port_t)nccl_ras;
	return 0;
}

/* A malformed path would make a host look near or far that is not. */
static int switch_path_from_json(const json_t *msg, struct hvd_host_info *node, struct hvd_err *err)
{
	const char *path;

	if (!json_object_get(msg, "switch_path"))
		return 0;
	if (hvd_get_str(msg, "switch_path", HVD_SWITCH_PATH_MAX, &path, err) != 0)
		return -1;
	if (!hvd_switch_path_valid(path))
		return hvd_err_set(err, HVD_E_PROTO, "host %s sent an invalid place in the topology", node->name);
	node->switch_path = hvd_xstrdup(path);
	return 0;
}

static int from_json(const json_t *msg, struct hvd_host_info *node, struct hvd_err *err)
{
	const char *name, *host, *machine, *dropped;
	json_t *ranks, *ifaces;
	int64_t port;
	size_t n;

	if (hvd_get_str(msg, "name", 255, &name, err) != 0 || hvd_get_str(msg, "host", 255, &host, err) != 0 ||
	    hvd_get_str(msg, "machine", HVD_MACHINE_LEN, &machine, err) != 0 ||
	    hvd_get_str(msg, "dropped", DROPPED_MAX, &dropped, err) != 0 ||
	    hvd_get_array(msg, "ranks", HVD_MAX_RANKS, &ranks, err) != 0 ||
	    hvd_get_array(msg, "ifaces", HVD_HOST_MAX_IFACES, &ifaces, err) != 0 ||
	    hvd_get_int(msg, "port", 0, 65535, &port, err) != 0)
		return -1;
	if (!*name)
		return hvd_err_set(err, HVD_E_PROTO, "a host without a name");
	node->name = hvd_xstrdup(name);
	node->host = hvd_xstrdup(host);
	node->dropped = *dropped ? hvd_xstrdup(dropped) : NULL;
	node->port = (in_port_t)port;
	memcpy(node->machine, machine, strlen(machine) + 1);
	n = json_array_size(ranks);
	node->ranks = hvd_xcalloc(n, sizeof(*node->ranks));
	for (size_t i = 0; i < n; i++) {
		const json_t *rank = json_array_get(ranks, i);

		if (!json_is_integer(rank) || json_integer_value(rank) < 0 || json_integer_value(rank) >= HVD_MAX_RANKS)
			return hvd_err_set(err, HVD_E_PROTO, "host %s sent an invalid rank", name);
		node->ranks[node->n_ranks++] = (uint32_t)json_integer_value(rank);
	}
	n = json_array_size(ifaces);
	node->ifaces = hvd_xcalloc(n, sizeof(*node->ifaces));
	for (size_t i = 0; i < n; i++) {
		node->n_ifaces++;
		if (iface_from_json(json_array_get(ifaces, i), &node->ifaces[i], err) != 0)
			return -1;
	}
	if (ports_from_json(msg, "ports", name, &node->ports, &node->n_ports, err) != 0 ||
	    ports_from_json(msg, "role_ports", name, &node->role_ports, &node->n_role_ports, err) != 0 ||
	    relays_from_json(msg, node, err) != 0 || numbers_from_json(msg, node, err) != 0 ||
	    switch_path_from_json(msg, node, err) != 0)
		return -1;
	return user_ifnames_from_json(json_object_get(msg, "user_ifnames"), node, err);
}

int hvd_host_info_from_json(const json_t *msg, struct hvd_host_info *node, struct hvd_err *err)
{
	memset(node, 0, sizeof(*node));
	if (from_json(msg, node, err) == 0)
		return 0;
	hvd_host_info_clear(node);
	return -1;
}

struct hvd_relay_ports hvd_host_info_relay(const struct hvd_host_info *node, unsigned world)
{
	return world < node->n_relays ? node->relays[world] : (struct hvd_relay_ports){0};
}

int hvd_host_info_find_iface(const struct hvd_host_info *node, const char *name)
{
	for (int i = 0; i < node->n_ifaces; i++)
		if (strcmp(node->ifaces[i].name, name) == 0)
			return i;
	return -1;
}

int hvd_host_info_find_addr(const struct hvd_host_info *node, const struct hvd_addr *addr)
{
	for (int i = 0; i < node->n_ifaces; i++)
		for (int a = 0; a < node->ifaces[i].n_addrs; a++)
			if (hvd_addr_equal(&node->ifaces[i].addrs[a], addr))
				return i;
	return -1;
}

bool hvd_host_info_owns(const struct hvd_host_info *node, const struct hvd_addr *addr)
{
	for (uint32_t i = 0; i < node->n_own; i++)
		if (hvd_addr_equal(&node->own[i], addr))
			return true;
	return hvd_addr_loopback(addr) || hvd_host_info_find_addr(node, addr) >= 0;
}

bool hvd_host_info_has_family(const struct hvd_host_iface *iface, int family)
{
	for (int a = 0; a < iface->n_addrs; a++)
		if (iface->addrs[a].family == family)
			return true;
	return false;
}

char *hvd_host_info_ifaces_text(const struct hvd_host_info *node)
{
	char *out = hvd_xstrdup(node->n_ifaces ? "" : "no interface");
	char text[HVD_ADDR_TEXT], speed[32], numa[32];

	for (int i = 0; i < node->n_ifaces; i++) {
		const struct hvd_host_iface *iface = &node->ifaces[i];

		speed[0] = numa[0] = '\0';
		if (iface->speed > 0)
			snprintf(speed, sizeof(speed), ", %d Mb/s", iface->speed);
		if (iface->numa >= 0)
			snprintf(numa, sizeof(numa), ", NUMA node %d", iface->numa);
		hvd_xappendf(&out, "%s%s (%s%s%s)", i ? "; " : "", iface->name, hvd_iface_kind_name(iface->kind), speed,
			     numa);
		for (int a = 0; a < iface->n_addrs; a++)
			hvd_xappendf(&out, " %s", hvd_addr_text(&iface->addrs[a], text));
	}
	return out;
}
