/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c - a host's relay of a world's rendezvous: a server (lib/rendezvous/server.h) for the ranks of that world on this
 * host, over loopback. It reaches the root over the agent's connection to the driver, in a channel of its own, or over
 * another relay.
 *
 * The agent opens the sockets before it registers, so that the plan can name their ports. Ranks can connect from then
 * on: they wait in the kernel's queue. The relay runs in the agent's event loop. Only this user's processes may connect
 * over loopback. If other relays connect to this one by the plan, they prove that they belong to the launch
 * (lib/protocol/handshake.h), and so does this relay to its parent, with a key that is derived from the launch's. The
 * relay of rank 0's host may also listen on the network (launcher/world/relays.h). The agents of other hosts say whose
 * the connections from there are.
 *
 * A relay that has lost its parent, or does not reach it, uses the agent's connection instead. When that connection has
 * ended, there is no root any longer: the relay closes its clients' connections, and says so if ranks waited.
 *
 * Its messages: "relay": start again, a moment later; the answer is the same. "owner" (lib/protocol/owner_question.h).
 * "network", for a relay whose plan has "network": from now on only ranks at these addresses, "addrs", may connect over
 * the network.
 */
#include "agent.h"
#include "dial.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/listen.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/owner_question.h"
#include "lib/protocol/preauth.h"
#include "lib/protocol/wire.h"
#include "lib/protocol/worlds.h"
#include "lib/rendezvous/access.h"
#include "lib/rendezvous/server.h"
#include "lib/rendezvous/service.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long a parent may take to greet before the root is used in its place: it may be stopped. */
#define PARENT_SECONDS 5.0
/* How long a relay that the root has refused waits until it begins anew. */
#define AGAIN_SECONDS 1
/* Descriptors that a rank of PyTorch may need here, and those for all else. */
#define RANK_FDS  4
#define OTHER_FDS 256
/* Relays that are not authenticated yet. */
#define MAX_PENDING 256

struct relay_sockets {
	struct hvd_relay_ports ports; /* 0 = there is no such socket */
	int fd, network, children;    /* they listen */
};

struct relay {
	struct hvd_of_world of;
	struct hvd_err refusal; /* why there are no sockets; no code = there are */
	struct hvd_log log;     /* the agent's, with this host's name in front of each message */
	struct hvd_session session;
	struct hvd_boot up; /* the parent: of this only the addresses, and the port. No address: there is none */
	struct hvd_rv_access *access;
	struct hvd_rv *rv;           /* NULL before the plan, and if the ranks here do not rendezvous through a relay */
	struct hvd_preauth *pending; /* NULL: no other relay connects to this one */
	struct relay_sockets sockets; /* from the plan on only that for relays below, until it is used */
	struct hvd_dial *dial;        /* to the parent */
	struct hvd_timer *again;      /* goes over to the root, or begins anew there */
	bool to_root, lost;           /* it has gone over; there is no root any longer */
};

static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	const struct relay *relay = arg;

	hvd_log(relay->of.agent->log, level, "%s: %s", relay->of.agent->info->name, text);
}

/* ---- sockets ---- */

static void close_socket(in_port_t *port, int fd)
{
	if (*port)
		close(fd);
	*port = 0;
}

static void close_sockets(struct relay_sockets *sockets)
{
	close_socket(&sockets->ports.loopback, sockets->fd);
	close_socket(&sockets->ports.network, sockets->network);
	close_socket(&sockets->ports.children, sockets->children);
}

/* For the ranks of all hosts. */
static bool has_descriptors(const struct hvd_taskinfo *info)
{
	return (unsigned long)info->size * RANK_FDS + OTHER_FDS <= hvd_nofile_most();
}

static int open_sockets(struct relay_sockets *out, const struct hvd_agent *agent, struct hvd_err *err)
{
	const struct hvd_boot *boot = agent->boot;

	out->fd = hvd_listen_any(true, boot->port_lo, boot->port_hi, &out->ports.loopback, err);
	if (out->fd < 0)
		return -1;
	if (boot->network && hvd_taskinfo_may_have_rank0(agent->info, boot->spares) && has_descriptors(agent->info)) {
		out->network = hvd_listen_any(false, boot->port_lo, boot->port_hi, &out->ports.network, err);
		if (out->network < 0)
			return -1;
	}
	if (agent->info->nodes <= boot->relays)
		return 0;
	out->children = hvd_listen_any(false, boot->port_lo, boot->port_hi, &out->ports.children, err);
	return out->children < 0 ? -1 : 0;
}

static void offer(struct relay *relay)
{
	struct hvd_driver_client *driver = relay->of.agent->driver;
	struct hvd_host_info *host = hvd_driver_client_host(driver);
	struct relay_sockets *sockets = &relay->sockets;
	struct hvd_err *why = &relay->refusal;
	const int rc = open_sockets(sockets, relay->of.agent, why);

	host->relays = hvd_xrealloc(host->relays, host->n_relays + 1, sizeof(*host->relays));
	host->relays[host->n_relays++] = rc == 0 ? sockets->ports : (struct hvd_relay_ports){0};
	if (rc == 0)
		return;
	close_sockets(sockets);
	hvd_err_prefix(why, "cannot open the port of the rendezvous relay");
	hvd_driver_client_refuse(driver, why);
}

/* ---- the connection to the parent ---- */

static void on_driver_lost(void *arg, const struct hvd_err *why)
{
	struct relay *relay = arg;
	struct hvd_rv_stats stats;
	char *waits;

	if (!relay->rv || relay->lost)
		return;
	relay->lost = true;
	hvd_timer_stop(relay->again);
	waits = hvd_rv_tcpstore_waits(relay->rv, 1);
	hvd_rv_stats(relay->rv, &stats);
	/* The rendezvous may end before the last rank, if that rank no longer uses it. */
	if (waits || stats.waiting_now)
		hvd_error(&relay->log, "lost the connection to the rendezvous while ranks wait there: %s", why->msg);
	else
		hvd_debug(&relay->log, "the rendezvous has ended: %s", why->msg);
	free(waits);
	hvd_rv_relay_up(relay->rv, NULL);
	hvd_rv_unbind_others(relay->rv, NULL, 0);
}

static void take_children(struct relay *relay);

static void use_root(struct relay *relay)
{
	relay->to_root = true;
	hvd_rv_relay_share(relay->rv, hvd_driver_client_conn(relay->of.agent->driver));
	take_children(relay);
}

static void on_again(void *arg)
{
	struct relay *relay = arg;

	if (relay->to_root)
		hvd_of_world_send(&relay->of, json_pack("{s:s}", "t", "relay"));
	use_root(relay);
}

static void on_relay(void *arg, const json_t *msg)
{
	struct relay *relay = arg;

	(void)msg;
	if (relay->rv && relay->to_root && !relay->lost)
		hvd_timer_in_ms(relay->again, AGAIN_SECONDS * 1000);
}

/* The timer has it done later: this may be called from within a call of the server. */
static void go_to_root(struct relay *relay)
{
	if (!relay->lost && !relay->to_root)
		hvd_timer_in_ms(relay->again, 0);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	struct relay *relay = arg;

	if (relay->lost) {
		hvd_conn_free(conn);
		return;
	}
	hvd_rv_relay_up(relay->rv, conn);
	take_children(relay);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct relay *relay = arg;

	hvd_verbose(&relay->log, "connecting to the rendezvous directly, not through the parent relay: %s", why->msg);
	go_to_root(relay);
}

/* The root breaks the protocol, or another relay has ended. */
static void on_parent_lost(void *arg)
{
	struct relay *relay = arg;
	struct hvd_err why = {0};

	if (relay->to_root) {
		hvd_err_set(&why, HVD_E_PROTO, "it sent an invalid message");
		on_driver_lost(relay, &why);
		return;
	}
	hvd_debug(&relay->log, "the connection to the parent relay has ended; connecting to the rendezvous directly");
	go_to_root(relay);
}

static void connect_up(struct relay *relay)
{
	if (relay->up.n_addrs == 0) {
		use_root(relay);
		return;
	}
	relay->dial = hvd_dial_create(relay->of.agent->base, &relay->up, &relay->session,
				      hvd_deadline_in(PARENT_SECONDS), on_up, on_down, relay);
	hvd_dial_name(relay->dial, "the parent relay");
}

/* ---- relays below ---- */

static void on_proven(struct hvd_conn *conn, void *arg)
{
	hvd_rv_relay_take(((const struct relay *)arg)->rv, conn);
}

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	const struct relay *relay = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_verbose(&relay->log, "refused a connection from %s to the relay port: %s", hvd_addr_text(from, peer),
		    why->msg);
}

static void on_full(void *arg)
{
	const struct relay *relay = arg;

	hvd_warn(&relay->log, "no descriptor is left for another relay: the limit is %lu", hvd_nofile());
}

/* Accept relays below once there is a parent: until then they wait in the kernel's queue. */
static void take_children(struct relay *relay)
{
	static const struct hvd_preauth_ops ops = {
		.proven = on_proven, .refused = on_refused, .dropped = on_refused, .full = on_full};
	struct hvd_err why = {0};

	if (!relay->sockets.ports.children)
		return;
	relay->pending = hvd_preauth_create(relay->of.agent->base, relay->sockets.children, &relay->session,
					    MAX_PENDING, &ops, relay, &why);
	if (relay->pending)
		relay->sockets.ports.children = 0;
	else
		hvd_log_err(&relay->log, &why);
}

/* ---- ranks of other hosts ---- */

/* This user over loopback, and whoever is at these addresses. */
static void open_to(struct relay *relay, const json_t *from, const char *key)
{
	struct hvd_addr *addrs;
	size_t n = hvd_get_addrs(from, key, &addrs);

	hvd_rv_access_replace(relay->access, addrs, n);
	free(addrs);
}

static void on_network(void *arg, const json_t *msg)
{
	struct relay *relay = arg;

	if (!relay->rv)
		return;
	open_to(relay, msg, "addrs");
	hvd_rv_disconnect_denied(relay->rv);
}

static void on_ask_owner(const struct hvd_owner_question *question, void *arg)
{
	hvd_of_world_send(&((const struct relay *)arg)->of, hvd_owner_question_to_json(question));
}

static void on_owner(void *arg, const json_t *msg)
{
	struct relay *relay = arg;
	struct hvd_owner_answer answer;

	if (relay->rv && hvd_owner_answer_read(msg, &answer, NULL) == 0)
		hvd_rv_owner_answer(relay->rv, &answer);
}

/* ---- begin and end ---- */

static int read_parent(const json_t *plan, struct hvd_boot *out, struct hvd_err *err)
{
	struct hvd_addr *list;
	int64_t port;
	size_t n;

	if (!json_object_get(plan, "up"))
		return 0;
	n = hvd_get_addrs(plan, "up", &list);
	out->n_addrs = n < HVD_BOOT_MAX_ADDRS ? (unsigned)n : HVD_BOOT_MAX_ADDRS;
	for (unsigned i = 0; i < out->n_addrs; i++)
		out->addrs[i] = list[i];
	free(list);
	if (n == 0)
		return hvd_err_set(err, HVD_E_PROTO, "the plan has no address of the parent relay");
	if (hvd_get_int(plan, "port", 1, 65535, &port, err) != 0)
		return -1;
	out->port = (in_port_t)port;
	return 0;
}

static int make_server(struct relay *relay, const json_t *plan, struct hvd_err *err)
{
	struct hvd_rv_config cfg;
	const char *addr;
	int64_t relay_id;

	hvd_rv_config_init(&cfg);
	if (hvd_get_int(plan, "relay_id", 0, UINT32_MAX, &relay_id, err) != 0 ||
	    hvd_get_str(plan, "addr", HVD_ADDR_TEXT, &addr, err) != 0 || read_parent(plan, &relay->up, err) != 0)
		return -1;
	hvd_addr_parse(addr, &cfg.relay_addr);
	relay->access = hvd_rv_access_create();
	open_to(relay, plan, "network");
	cfg.access = relay->access;
	cfg.ask_owner = on_ask_owner;
	cfg.ask_owner_arg = relay;
	cfg.tcpstore = true;
	cfg.channel = HVD_CHANNEL_STORE + relay->of.world;
	cfg.relay = true;
	cfg.relay_id = (uint32_t)relay_id;
	cfg.parent_lost = on_parent_lost;
	cfg.parent_lost_arg = relay;
	relay->rv = hvd_rv_create(relay->of.agent->base, &cfg, &relay->log, err);
	return relay->rv ? 0 : -1;
}

/* Listen where the plan says, and close the other sockets. */
static int use_sockets(struct relay *relay, const json_t *plan, struct hvd_err *err)
{
	struct relay_sockets *sockets = &relay->sockets;
	bool children = json_is_true(json_object_get(plan, "children"));

	if (!sockets->ports.loopback || (children && !sockets->ports.children))
		return hvd_err_set(err, HVD_E_PROTO, "the plan has a relay on this host, but no port is open for it");
	hvd_rv_listen_fd(relay->rv, sockets->fd);
	sockets->ports.loopback = 0;
	if (sockets->ports.network && json_object_get(plan, "network")) {
		hvd_rv_listen_fd(relay->rv, sockets->network);
		sockets->ports.network = 0;
	}
	close_socket(&sockets->ports.network, sockets->network);
	if (!children)
		close_socket(&sockets->ports.children, sockets->children);
	return 0;
}

static int on_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct relay *relay = arg;
	const struct hvd_agent *agent = relay->of.agent;
	const json_t *own = json_object_get(plan, "relay");

	if (!own) {
		close_sockets(&relay->sockets);
		return 0;
	}
	hvd_rv_service_relay_session(hvd_driver_client_key(agent->driver), agent->boot->session, &relay->session);
	if (make_server(relay, own, err) != 0 || use_sockets(relay, own, err) != 0)
		return hvd_err_prefix(err, "cannot start the rendezvous relay");
	connect_up(relay);
	return 0;
}

static void begin(void *arg)
{
	struct relay *relay = arg;
	const struct hvd_agent *agent = relay->of.agent;

	relay->log = (struct hvd_log){.level = agent->log->level, .sink = on_log, .arg = relay};
	relay->again = hvd_timer_new(agent->base, on_again, relay);
	offer(relay);
}

static void end(void *arg)
{
	struct relay *relay = arg;

	close_sockets(&relay->sockets);
	hvd_dial_destroy(relay->dial);
	hvd_preauth_destroy(relay->pending);
	hvd_rv_destroy(relay->rv);
	hvd_rv_access_destroy(relay->access);
	hvd_timer_free(relay->again);
}

const struct hvd_feature hvd_relay_feature = {
	.size = sizeof(struct relay),
	.by_world = true,
	.messages =
		(const struct hvd_agent_message[]){
			{"relay", on_relay}, {"owner", on_owner}, {"network", on_network}, {NULL, NULL}},
	.begin = begin,
	.plan = on_plan,
	.driver_lost = on_driver_lost,
	.end = end,
};
