/* SPDX-License-Identifier: Apache-2.0 */
#include "driver_client.h"

#include "dial.h"
#include "lib/base/key.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/host_info.h"
#include "lib/host/switch_path.h"
#include "lib/net/iface.h"
#include "lib/protocol/munge.h"

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

	struct hvd_dial *dial; /* NULL: there was a connection already */
	struct hvd_conn *conn;
	struct hvd_timer *begin; /* begins to use a connection that was there already */
	struct hvd_timer *timer;
	struct hvd_host_info host;
	bool planned, over, closed;
	bool cut_off;                  /* the connection has not ended by the driver's closing it */
	const struct hvd_err *refusal; /* see hvd_driver_client_refuse(); NULL = none */
};

static void fail(struct hvd_driver_client *driver, const struct hvd_err *why)
{
	if (driver->over)
		return;
	driver->over = true;
	driver->ops->failed(why, driver->arg);
}

/* Fail. The driver has been told why, if there is a connection to it. */
static void fail_reported(struct hvd_driver_client *driver, const struct hvd_err *why)
{
	struct hvd_err reported;

	if (driver->conn)
		hvd_err_set(&reported, HVD_E_FAILED, "%s", why->msg);
	fail(driver, driver->conn ? &reported : why);
}

void hvd_driver_client_cannot(struct hvd_driver_client *driver, const struct hvd_err *why)
{
	hvd_driver_client_send(driver, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", driver->info->name,
						 "why", why->msg, "hint", why->hint));
	fail_reported(driver, why);
}

/* This host is none of the job's. */
static void spare(struct hvd_driver_client *driver, const char *why)
{
	if (driver->over)
		return;
	driver->over = true;
	hvd_log(driver->log, driver->conn ? HVD_LOG_DEBUG : HVD_LOG_WARN, "%s takes no part in the job%s%s",
		driver->info->name, *why ? ": " : "", why);
	driver->ops->spare(driver->arg);
}

static void on_plan(struct hvd_driver_client *driver, const json_t *plan)
{
	struct hvd_timer *timer = driver->timer;
	struct hvd_err why = {0};

	if (json_is_true(json_object_get(plan, "spare"))) {
		spare(driver, "");
		return;
	}
	if (hvd_taskinfo_renumber(driver->info, plan, &why) != 0) {
		hvd_driver_client_cannot(driver, &why);
		return;
	}
	driver->timer = NULL;
	hvd_timer_free(timer);
	driver->planned = true;
	/* In an elastic job the launcher gives up a host that cannot reach it, and the ranks here must not go on beside
	 * their replacements. */
	if (json_is_true(json_object_get(plan, "stay")))
		hvd_conn_watch_host(driver->conn);
	driver->ops->plan(plan, driver->arg);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct hvd_driver_client *driver = arg;
	struct hvd_err why = {0};
	const char *type;

	(void)conn;
	if (driver->over)
		return;
	if (hvd_get_str(msg, "t", 16, &type, &why) != 0) {
		fail(driver, &why);
		return;
	}
	/* The driver sends "end" before the plan when the user has interrupted the start. */
	if (driver->planned) {
		driver->ops->message(type, msg, driver->arg);
	} else if (strcmp(type, "failed") == 0 || strcmp(type, "end") == 0) {
		hvd_err_set(&why, HVD_E_FAILED, "the launch failed");
		fail(driver, &why);
	} else if (strcmp(type, "misused") == 0) {
		why.code = HVD_E_USAGE; /* the driver has said what was wrong */
		fail(driver, &why);
	} else if (strcmp(type, "plan") == 0) {
		on_plan(driver, msg);
	} else if (!driver->ops->message(type, msg, driver->arg)) {
		hvd_err_set(&why, HVD_E_PROTO, "the driver sent an unknown message \"%s\"", type);
		hvd_driver_client_cannot(driver, &why);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_driver_client *driver = arg;
	struct hvd_err gone = {0};

	(void)conn;
	driver->closed = true;
	driver->cut_off = why->code != HVD_OK;
	hvd_err_set(&gone, HVD_E_NET, "the connection to the driver ended%s%s", why->code ? ": " : "",
		    why->code ? why->msg : "");
	hvd_err_hint(&gone, "did srun or hvdrun end, or was it killed?");
	fail(driver, &gone);
}

/* Collect what the driver wants to know of this host. */
static int describe_host(struct hvd_driver_client *driver, struct hvd_err *err)
{
	const struct hvd_taskinfo *info = driver->info;
	struct hvd_ifaces ifs = {0};
	char host_name[256] = "";

	if (gethostname(host_name, sizeof(host_name) - 1) != 0)
		return hvd_err_sys(err, "cannot get this host's name");
	driver->host.name = hvd_xstrdup(info->name);
	driver->host.job = getenv("SLURM_JOB_ID") ? (uint32_t)strtoul(getenv("SLURM_JOB_ID"), NULL, 10) : 0;
	driver->host.switch_path =
		hvd_switch_path_of(getenv("SLURM_TOPOLOGY_ADDR"), getenv("SLURM_TOPOLOGY_ADDR_PATTERN"));
	driver->host.host = hvd_xstrdup(host_name);
	driver->host.n_ranks = info->local_size;
	driver->host.ranks = hvd_xcalloc(info->local_size, sizeof(*driver->host.ranks));
	memcpy(driver->host.ranks, info->ranks, info->local_size * sizeof(*driver->host.ranks));
	if (hvd_machine_id(driver->host.machine, err) != 0 || hvd_ifaces_query(&ifs, NULL, driver->deadline, err) != 0)
		return -1;
	hvd_host_info_set_ifaces(&driver->host, &ifs);
	hvd_host_info_set_user_ifnames(&driver->host, environ);
	hvd_ifaces_clear(&ifs);
	return 0;
}

/* With the list of all hosts of the step the driver can name a host from which nothing ever comes. */
static json_t *registration(const struct hvd_driver_client *driver)
{
	const struct hvd_taskinfo *info = driver->info;
	json_t *msg = hvd_host_info_to_json(&driver->host, info->node, info->nodes, info->size);
	const char *hosts = getenv("SLURM_STEP_NODELIST");
	const hvd_time now = hvd_now();

	json_object_set_new(msg, "clock", json_integer(now));
	json_object_set_new(msg, "wall", json_integer(hvd_wall_at(now)));
	if (driver->refusal)
		json_object_set_new(
			msg, "cannot",
			json_pack("{s:s, s:s}", "why", driver->refusal->msg, "hint", driver->refusal->hint));
	if (hosts)
		json_object_set_new(msg, "hosts", json_string(hosts));
	return msg;
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	struct hvd_driver_client *driver = arg;

	(void)conn;
	if (driver->planned)
		driver->ops->drained(driver->arg);
}

static void take_conn(struct hvd_driver_client *driver, struct hvd_conn *conn)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed, .drained = on_drained};

	driver->conn = conn;
	hvd_conn_set_ops(conn, &ops, driver);
	hvd_conn_set_low(conn, 1);
}

static void begin(struct hvd_driver_client *driver)
{
	driver->ops->connected(driver->arg);
	if (driver->over)
		return;
	hvd_driver_client_send(driver, registration(driver));
	if (driver->refusal)
		fail_reported(driver, driver->refusal);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	take_conn(arg, conn);
	begin(arg);
}

static void on_begin(void *arg)
{
	struct hvd_driver_client *driver = arg;

	if (!driver->over)
		begin(driver);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct hvd_driver_client *driver = arg;

	/* The driver does without this host, or it fails, and then ends the job where it is reached. */
	if (driver->spares)
		spare(driver, why->msg);
	else
		fail(driver, why);
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

bool hvd_driver_client_cut_off(const struct hvd_driver_client *driver)
{
	return driver->cut_off;
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
	struct hvd_driver_client *driver = hvd_xcalloc(1, sizeof(*driver));

	driver->base = base;
	driver->info = info;
	driver->spares = boot->spares;
	driver->deadline = hvd_deadline_in(boot->timeout);
	driver->ops = ops;
	driver->arg = arg;
	driver->log = log;
	driver->session = *session;
	/* Later than the driver's: what the driver says names who is late. If this agent ended first, the driver would
	 * blame this host. */
	driver->timer = hvd_timer_new(base, on_deadline, driver);
	hvd_timer_at(driver->timer, driver->deadline + (hvd_time)(PLAN_SECONDS * 1e9));
	if (conn) {
		take_conn(driver, conn);
		driver->begin = hvd_timer_new(base, on_begin, driver);
		hvd_timer_soon(driver->begin);
	} else {
		/* The connections are under way while this process looks at the host's interfaces. */
		driver->dial = hvd_dial_create(base, boot, &driver->session, driver->deadline, on_up, on_down, driver);
	}
	if (describe_host(driver, err) != 0) {
		hvd_driver_client_destroy(driver);
		return NULL;
	}
	return driver;
}

const struct hvd_key *hvd_driver_client_key(const struct hvd_driver_client *driver)
{
	return &driver->session.key;
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

void hvd_driver_client_refuse(struct hvd_driver_client *driver, const struct hvd_err *why)
{
	driver->refusal = why;
}

struct hvd_host_info *hvd_driver_client_host(struct hvd_driver_client *driver)
{
	return &driver->host;
}

void hvd_driver_client_send(struct hvd_driver_client *driver, json_t *msg)
{
	if (driver && driver->conn && msg)
		hvd_conn_send(driver->conn, msg);
	else
		json_decref(msg);
}

struct hvd_conn *hvd_driver_client_conn(const struct hvd_driver_client *driver)
{
	return driver->conn;
}

bool hvd_driver_client_sending(const struct hvd_driver_client *driver)
{
	return driver && driver->conn && !driver->closed && hvd_conn_queued(driver->conn) > 0;
}

void hvd_driver_client_destroy(struct hvd_driver_client *driver)
{
	if (!driver)
		return;
	hvd_timer_free(driver->timer);
	hvd_dial_destroy(driver->dial);
	/* Messages that were queued last ("cannot", "exit") are still sent; output is acknowledged. */
	if (driver->begin)
		hvd_conn_linger(driver->conn, hvd_deadline_in(LINGER_SECONDS));
	else
		hvd_conn_finish(driver->conn, hvd_deadline_in(1));
	hvd_timer_free(driver->begin);
	hvd_host_info_clear(&driver->host);
	free(driver);
}
