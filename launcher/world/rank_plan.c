/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_plan.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/emit.h"
#include "lib/frameworks/emit_roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a list of workers: Linux passes no string of more than 128 KB to a program. */
#define TF_CONFIG_MAX (100 * 1024)
/* Bytes of the lists for all ranks of a host, which are in one message (HVD_WIRE_MAX). */
#define TF_PLANS_MAX (6 * 1024 * 1024)

/* ---- networks and ports ---- */

/* "ib0,eth0": this host's interface in each network of the same family as the first one; IPv6 over an interface says
 * nothing about its IPv4. Caller frees. */
static char *iface_list(const struct hvd_network_plan *plan, const struct hvd_host_info *node, uint32_t h)
{
	char *list = hvd_xstrdup("");

	for (int i = 0; i < plan->networks.n; i++) {
		const struct hvd_network *network = &plan->networks.v[i];
		bool skip = network->family != plan->networks.v[0].family ||
			    network->by_name != plan->networks.v[0].by_name;

		for (int k = 0; k < i; k++)
			skip |= plan->networks.v[k].iface[h] == network->iface[h];
		if (!skip)
			hvd_xappendf(&list, "%s%s", *list ? "," : "", node->ifaces[network->iface[h]].name);
	}
	return list;
}

/* The same where all ranks are on one machine: loopback, unless the user wants other interfaces. */
static char *local_list(const struct hvd_host_entry *host)
{
	char *list = hvd_xstrdup(host->named && !host->loopback ? "" : "lo");

	for (int i = 0; host->named && i < host->node.n_ifaces; i++)
		hvd_xappendf(&list, "%s%s", *list ? "," : "", host->node.ifaces[i].name);
	return list;
}

/* Ranks of Horovod's elastic jobs keep their processes while their numbers change, which variables cannot. */
static unsigned wanted(const struct hvd_launch_spec *spec)
{
	bool changing = spec->elastic.on && spec->max_restarts < 0;

	return changing ? spec->frameworks & HVD_FW_HOROVOD : spec->frameworks;
}

static bool wants_port(const struct hvd_launch_spec *spec, enum hvd_rank0_port port)
{
	if (port == HVD_PORT_JAX)
		return wanted(spec) & HVD_FW_JAX;
	return spec->store == HVD_STORE_RANK0 && hvd_emit_wants_store(wanted(spec));
}

/* Each rank is a server of TensorFlow. */
static unsigned ports_of_each(const struct hvd_launch_spec *spec)
{
	return wanted(spec) & HVD_FW_TENSORFLOW && !spec->elastic.on ? 1 : 0;
}

void hvd_rank_plan_add_ports(struct hvd_rank_plan *plan, struct hvd_rank_ports *ports)
{
	const struct hvd_launch_spec *spec = plan->opts->spec;

	plan->ports_before = *ports;
	ports->stores += wants_port(spec, HVD_PORT_STORE);
	ports->others += wants_port(spec, HVD_PORT_JAX);
	ports->each += ports_of_each(spec);
	ports->roles += plan->opts->role_ports.each * plan->opts->role_ports.ranks;
}

in_port_t hvd_rank_plan_port(const struct hvd_rank_plan *plan, uint32_t host, int local_rank, unsigned i)
{
	const struct hvd_host_info *node = host < plan->table->n ? &plan->table->hosts[host].node : NULL;
	const unsigned each = plan->opts->role_ports.each, rank = (unsigned)local_rank;
	const unsigned at = plan->ports_before.roles + rank * each + i;

	return node && rank < plan->opts->role_ports.ranks && i < each && at < node->n_role_ports ? node->role_ports[at]
												  : 0;
}

/* The ports that the host of rank 0 has reserved for it; 0: none. */
static void rank0_ports(const struct hvd_rank_plan *plan, const struct hvd_host_info *node,
			in_port_t ports[HVD_N_RANK0_PORTS])
{
	const uint32_t at[] = {[HVD_PORT_STORE] = plan->ports_before.stores,
			       [HVD_PORT_JAX] = plan->ports.stores + plan->ports_before.others};

	_Static_assert(sizeof(at) / sizeof(at[0]) == HVD_N_RANK0_PORTS, "a place for each");
	for (int i = 0; i < HVD_N_RANK0_PORTS; i++)
		ports[i] = wants_port(plan->opts->spec, (enum hvd_rank0_port)i) && at[i] < node->n_ports
				   ? node->ports[at[i]]
				   : 0;
}

static int no_port(const struct hvd_host_info *node, const char *what, struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_NET, "no port could be reserved there for %s", what);
	hvd_err_hint(err, "are all ports of the range that the site has set (SrunPortRange) in use?");
	return hvd_err_host(err, node->name);
}

/* The list for TF_CONFIG, in memory for the longest address and port that ranks may have. `everywhere`: all hosts have
 * reserved the ports of rank 0, and not only its own. */
static int list_workers(struct hvd_rank_plan *plan, bool everywhere, struct hvd_err *err)
{
	const unsigned ports = plan->ports.stores + plan->ports.others;
	size_t room = (size_t)plan->layout.size * (HVD_ADDR_TEXT + sizeof("\"[]:65535\", ")), len = 0;
	uint32_t rank0 = (uint32_t)plan->layout.rank_slots[0].host;
	char *list = hvd_xcalloc(room + 1, 1), text[HVD_ADDR_TEXT];
	int most = 1;

	for (int r = 0; r < plan->layout.size; r++) {
		const struct hvd_rank_slot *slot = &plan->layout.rank_slots[r];
		const struct hvd_host_info *node = &plan->table->hosts[slot->host].node;
		uint32_t at = ((uint32_t)slot->host == rank0 || everywhere ? ports : 0) + (uint32_t)slot->local_rank;
		struct hvd_addr addr = hvd_network_plan_addr(plan->networks, plan->table, (uint32_t)slot->host);

		if (slot->local_size > most)
			most = slot->local_size;
		if (at >= node->n_ports) {
			free(list);
			return no_port(node, "TensorFlow's server in each rank", err);
		}
		len += (size_t)snprintf(list + len, room + 1 - len,
					addr.family == AF_INET6 ? "%s\"[%s]:%u\"" : "%s\"%s:%u\"", r ? ", " : "",
					hvd_addr_text(&addr, text), node->ports[at]);
	}
	plan->tf_workers = list;
	if (len <= TF_CONFIG_MAX && len * (size_t)most <= TF_PLANS_MAX)
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "TF_CONFIG is too long for a job of %d ranks, %d of them on one host: %zu KB for each rank",
		    plan->layout.size, most, len / 1024);
	return hvd_err_hint(
		err, "leave tensorflow out of --hvd-frameworks, and set the addresses of its workers in the program");
}

int hvd_rank_plan_servers(struct hvd_rank_plan *plan, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = plan->opts->spec;
	const struct hvd_host_info *first = &plan->table->hosts[plan->layout.rank_slots[0].host].node;
	in_port_t found[HVD_N_RANK0_PORTS] = {0};

	rank0_ports(plan, first, found);
	if (wants_port(spec, HVD_PORT_STORE) && !found[HVD_PORT_STORE])
		return no_port(first, "--store=rank0", err);
	return ports_of_each(spec) ? list_workers(plan, spec->spares > 0, err) : 0;
}

/* ---- the rendezvous ---- */

static struct hvd_relay_ports ports_of(const struct hvd_rank_plan *plan, uint32_t host)
{
	return hvd_host_info_relay(&plan->table->hosts[host].node, plan->relays.world);
}

in_port_t hvd_rank_plan_rendezvous(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_addr *addr)
{
	hvd_addr_parse("127.0.0.1", addr);
	return hvd_relays_at(&plan->relays, host) ? ports_of(plan, host).loopback : 0;
}

int32_t hvd_rank_plan_open_relay(const struct hvd_rank_plan *plan)
{
	uint32_t rank0;

	if (!plan->relays.network || plan->networks->local || plan->layout.size == 0)
		return -1;
	rank0 = (uint32_t)plan->layout.rank_slots[0].host;
	return hvd_relays_at(&plan->relays, rank0) && ports_of(plan, rank0).network ? (int32_t)rank0 : -1;
}

in_port_t hvd_rank_plan_store(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_addr *addr)
{
	int32_t open = hvd_rank_plan_open_relay(plan);

	if (open < 0)
		return hvd_rank_plan_rendezvous(plan, host, addr);
	*addr = hvd_network_plan_addr(plan->networks, plan->table, (uint32_t)open);
	return ports_of(plan, (uint32_t)open).network;
}

static void add_addr(json_t *list, const struct hvd_addr *addr)
{
	char text[HVD_ADDR_TEXT];

	json_array_append_new(list, json_string(hvd_addr_text(addr, text)));
}

json_t *hvd_rank_plan_host_addrs(const struct hvd_rank_plan *plan)
{
	const bool all = plan->job_store != 0;
	const int n = all ? (int)plan->table->n : plan->layout.n_hosts;
	json_t *list = json_array();

	for (int h = 0; h < n; h++) {
		const struct hvd_host_info *node = &plan->table->hosts[h].node;

		if (!all && plan->layout.hosts[h].n == 0)
			continue;
		for (int i = 0; i < node->n_ifaces; i++)
			for (int a = 0; a < node->ifaces[i].n_addrs; a++)
				add_addr(list, &node->ifaces[i].addrs[a]);
		for (uint32_t i = 0; i < node->n_own; i++)
			add_addr(list, &node->own[i]);
	}
	return list;
}

json_t *hvd_rank_plan_relay(const struct hvd_rank_plan *plan, uint32_t host)
{
	const struct hvd_relay_place *place;
	struct hvd_addr addr;
	json_t *relay;
	char text[HVD_ADDR_TEXT];

	if (!hvd_relays_at(&plan->relays, host))
		return NULL;
	place = &plan->relays.place[host];
	addr = hvd_network_plan_addr(plan->networks, plan->table, host);
	relay = json_pack("{s:I, s:s, s:b}", "relay_id", (json_int_t)place->relay_id, "addr",
			  hvd_addr_text(&addr, text), "children", place->children > 0);
	if (place->parent >= 0) {
		json_object_set_new(relay, "up",
				    hvd_network_plan_addrs(plan->networks, plan->table, (uint32_t)place->parent));
		json_object_set_new(relay, "port", json_integer(ports_of(plan, (uint32_t)place->parent).children));
	}
	/* In an elastic job nobody is rank 0 yet. */
	if (plan->networks->elastic && plan->relays.network)
		json_object_set_new(relay, "network", json_array());
	else if (hvd_rank_plan_open_relay(plan) == (int32_t)host)
		json_object_set_new(relay, "network", hvd_rank_plan_host_addrs(plan));
	return relay;
}

/* ---- variables ---- */

static void add_env(struct hvd_strv *env, const char *prefix, const char *name, const char *value)
{
	hvd_strv_addf(env, "%s_%s=%s", prefix, name, value);
}

/* The address of the rendezvous, and the rank's own, whatever its framework. */
static void add_rendezvous(struct hvd_strv *env, const char *prefix, const struct hvd_emit *in, const char *host)
{
	char text[HVD_ADDR_TEXT], number[16];

	add_env(env, prefix, "ADDR", hvd_addr_text(&in->rendezvous, text));
	snprintf(number, sizeof(number), "%u", in->port);
	add_env(env, prefix, "PORT", number);
	snprintf(number, sizeof(number), "%d", in->slot->rank);
	add_env(env, prefix, "RANK", number);
	add_env(env, prefix, "HOST", host);
}

/* Those that are reserved for the rank alone. */
static void add_own_ports(struct hvd_strv *env, const struct hvd_rank_plan *plan, const struct hvd_rank_slot *slot)
{
	hvd_cleanup_free char *list = hvd_xstrdup("");
	in_port_t port;

	for (unsigned i = 0; (port = hvd_rank_plan_port(plan, (uint32_t)slot->host, slot->local_rank, i)); i++)
		hvd_xappendf(&list, "%s%u", i ? "," : "", port);
	if (*list)
		hvd_env_set(env, "HVD_PORTS", list);
}

/* Is this host in a Slurm job whose numbers are not those of the ranks? They are not where agents or an mpirun start them, and
 * where there are tasks on spare hosts. */
static bool slurm_differs(const struct hvd_rank_plan *plan, const struct hvd_host_info *node)
{
	return node->job &&
	       (plan->opts->mode == HVD_START_HOSTS || plan->opts->spec->spares > 0 || plan->networks->mpi);
}

json_t *hvd_rank_plan_env(const struct hvd_rank_plan *plan, uint32_t rank)
{
	const struct hvd_driver_opts *opts = plan->opts;
	const struct hvd_rank_slot *slot = &plan->layout.rank_slots[rank];
	uint32_t h = (uint32_t)slot->host;
	/* Each host has a local rank 0: the cross rank of that one counts hosts. */
	const struct hvd_rank_slot *first_here = &plan->layout.rank_slots[plan->layout.hosts[h].ranks[0]];
	const struct hvd_host_info *node = &plan->table->hosts[h].node;
	char *list = plan->networks->local ? local_list(&plan->table->hosts[h]) : iface_list(plan->networks, node, h);
	char *first = hvd_xstrndup(list, strcspn(list, ","));
	struct hvd_emit in = {
		.frameworks = wanted(opts->spec),
		.store = opts->spec->store,
		.restarts = plan->restarts,
		.run_id = plan->run_id,
		.max_restarts = opts->spec->elastic.on ? opts->spec->max_restarts : -1,
		.mpi = plan->networks->mpi,
		.one_machine = plan->networks->local,
		.slurm = slurm_differs(plan, node),
		.slot = slot,
		.host_rank = first_here->cross_rank,
		.hosts = first_here->cross_size,
		.hostname = node->name,
		.iface = first,
		.ifaces = list,
		.tf_workers = plan->tf_workers,
		.here = hvd_network_plan_addr(plan->networks, plan->table, h),
		.nccl_ras = node->nccl_ras,
	};
	uint32_t rank0 = (uint32_t)plan->layout.rank_slots[0].host;
	struct hvd_strv env = {0};
	json_t *out = json_object();

	in.port = hvd_rank_plan_rendezvous(plan, h, &in.rendezvous);
	in.store_port = hvd_rank_plan_store(plan, h, &in.store_addr);
	in.rank0 = hvd_network_plan_addr(plan->networks, plan->table, rank0);
	rank0_ports(plan, &plan->table->hosts[rank0].node, in.rank0_ports);
	hvd_emit_all(&in, &env);
	add_own_ports(&env, plan, slot);
	hvd_emit_job_store(plan->job_store ? hvd_host_info_relay(node, plan->job_store).loopback : 0, &env);
	hvd_strv_add_all(&env, opts->spec->env.v);
	hvd_strv_add_all(&env, opts->extra_env.v);
	if (opts->rendezvous_env)
		add_rendezvous(&env, opts->rendezvous_env, &in, plan->layout.hosts[h].name);
	for (size_t i = 0; i < env.n; i++) {
		char *value = strchr(env.v[i], '=');

		*value = '\0';
		json_object_set_new(out, env.v[i], json_string(value + 1));
	}
	hvd_strv_free(&env);
	free(first);
	free(list);
	return out;
}

void hvd_rank_plan_clear(struct hvd_rank_plan *plan)
{
	hvd_layout_clear(&plan->layout);
	hvd_relays_clear(&plan->relays);
	free(plan->tf_workers);
	memset(plan, 0, sizeof(*plan));
}
