/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay waits for its first client, or for some seconds, and connects to its parent then; clients wait meanwhile. So
 * the connections of many relays do not compete with the start of ranks that may not need them yet. From then on a
 * relay is always in one of three states: connecting (`link` is under way, or `again` will begin the next), connected,
 * or over.
 */
#include "relay.h"

#include "lib/base/xalloc.h"
#include "lib/net/listen.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/pending.h"
#include "lib/protocol/wire.h"
#include "lib/rendezvous/access.h"
#include "lib/rendezvous/server.h"
#include "lib/rendezvous/service.h"
#include "link.h"
#include "ports.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait for a first client: one to three seconds. */
#define UNUSED_SECONDS 1.0
/* How long a parent may take to greet before the root is tried in its place: it may be stopped. */
#define PARENT_SECONDS 5.0
/* How long the root is tried in all. */
#define ROOT_SECONDS 30.0
/* How long to wait before connecting to the root again: twice as long each time, up to the most. */
#define AGAIN_SECONDS      0.1
#define MOST_AGAIN_SECONDS 3.0
/* A connection that has lasted so long was a good one. */
#define LASTING_NS 2000000000LL
/* Descriptors that a rank of PyTorch may need here, and those for all else. */
#define RANK_FDS  4
#define OTHER_FDS 256
/* Relays that are not authenticated yet. */
#define MAX_PENDING 256

struct hvd_relay {
	struct event_base *base;
	const struct hvd_boot *boot;
	const struct hvd_taskinfo *info;
	struct hvd_log log; /* which names this host in front of each message */
	const struct hvd_log *said;
	struct hvd_session session;
	struct hvd_boot up, root; /* of these only the addresses, and the port */
	struct hvd_rv_access *access;
	struct hvd_rv *rv;
	struct hvd_pending *pending;      /* NULL: no other relay connects to this one */
	struct hvd_relay_sockets sockets; /* from which nothing was accepted yet */
	bool parent;                      /* other relays connect to this one */
	struct event *first[3];           /* tell that a client, or a relay below, comes */
	struct hvd_link *link;
	struct event *again;
	bool to_root, connected;
	unsigned tries;    /* since a connection has lasted */
	hvd_time since;    /* of the last connection */
	hvd_time deadline; /* for a connection to the root */
	struct hvd_err why;
	void (*lost)(void *arg);
	void *arg;
};

static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	const struct hvd_relay *relay = arg;

	hvd_log(relay->said, level, "%s: %s", relay->info->name, text);
}

/* ---- sockets ---- */

static void close_socket(in_port_t *port, int fd)
{
	if (*port)
		close(fd);
	*port = 0;
}

void hvd_relay_sockets_close(struct hvd_relay_sockets *sockets)
{
	close_socket(&sockets->port, sockets->fd);
	close_socket(&sockets->network_port, sockets->network);
	close_socket(&sockets->children_port, sockets->children);
}

/* For the ranks of all hosts. */
static bool has_descriptors(const struct hvd_taskinfo *info)
{
	return (unsigned long)info->size * RANK_FDS + OTHER_FDS <= hvd_nofile_most();
}

static int open_sockets(struct hvd_relay_sockets *out, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
			struct hvd_err *err)
{
	out->fd = hvd_listen_any(true, boot->port_lo, boot->port_hi, &out->port, err);
	if (out->fd < 0)
		return -1;
	if (boot->network && hvd_ports_may_have_rank0(boot, info) && has_descriptors(info)) {
		out->network = hvd_listen_any(false, boot->port_lo, boot->port_hi, &out->network_port, err);
		if (out->network < 0)
			return -1;
	}
	if (info->nodes <= boot->relays)
		return 0;
	out->children = hvd_listen_any(false, boot->port_lo, boot->port_hi, &out->children_port, err);
	return out->children < 0 ? -1 : 0;
}

void hvd_relay_offer(struct hvd_agent *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		     struct hvd_relay_sockets *out)
{
	struct hvd_err why = {0};

	*out = (struct hvd_relay_sockets){0};
	if (!boot->relays)
		return;
	if (open_sockets(out, boot, info, &why) != 0)
		hvd_relay_sockets_close(out);
	hvd_agent_relay(agent, out->port, out->network_port, out->children_port, why.msg);
}

/* ---- the connection to the parent ---- */

static void give_up(struct hvd_relay *relay)
{
	struct hvd_rv_stats stats;
	char *waits = hvd_rv_tcpstore_waits(relay->rv, 1);

	hvd_rv_stats(relay->rv, &stats);
	/* That the rendezvous ends before the last rank is normal, if that has no use for it any more. */
	if (waits || stats.waiting_now)
		hvd_error(&relay->log, "the rendezvous is lost, and ranks wait for others there: %s", relay->why.msg);
	else
		hvd_debug(&relay->log, "the rendezvous has ended: %s", relay->why.msg);
	free(waits);
	hvd_rv_relay_up(relay->rv, NULL);
	if (relay->lost)
		relay->lost(relay->arg);
}

static void take_children(struct hvd_relay *relay);

static void on_up(struct hvd_conn *conn, void *arg)
{
	struct hvd_relay *relay = arg;

	relay->since = hvd_now();
	relay->connected = true;
	hvd_conn_watch_host(conn);
	hvd_rv_relay_up(relay->rv, conn);
	if (relay->parent && relay->sockets.children_port)
		take_children(relay);
}

static void set_deadline(struct hvd_relay *relay)
{
	double most = relay->boot->timeout;

	relay->deadline = hvd_deadline_in(most < ROOT_SECONDS ? most : ROOT_SECONDS);
}

/* Connect again: at once, then at growing intervals; or give up. */
static void try_again(struct hvd_relay *relay)
{
	double wait = relay->tries == 0 ? 0 : AGAIN_SECONDS * (double)(1U << (relay->tries < 8 ? relay->tries : 8));
	struct timeval tv;

	if (hvd_left(relay->deadline) <= 0) {
		give_up(relay);
		return;
	}
	relay->tries++;
	tv = hvd_left_tv(hvd_deadline_in(wait < MOST_AGAIN_SECONDS ? wait : MOST_AGAIN_SECONDS));
	evtimer_add(relay->again, &tv);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct hvd_relay *relay = arg;

	relay->why = *why;
	if (relay->to_root && hvd_link_refused(relay->link)) {
		give_up(relay);
		return;
	}
	if (!relay->to_root)
		hvd_verbose(&relay->log, "connecting to the rendezvous itself, not to the relay above: %s", why->msg);
	/* A root that is stopped, or whose host is overloaded, may go on: it is there as long as it takes connections.
	 */
	if (relay->to_root && hvd_link_mute(relay->link))
		set_deadline(relay);
	relay->to_root = true;
	try_again(relay);
}

static void connect_up(struct hvd_relay *relay)
{
	hvd_time deadline = relay->deadline;

	if (!relay->to_root)
		deadline = hvd_earlier(deadline, hvd_deadline_in(PARENT_SECONDS));
	hvd_link_destroy(relay->link);
	relay->link = hvd_link_create(relay->base, relay->to_root ? &relay->root : &relay->up, &relay->session,
				      deadline, on_up, on_down, relay);
	hvd_link_name(relay->link, relay->to_root ? "the rendezvous" : "the relay above");
}

static void begin(struct hvd_relay *relay);

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_relay *relay = arg;

	(void)fd;
	(void)what;
	if (relay->first[0])
		begin(relay);
	else
		connect_up(relay);
}

static void on_parent_lost(void *arg)
{
	struct hvd_relay *relay = arg;

	hvd_debug(&relay->log, "the connection to the rendezvous has ended; connecting again");
	hvd_err_set(&relay->why, HVD_E_NET, "its connections end at once");
	relay->to_root = true;
	relay->connected = false;
	if (hvd_now() - relay->since > LASTING_NS) {
		relay->tries = 0;
		set_deadline(relay);
	}
	try_again(relay);
}

/* ---- relays below ---- */

/* What a relay below sends could go nowhere while there is no parent: it connects to the root. */
static void on_proven(struct hvd_conn *conn, void *arg)
{
	const struct hvd_relay *relay = arg;

	if (relay->connected)
		hvd_rv_relay_take(relay->rv, conn);
	else
		hvd_conn_free(conn);
}

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	const struct hvd_relay *relay = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_verbose(&relay->log, "refused a connection from %s to the port for relays: %s", hvd_addr_text(from, peer),
		    why->msg);
}

static void on_full(void *arg)
{
	const struct hvd_relay *relay = arg;

	hvd_warn(&relay->log, "no descriptor is left for another relay: the limit is %lu", hvd_nofile());
}

/* From the first connection to a parent on: until then they wait in the kernel's queue. */
static void take_children(struct hvd_relay *relay)
{
	static const struct hvd_pending_ops ops = {
		.proven = on_proven, .refused = on_refused, .dropped = on_refused, .full = on_full};
	struct hvd_err why = {0};

	relay->pending = hvd_pending_create(relay->base, relay->sockets.children, &relay->session, MAX_PENDING, &ops,
					    relay, &why);
	if (relay->pending)
		relay->sockets.children_port = 0;
	else
		hvd_log_err(&relay->log, &why);
}

/* ---- the first client ---- */

static void forget_events(struct hvd_relay *relay)
{
	for (size_t i = 0; i < sizeof(relay->first) / sizeof(relay->first[0]); i++) {
		if (relay->first[i])
			event_free(relay->first[i]);
		relay->first[i] = NULL;
	}
}

static void begin(struct hvd_relay *relay)
{
	forget_events(relay);
	evtimer_del(relay->again);
	hvd_rv_listen_fd(relay->rv, relay->sockets.fd);
	if (relay->sockets.network_port)
		hvd_rv_listen_fd(relay->rv, relay->sockets.network);
	relay->sockets.port = relay->sockets.network_port = 0;
	set_deadline(relay);
	connect_up(relay);
}

static void on_first(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	begin(arg);
}

static void await_at(struct hvd_relay *relay, size_t i, int fd)
{
	relay->first[i] = event_new(relay->base, fd, EV_READ, on_first, relay);
	event_add(relay->first[i], NULL);
}

/* Takes the sockets. */
static void await_first(struct hvd_relay *relay, struct hvd_relay_sockets *sockets, uint32_t origin)
{
	/* Relays that nobody uses do not all connect at the same time. */
	struct timeval tv = hvd_left_tv(hvd_deadline_in(UNUSED_SECONDS + (double)(origin % 64) / 32));

	evtimer_add(relay->again, &tv);
	relay->sockets = *sockets;
	*sockets = (struct hvd_relay_sockets){0};
	await_at(relay, 0, relay->sockets.fd);
	if (relay->sockets.network_port)
		await_at(relay, 1, relay->sockets.network);
	if (relay->sockets.children_port)
		await_at(relay, 2, relay->sockets.children);
}

/* ---- ranks of other hosts ---- */

/* This user over loopback, and whoever is at these addresses. */
static void open_to(struct hvd_relay *relay, const json_t *from, const char *key)
{
	struct hvd_addr *addrs;
	size_t n = hvd_get_addrs(from, key, &addrs);

	hvd_rv_access_replace(relay->access, addrs, n);
	free(addrs);
}

void hvd_relay_network(struct hvd_relay *relay, const json_t *msg)
{
	open_to(relay, msg, "addrs");
	hvd_rv_expel(relay->rv);
}

/* ---- begin and end ---- */

static int read_addrs(const json_t *plan, const char *addrs, const char *port, struct hvd_boot *out,
		      struct hvd_err *err)
{
	struct hvd_addr *list;
	size_t n = hvd_get_addrs(plan, addrs, &list);
	int64_t number = 0;

	out->n_addrs = n < HVD_BOOT_MAX_ADDRS ? (unsigned)n : HVD_BOOT_MAX_ADDRS;
	for (unsigned i = 0; i < out->n_addrs; i++)
		out->addrs[i] = list[i];
	free(list);
	if (n == 0)
		return hvd_err_set(err, HVD_E_PROTO, "the plan has no address of this host's rendezvous");
	if (hvd_get_int(plan, port, 1, 65535, &number, err) != 0)
		return -1;
	out->port = (in_port_t)number;
	return 0;
}

static int serve(struct hvd_relay *relay, const struct hvd_relay_opts *opts, struct hvd_err *err)
{
	struct hvd_rv_config cfg;
	const char *addr;
	int64_t origin;

	hvd_rv_config_init(&cfg);
	if (hvd_get_int(opts->plan, "origin", 0, UINT32_MAX, &origin, err) != 0 ||
	    hvd_get_str(opts->plan, "addr", HVD_ADDR_TEXT, &addr, err) != 0 ||
	    read_addrs(opts->plan, "up", "port", &relay->up, err) != 0 ||
	    read_addrs(opts->plan, "root", "root_port", &relay->root, err) != 0)
		return -1;
	hvd_addr_parse(addr, &cfg.relay_addr);
	relay->access = hvd_rv_access_create();
	open_to(relay, opts->plan, "network");
	cfg.access = relay->access;
	cfg.tcpstore = true;
	cfg.relay = true;
	cfg.origin = (uint32_t)origin;
	cfg.parent_lost = on_parent_lost;
	cfg.parent_lost_arg = relay;
	relay->rv = hvd_rv_create(relay->base, &cfg, &relay->log, err);
	if (!relay->rv)
		return -1;
	if (!json_object_get(opts->plan, "network"))
		close_socket(&opts->sockets->network_port, opts->sockets->network);
	relay->parent = json_is_true(json_object_get(opts->plan, "children"));
	if (!opts->sockets->port || (relay->parent && !opts->sockets->children_port))
		return hvd_err_set(err, HVD_E_PROTO, "the plan has a relay here, where no port is open for it");
	if (!relay->parent)
		close_socket(&opts->sockets->children_port, opts->sockets->children);
	await_first(relay, opts->sockets, cfg.origin);
	return 0;
}

struct hvd_relay *hvd_relay_create(struct event_base *base, const struct hvd_relay_opts *opts, void (*lost)(void *arg),
				   void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_relay *relay = hvd_xcalloc(1, sizeof(*relay));
	int rc;

	relay->base = base;
	relay->boot = opts->boot;
	relay->info = opts->info;
	relay->log = (struct hvd_log){.level = log ? log->level : HVD_LOG_ERROR, .sink = on_log, .arg = relay};
	relay->said = log;
	relay->lost = lost;
	relay->arg = arg;
	relay->again = evtimer_new(base, on_again, relay);
	hvd_rv_service_relay_session(opts->key, opts->boot->session, &relay->session);
	rc = serve(relay, opts, err);
	hvd_relay_sockets_close(opts->sockets);
	if (rc != 0) {
		hvd_relay_destroy(relay);
		hvd_err_prefix(err, "cannot start the relay of the rendezvous");
		return NULL;
	}
	relay->to_root =
		relay->up.port == relay->root.port && hvd_addr_equal(&relay->up.addrs[0], &relay->root.addrs[0]);
	return relay;
}

void hvd_relay_destroy(struct hvd_relay *relay)
{
	if (!relay)
		return;
	forget_events(relay);
	hvd_relay_sockets_close(&relay->sockets);
	hvd_link_destroy(relay->link);
	hvd_pending_destroy(relay->pending);
	hvd_rv_destroy(relay->rv);
	hvd_rv_access_destroy(relay->access);
	if (relay->again)
		event_free(relay->again);
	free(relay);
}
