/* SPDX-License-Identifier: Apache-2.0 */
#include "driver_client.h"

#include "dial.h"
#include "lib/base/key.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/job/host_info.h"
#include "lib/job/switch_path.h"
#include "lib/net/host_try.h"
#include "lib/net/iface.h"
#include "lib/protocol/munge.h"
#include "preflight.h"
#include "probe.h"
#include "socket_owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long munged may take to answer. */
#define MUNGE_SECONDS 3.0
/* How much longer than the start may take an agent waits for its plan: clocks of processes that start on busy hosts begin
 * later than the driver's, or earlier. */
#define PLAN_SECONDS 5.0
/* How long the launcher may take to read what the ranks wrote last. */
#define LINGER_SECONDS 60

struct hvd_driver_client {
	struct event_base *base;
	struct hvd_taskinfo *info;
	bool spares; /* the job has more hosts than it needs */
	struct hvd_session session;
	hvd_time deadline;
	const struct hvd_driver_client_ops *ops;
	void *arg;
	const struct hvd_log *log;

	struct hvd_dial *link; /* NULL: there was a connection already */
	struct hvd_conn *conn;
	struct hvd_timer *begin; /* begins to use a connection that was there already */
	struct hvd_timer *timer;
	struct hvd_host_info node;
	struct hvd_probe *probe;
	struct hvd_preflight *preflight; /* has looked, or looks, at this host; NULL: was not asked for */
	json_t *found;                   /* what `preflight` has found; NULL: nothing yet */
	json_t *report;                  /* of the probe, while the look at the host goes on */
	struct hvd_host_try *trying;     /* tries another host for the driver; NULL: does not */
	uint32_t tried;                  /* the number of the host that `trying` tries */
	struct hvd_socket_owner *owner;  /* NULL: was not asked for one */
	bool planned, over, closed;
	bool cut_off;                  /* the connection has not ended by the driver's closing it */
	const struct hvd_err *refusal; /* see hvd_driver_client_refuse(); NULL = none */
};

static void fail(struct hvd_driver_client *agent, const struct hvd_err *why)
{
	if (agent->over)
		return;
	agent->over = true;
	agent->ops->failed(why, agent->arg);
}

/* Fail. The driver has been told why, if there is a connection to it. */
static void fail_told(struct hvd_driver_client *agent, const struct hvd_err *why)
{
	struct hvd_err reported;

	if (agent->conn)
		hvd_err_set(&reported, HVD_E_FAILED, "%s", why->msg);
	fail(agent, agent->conn ? &reported : why);
}

/* Fail, and tell the driver, which reports why the launch fails, with the name of this host. */
static void cannot(struct hvd_driver_client *agent, const struct hvd_err *why)
{
	hvd_driver_client_send(agent, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", agent->info->name, "why",
						why->msg, "hint", why->hint));
	fail_told(agent, why);
}

/* The report waits for what is found on this host. */
static void send_report(struct hvd_driver_client *agent)
{
	if (!agent->report || (agent->preflight && !agent->found))
		return;
	if (agent->found)
		json_object_set(agent->report, "preflight", agent->found);
	hvd_driver_client_send(agent, agent->report);
	agent->report = NULL;
}

static void on_report(json_t *report, void *arg)
{
	struct hvd_driver_client *agent = arg;

	hvd_debug(agent->log, "%s: probe finished", agent->info->name);
	json_decref(agent->report);
	agent->report = json_incref(report);
	send_report(agent);
}

static void on_looked(json_t *found, void *arg)
{
	struct hvd_driver_client *agent = arg;

	agent->found = json_incref(found);
	send_report(agent);
}

static int look_at_host(struct hvd_driver_client *agent, const json_t *order, struct hvd_err *err)
{
	const json_t *wanted = json_object_get(order, "preflight");
	struct hvd_preflight_order what;

	if (!wanted || agent->preflight)
		return 0;
	if (hvd_preflight_order_read(wanted, &what, err) != 0)
		return -1;
	agent->preflight = hvd_preflight_start(agent->base, &what, on_looked, agent, err);
	return agent->preflight ? 0 : -1;
}

static void on_probe_order(struct hvd_driver_client *agent, const json_t *order)
{
	struct hvd_err why = {0};

	if (!agent->probe)
		hvd_err_set(&why, HVD_E_PROTO, "the driver ordered an unexpected probe");
	else if (look_at_host(agent, order, &why) == 0 &&
		 hvd_probe_run(agent->probe, order, on_report, agent, &why) == 0)
		return;
	cannot(agent, &why);
}

/* This host is none of the job's. */
static void spare(struct hvd_driver_client *agent, const char *why)
{
	if (agent->over)
		return;
	agent->over = true;
	hvd_log(agent->log, agent->conn ? HVD_LOG_DEBUG : HVD_LOG_WARN, "%s takes no part in the job%s%s",
		agent->info->name, *why ? ": " : "", why);
	agent->ops->spare(agent->arg);
}

static void on_measured(json_t *measured, void *arg)
{
	hvd_driver_client_send(arg, json_incref(measured));
}

static void on_measure_order(struct hvd_driver_client *agent, const json_t *order)
{
	struct hvd_err why = {0};

	if (!agent->probe)
		hvd_err_set(&why, HVD_E_PROTO, "the driver ordered an unexpected measurement");
	else if (hvd_probe_measure(agent->probe, order, on_measured, agent, &why) == 0)
		return;
	cannot(agent, &why);
}

static void on_plan(struct hvd_driver_client *agent, const json_t *plan)
{
	struct hvd_timer *timer = agent->timer;
	struct hvd_err why = {0};

	if (json_is_true(json_object_get(plan, "spare")) && agent->ops->spare) {
		spare(agent, "");
		return;
	}
	if (hvd_taskinfo_renumber(agent->info, plan, &why) != 0) {
		cannot(agent, &why);
		return;
	}
	agent->timer = NULL;
	hvd_timer_free(timer);
	agent->planned = true;
	/* In an elastic job later hosts probe this one, so it goes on to answer. When the launcher cannot be reached,
	 * it gives this host up, and the ranks here must not go on beside their replacements. */
	if (json_is_true(json_object_get(plan, "stay"))) {
		hvd_conn_watch_host(agent->conn);
	} else {
		hvd_probe_destroy(agent->probe);
		agent->probe = NULL;
	}
	agent->ops->plan(plan, agent->arg);
}

static void on_tried(bool answered, void *arg)
{
	struct hvd_driver_client *agent = arg;

	hvd_host_try_destroy(agent->trying);
	agent->trying = NULL;
	hvd_driver_client_send(
		agent, json_pack("{s:s, s:I, s:b}", "t", "tried", "n", (json_int_t)agent->tried, "answered", answered));
}

/* The driver hears nothing from a host: does it answer this one? An address that this host has itself, as of a bridge,
 * would answer in any case. */
static void on_try(struct hvd_driver_client *agent, const json_t *order)
{
	struct hvd_addr *addrs;
	size_t all, count = 0;
	int64_t n, port, ms;

	if (agent->trying || hvd_get_int(order, "n", 0, UINT32_MAX, &n, NULL) != 0 ||
	    hvd_get_int(order, "p", 1, 65535, &port, NULL) != 0 || hvd_get_int(order, "ms", 1, 60000, &ms, NULL) != 0)
		return;
	all = hvd_get_addrs(order, "a", &addrs);
	for (size_t i = 0; i < all; i++)
		if (hvd_host_info_find_addr(&agent->node, &addrs[i]) < 0)
			addrs[count++] = addrs[i];
	agent->tried = (uint32_t)n;
	if (count == 0)
		on_tried(true, agent); /* nothing speaks against the host */
	else
		agent->trying =
			hvd_host_try_begin(agent->base, addrs, count, (in_port_t)port, (int)ms, on_tried, agent);
	free(addrs);
}

static void on_whose(struct hvd_driver_client *agent, const json_t *question)
{
	json_t *answer;

	if (!agent->owner)
		agent->owner = hvd_socket_owner_create();
	answer = hvd_socket_owner_answer(agent->owner, question);
	if (answer)
		hvd_driver_client_send(agent, answer);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct hvd_driver_client *agent = arg;
	struct hvd_err why = {0};
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, &why) != 0) {
		fail(agent, &why);
		return;
	}
	/* The driver sends "end" before the plan when the user has interrupted the start. */
	if (agent->planned && strcmp(type, "try") == 0) {
		on_try(agent, msg);
	} else if (agent->planned && strcmp(type, "whose") == 0) {
		on_whose(agent, msg);
	} else if (agent->planned || (agent->begin && strcmp(type, "took") == 0)) {
		agent->ops->message(msg, agent->arg);
	} else if (strcmp(type, "failed") == 0 || strcmp(type, "end") == 0) {
		hvd_err_set(&why, HVD_E_FAILED, "the launch failed");
		fail(agent, &why);
	} else if (strcmp(type, "misused") == 0) {
		why.code = HVD_E_USAGE; /* the driver has said what was wrong */
		fail(agent, &why);
	} else if (strcmp(type, "probe") == 0) {
		on_probe_order(agent, msg);
	} else if (strcmp(type, "measure") == 0) {
		on_measure_order(agent, msg);
	} else if (strcmp(type, "plan") == 0) {
		on_plan(agent, msg);
	} else {
		hvd_err_set(&why, HVD_E_PROTO, "the driver sent an unknown message \"%s\"", type);
		cannot(agent, &why);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_driver_client *agent = arg;
	struct hvd_err gone = {0};

	(void)conn;
	agent->closed = true;
	agent->cut_off = why->code != HVD_OK;
	hvd_err_set(&gone, HVD_E_NET, "the connection to the driver ended%s%s", why->code ? ": " : "",
		    why->code ? why->msg : "");
	hvd_err_hint(&gone, "did srun or hvdrun end, or was it killed?");
	fail(agent, &gone);
}

/* Collect what the driver wants to know of this host. */
static int describe_host(struct hvd_driver_client *agent, struct hvd_err *err)
{
	const struct hvd_taskinfo *info = agent->info;
	struct hvd_ifaces ifs = {0};
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) != 0)
		return hvd_err_sys(err, "cannot get this host's name");
	agent->node.name = hvd_xstrdup(info->name);
	agent->node.job = getenv("SLURM_JOB_ID") ? (uint32_t)strtoul(getenv("SLURM_JOB_ID"), NULL, 10) : 0;
	agent->node.switch_path =
		hvd_switch_path_of(getenv("SLURM_TOPOLOGY_ADDR"), getenv("SLURM_TOPOLOGY_ADDR_PATTERN"));
	agent->node.host = hvd_xstrdup(host);
	agent->node.n_ranks = info->local_size;
	agent->node.ranks = hvd_xcalloc(info->local_size, sizeof(*agent->node.ranks));
	memcpy(agent->node.ranks, info->ranks, info->local_size * sizeof(*agent->node.ranks));
	if (hvd_machine_id(agent->node.machine, err) != 0 || hvd_ifaces_query(&ifs, NULL, agent->deadline, err) != 0)
		return -1;
	hvd_host_info_set_ifaces(&agent->node, &ifs);
	hvd_host_info_set_user_ifnames(&agent->node, environ);
	hvd_ifaces_clear(&ifs);
	return 0;
}

/* With the list of all hosts of the step the driver can name a host from which nothing ever comes. */
static json_t *registration(const struct hvd_driver_client *agent)
{
	const struct hvd_taskinfo *info = agent->info;
	json_t *msg = hvd_host_info_to_json(&agent->node, info->node, info->nodes, info->size);
	const char *hosts = getenv("SLURM_STEP_NODELIST");
	const hvd_time now = hvd_now();

	json_object_set_new(msg, "clock", json_integer(now));
	json_object_set_new(msg, "wall", json_integer(hvd_wall_at(now)));
	if (agent->refusal)
		json_object_set_new(msg, "cannot",
				    json_pack("{s:s, s:s}", "why", agent->refusal->msg, "hint", agent->refusal->hint));
	if (hosts)
		json_object_set_new(msg, "hosts", json_string(hosts));
	return msg;
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	struct hvd_driver_client *agent = arg;

	(void)conn;
	if (agent->planned && agent->ops->drained)
		agent->ops->drained(agent->arg);
}

static void on_bytes(struct hvd_conn *conn, const void *data, size_t len, void *arg)
{
	struct hvd_driver_client *agent = arg;

	(void)conn;
	if (agent->planned || agent->begin)
		agent->ops->bytes(data, len, agent->arg);
}

static void take_conn(struct hvd_driver_client *agent, struct hvd_conn *conn)
{
	static const struct hvd_conn_ops ops = {
		.message = on_message, .closed = on_closed, .bytes = on_bytes, .drained = on_drained};

	agent->conn = conn;
	hvd_conn_set_ops(conn, &ops, agent);
	hvd_conn_set_low(conn, 1);
}

static void begin(struct hvd_driver_client *agent)
{
	struct hvd_err why = {0};

	agent->probe = hvd_probe_create(agent->base, &agent->session.key, agent->info->node, &agent->node, &why);
	if (!agent->probe) {
		cannot(agent, &why);
		return;
	}
	agent->node.port = hvd_probe_port(agent->probe);
	hvd_driver_client_send(agent, registration(agent));
	if (agent->refusal)
		fail_told(agent, agent->refusal);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	take_conn(arg, conn);
	begin(arg);
}

static void on_begin(void *arg)
{
	struct hvd_driver_client *agent = arg;

	if (!agent->over)
		begin(agent);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct hvd_driver_client *agent = arg;

	/* The driver does without this host, or it fails, and then ends the job where it is reached. */
	if (agent->spares && agent->ops->spare)
		spare(agent, why->msg);
	else
		fail(agent, why);
}

static void on_deadline(void *arg)
{
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "no launch plan came from the driver in time");
	hvd_err_hint(&why, "a message of the driver names the hosts that did not answer. If there is none, is srun's "
			   "hvd-driver or hvdrun stopped, or its host down?");
	fail(arg, &why);
}

/* `text` is "PID:FD": the launcher runs on this machine, and its user can open its descriptor through /proc. */
static int key_of_process(const char *text, struct hvd_key *key, struct hvd_err *err)
{
	char path[64];
	int pid, n, fd, rc;

	if (sscanf(text, "%d:%d", &pid, &n) != 2 || pid <= 0 || n < 0)
		return hvd_err_set(err, HVD_E_PROTO, "\"%s\" is not a process and a descriptor", text);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, n);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		hvd_err_sys(err, "cannot read the launch's key from process %d", pid);
		return hvd_err_hint(err,
				    "did hvdrun end, or does this rank run on another machine or as another user?");
	}
	rc = hvd_key_read_fd(fd, key, err);
	close(fd);
	return rc;
}

bool hvd_driver_client_cut_off(const struct hvd_driver_client *agent)
{
	return agent->cut_off;
}

bool hvd_driver_client_munge_answers(const struct hvd_boot *boot)
{
	return strcmp(boot->id, "munge") != 0 || hvd_munge_answers(NULL, MUNGE_SECONDS);
}

int hvd_driver_client_session(const struct hvd_boot *boot, struct hvd_session *session, struct hvd_err *err)
{
	int rc;

	memset(session, 0, sizeof(*session));
	memcpy(session->id, boot->session, sizeof(session->id));
	if (strcmp(boot->id, "munge") == 0) {
		session->identity.kind = HVD_ID_MUNGE;
		return 0;
	}
	session->identity.kind = HVD_ID_KEY;
	if (strncmp(boot->id, "file:", 5) == 0)
		rc = hvd_key_read_file(boot->id + 5, &session->identity.key, err);
	else if (strncmp(boot->id, "pid:", 4) == 0)
		rc = key_of_process(boot->id + 4, &session->identity.key, err);
	else if (strncmp(boot->id, "fd:", 3) == 0)
		rc = hvd_key_read_fd(atoi(boot->id + 3), &session->identity.key, err);
	else
		rc = hvd_err_set(err, HVD_E_PROTO, "unknown kind of identity \"%s\"", boot->id);
	if (rc == 0)
		hvd_session_bind_key(session);
	return rc;
}

struct hvd_driver_client *hvd_driver_client_create(struct event_base *base, struct hvd_conn *conn,
						   const struct hvd_boot *boot, const struct hvd_session *session,
						   struct hvd_taskinfo *info, const struct hvd_driver_client_ops *ops,
						   void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_driver_client *agent = hvd_xcalloc(1, sizeof(*agent));

	agent->base = base;
	agent->info = info;
	agent->spares = boot->spares;
	agent->deadline = hvd_deadline_in(boot->timeout);
	agent->ops = ops;
	agent->arg = arg;
	agent->log = log;
	agent->session = *session;
	/* Later than the driver's: what the driver says names who is late. If this agent ended first, the driver would
	 * blame this host. */
	agent->timer = hvd_timer_new(base, on_deadline, agent);
	hvd_timer_at(agent->timer, agent->deadline + (hvd_time)(PLAN_SECONDS * 1e9));
	if (conn) {
		take_conn(agent, conn);
		agent->begin = hvd_timer_new(base, on_begin, agent);
		hvd_timer_soon(agent->begin);
	} else {
		/* The connections are under way while this process looks at the host's interfaces. */
		agent->link = hvd_dial_create(base, boot, &agent->session, agent->deadline, on_up, on_down, agent);
	}
	if (describe_host(agent, err) != 0) {
		hvd_driver_client_destroy(agent);
		return NULL;
	}
	return agent;
}

const struct hvd_key *hvd_driver_client_key(const struct hvd_driver_client *agent)
{
	return &agent->session.key;
}

bool hvd_driver_client_log_failure(const struct hvd_log *log, const struct hvd_taskinfo *info,
				   const struct hvd_err *why)
{
	struct hvd_err here = *why;

	if (why->code == HVD_E_FAILED || !why->msg[0])
		return false;
	if (!here.host[0])
		hvd_err_host(&here, info->name);
	hvd_log_err(log, &here);
	return true;
}

void hvd_driver_client_refuse(struct hvd_driver_client *agent, const struct hvd_err *why)
{
	agent->refusal = why;
}

void hvd_driver_client_ports(struct hvd_driver_client *agent, const in_port_t *ports, size_t n)
{
	free(agent->node.ports);
	agent->node.ports = hvd_xcalloc(n, sizeof(*ports));
	memcpy(agent->node.ports, ports, n * sizeof(*ports));
	agent->node.n_ports = (uint32_t)n;
}

void hvd_driver_client_relay(struct hvd_driver_client *agent, in_port_t port, in_port_t network, in_port_t children)
{
	agent->node.relay = port;
	agent->node.relay_network = network;
	agent->node.relay_children = children;
}

void hvd_driver_client_send(struct hvd_driver_client *agent, json_t *msg)
{
	if (agent && agent->conn)
		hvd_conn_send(agent->conn, msg);
	else
		json_decref(msg);
}

void hvd_driver_client_answer(json_t *msg, void *agent)
{
	hvd_driver_client_send(agent, msg);
}

struct hvd_conn *hvd_driver_client_conn(const struct hvd_driver_client *agent)
{
	return agent->conn;
}

bool hvd_driver_client_sending(const struct hvd_driver_client *agent)
{
	return agent && agent->conn && !agent->closed && hvd_conn_queued(agent->conn) > 0;
}

void hvd_driver_client_destroy(struct hvd_driver_client *agent)
{
	if (!agent)
		return;
	hvd_timer_free(agent->timer);
	hvd_host_try_destroy(agent->trying);
	hvd_socket_owner_destroy(agent->owner);
	hvd_probe_destroy(agent->probe);
	hvd_preflight_destroy(agent->preflight);
	json_decref(agent->found);
	json_decref(agent->report);
	hvd_dial_destroy(agent->link);
	/* Messages that were queued last ("cannot", "exit") are still sent; output is acknowledged. */
	if (agent->begin)
		hvd_conn_linger(agent->conn, hvd_deadline_in(LINGER_SECONDS));
	else
		hvd_conn_finish(agent->conn, hvd_deadline_in(1));
	hvd_timer_free(agent->begin);
	hvd_host_info_clear(&agent->node);
	free(agent);
}
