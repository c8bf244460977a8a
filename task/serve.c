/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"

#include "agent.h"
#include "last_report.h"
#include "lib/base/cleanup.h"
#include "lib/base/key.h"
#include "lib/base/xalloc.h"
#include "lib/job/network.h"
#include "lib/job/this_host.h"
#include "lib/process/rlimits.h"
#include "lib/process/spawn.h"
#include "lib/protocol/preamble.h"
#include "lib/rendezvous/service.h"
#include "link.h"
#include "step_tasks.h"
#include "stopped_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the server may take to end after its task. Its last message takes a second at most. */
#define LAST_MS 2000

struct serve {
	struct event_base *base;
	const struct hvd_boot *boot;
	const struct hvd_taskinfo *info;
	const struct hvd_log *log;
	struct hvd_session session;
	struct hvd_conn *conn;
	struct hvd_rv_service service;
	struct hvd_step_tasks tasks;
	struct event *task_ended; /* NULL: there is no task, or no way to watch it */
	bool tcpstore, done;
	struct hvd_err *err;
	int rc;
};

static int find_self(char self[PATH_MAX], struct hvd_err *err)
{
	ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);

	if (n < 0)
		return hvd_err_sys(err, "cannot tell where hvd-task is");
	self[n] = '\0';
	return 0;
}

int hvd_serve_spawn(pid_t task, const struct hvd_boot *boot, bool tcpstore, struct hvd_err *err)
{
	char self[PATH_MAX], watchdog[32];
	int key;
	char *argv[] = {(char *)"hvd-task", watchdog, tcpstore ? (char *)"--tcpstore" : NULL, NULL};
	/* The watchdog has a session of its own and none of the task's descriptors, so that the reader of the task's
	 * output sees its end when the task ends. Nobody waits for it here: init or the step daemon reaps it. It
	 * ignores a SIGTERM for all processes of the step, because the ranks may need the rendezvous while they act on
	 * it. */
	struct hvd_spawn spawn = {.path = self, .argv = argv, .new_session = 1, .ignore_ends = 1, .ignore_user = 1};

	snprintf(watchdog, sizeof(watchdog), "--watchdog=%d", (int)task);
	if (find_self(self, err) != 0)
		return -1;
	for (int fd = 0; fd < 3; fd++)
		hvd_spawn_fd(&spawn, -1, fd);
	if (sscanf(boot->id, "fd:%d", &key) == 1)
		hvd_spawn_fd(&spawn, key, HVD_KEY_FD); /* SLURM_HVD_BOOT, which the child inherits, names it */
	return hvd_spawn(&spawn, err) < 0 ? -1 : 0;
}

/* A descriptor from which the server reads the driver's address and the key, as hvd-task --stdin does. */
static int preamble_pipe(const struct hvd_boot *boot, struct hvd_err *err)
{
	struct hvd_preamble p = {.directory = (char *)""};
	unsigned char *bytes = NULL;
	int key, fds[2] = {-1, -1};
	size_t n = 0;

	if (sscanf(boot->id, "fd:%d", &key) != 1)
		return hvd_err_set(err, HVD_E_SYS, "there is no key for the rendezvous server");
	if (hvd_key_read_fd(key, &p.key, err) != 0 || hvd_boot_format(boot, p.boot, err) != 0 ||
	    hvd_preamble_format(&p, &bytes, &n, err) != 0)
		return -1;
	/* It is far less than a pipe takes at once. */
	if (pipe2(fds, O_CLOEXEC) != 0 || write(fds[1], bytes, n) != (ssize_t)n) {
		hvd_err_sys(err, "cannot hand the key to the rendezvous server");
		if (fds[0] >= 0)
			close(fds[0]);
		fds[0] = -1;
	}
	if (fds[1] >= 0)
		close(fds[1]);
	explicit_bzero(bytes, n);
	explicit_bzero(&p.key, sizeof(p.key));
	free(bytes);
	return fds[0];
}

int hvd_serve_spawn_detached(const struct hvd_boot *boot, const struct hvd_taskinfo *info, bool tcpstore,
			     struct hvd_err *err)
{
	hvd_cleanup_free char *host = hvd_xasprintf("--at=%u:%u:%s", info->node, info->nodes, info->name);
	char *argv[] = {(char *)"hvd-task",
			(char *)"--serve=0",
			(char *)"--stdin",
			host,
			tcpstore ? (char *)"--tcpstore" : NULL,
			NULL};
	struct hvd_spawn spawn = {
		.path = "/proc/self/exe", .argv = argv, .new_session = 1, .ignore_ends = 1, .ignore_user = 1};
	int fd = preamble_pipe(boot, err), status;
	pid_t pid;

	if (fd < 0)
		return -1;
	hvd_spawn_fd(&spawn, fd, STDIN_FILENO);
	hvd_spawn_fd(&spawn, -1, STDOUT_FILENO);
	hvd_spawn_fd(&spawn, -1, STDERR_FILENO);
	pid = hvd_spawn(&spawn, err);
	close(fd);
	/* The child has a child of its own, and ends at once: leave_parent(). */
	if (pid < 0 || hvd_wait(pid, hvd_deadline_in(boot->timeout), &status, err) != 0)
		return -1;
	return status == 0 ? 0 : hvd_err_set(err, HVD_E_SYS, "cannot start the rendezvous server");
}

/* Go on as a process that init adopts: the node agent ends its own children together with the ranks. */
static int leave_parent(struct hvd_err *err)
{
	pid_t pid = fork();

	if (pid < 0)
		return hvd_err_sys(err, "cannot fork");
	if (pid > 0)
		_exit(0);
	return 0;
}

int hvd_serve_watch(const struct hvd_boot *boot, const struct hvd_taskinfo *info, pid_t task, bool tcpstore,
		    struct hvd_err *err)
{
	char self[PATH_MAX], serve[32];
	char *argv[] = {(char *)"hvd-task", serve, tcpstore ? (char *)"--tcpstore" : NULL, NULL};
	struct hvd_spawn spawn = {.path = self, .argv = argv, .keep_fds = 1, .ignore_ends = 1, .ignore_user = 1};
	struct pollfd ends[2] = {{.events = POLLIN}, {.fd = -1, .events = POLLIN}};
	struct hvd_stopped_child child;
	struct hvd_step_tasks tasks;
	struct hvd_session session;
	bool keyed = fcntl(HVD_KEY_FD, F_GETFD) >= 0, left;
	pid_t server = -1;
	int status = 0;

	snprintf(serve, sizeof(serve), "--serve=%d", (int)task);
	if (find_self(self, err) != 0)
		return -1;
	hvd_step_tasks_init(&tasks, task);
	if (hvd_agent_session(boot, &session, err) == 0 && hvd_step_tasks_open(&tasks, err) == 0)
		server = hvd_spawn(&spawn, err);
	if (server < 0) /* serve without a watchdog */
		return hvd_exec(&spawn, err);
	ends[0].fd = tasks.fd;
	ends[1].fd = (int)syscall(SYS_pidfd_open, server, 0);
	if (keyed)
		close(HVD_KEY_FD); /* the server has its own copy */
	hvd_stopped_child_begin(&child, server);
	while ((left = hvd_step_tasks_left(&tasks)) && !ends[1].revents)
		hvd_stopped_child_poll(&child, ends, 2);
	hvd_step_tasks_clear(&tasks);
	if (left && waitpid(server, &status, WNOHANG) == server) {
		if (status != 0)
			hvd_last_report_death(boot, &session, info, "rendezvous", server, status);
		return 0;
	}
	/* When the tasks have ended, the server ends by itself, unless somebody has stopped it. */
	while (!ends[1].revents && poll(&ends[1], 1, LAST_MS) < 0 && errno == EINTR)
		;
	kill(server, SIGKILL);
	return 0;
}

static void stop(struct serve *serve, int rc)
{
	serve->rc = rc;
	event_base_loopbreak(serve->base);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct serve *serve = arg;

	(void)conn;
	hvd_rv_service_message(&serve->service, msg);
}

static void on_task_ended(evutil_socket_t fd, short what, void *arg)
{
	struct serve *serve = arg;

	(void)fd;
	(void)what;
	if (hvd_step_tasks_left(&serve->tasks))
		return;
	event_del(serve->task_ended);
	serve->done = true;
	stop(serve, 0);
}

/* Without pidfds Slurm ends this process. */
static void watch_tasks(struct serve *serve, pid_t task)
{
	hvd_step_tasks_init(&serve->tasks, task);
	if (hvd_step_tasks_open(&serve->tasks, NULL) != 0)
		return;
	serve->task_ended = event_new(serve->base, serve->tasks.fd, EV_READ | EV_PERSIST, on_task_ended, serve);
	event_add(serve->task_ended, NULL);
}

/* The end: send the last message, if there is one, and free everything. */
static void finish(struct serve *serve)
{
	if (serve->task_ended)
		event_free(serve->task_ended);
	hvd_rv_service_close(&serve->service);
	if (serve->conn && serve->done)
		hvd_conn_send(serve->conn, json_pack("{s:s}", "t", "done"));
	if (serve->conn && (serve->done || serve->rc != 0)) {
		hvd_conn_finish(serve->conn, hvd_deadline_in(1));
		event_base_dispatch(serve->base);
	} else {
		hvd_conn_free(serve->conn);
	}
	event_base_free(serve->base);
	if (serve->tasks.task)
		kill(getppid(), SIGCONT); /* a watchdog that somebody has stopped must go on, to end, too */
}

/* The launch is over, or the driver was killed: the ranks still need the rendezvous, as long as Slurm's tasks run. */
static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct serve *serve = arg;

	(void)why;
	hvd_rv_service_lost(&serve->service, conn);
	if (!serve->task_ended || serve->service.endpoints.n == 0) {
		stop(serve, 0);
		return;
	}
	hvd_conn_free(conn);
	serve->conn = NULL;
}

/* Listen on every address of this host, including loopback for its own ranks. */
static int begin(struct serve *serve)
{
	struct hvd_this_host self;
	int rc;

	/* The plan, which is not made yet, will choose some of them. */
	if (hvd_this_host_query(&self, HVD_NODE_MAX_IFACES, false, NULL, serve->err) != 0)
		return -1;
	if (serve->tcpstore) {
		hvd_rv_service_tcpstore(&serve->service, NULL, NULL);
		hvd_rv_service_report_to(&serve->service, serve->base, serve->conn);
	}
	if (serve->boot->relays)
		hvd_rv_service_relays(&serve->service, serve->boot->session);
	if (serve->boot->relays)
		hvd_rv_service_relays(&serve->service, serve->boot->session);
	rc = hvd_rv_service_open(&serve->service, serve->base, &serve->session.key, &self, serve->boot->port_lo,
				 serve->boot->port_hi, (int32_t)serve->info->node, serve->log, serve->err);
	hvd_this_host_clear(&self);
	return rc;
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct serve *serve = arg;

	serve->conn = conn;
	hvd_conn_set_ops(conn, &ops, serve);
	hvd_conn_watch_host(conn);
	if (begin(serve) == 0) {
		hvd_conn_send(conn, json_pack("{s:s, s:I, s:i, s:i}", "t", "serving", "node",
					      (json_int_t)serve->info->node, "port", (int)serve->service.endpoints.port,
					      "relay_port", (int)serve->service.endpoints.relay_port));
		return;
	}
	hvd_conn_send(conn, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", serve->info->name, "why",
				      serve->err->msg, "hint", serve->err->hint));
	stop(serve, -1);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct serve *serve = arg;

	*serve->err = *why;
	stop(serve, -1);
}

int hvd_serve_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, pid_t task, bool tcpstore,
		  const struct hvd_log *log, struct hvd_err *err)
{
	struct serve serve = {.boot = boot, .info = info, .log = log, .tcpstore = tcpstore, .err = err};
	struct hvd_link *link;

	if (!task && leave_parent(err) != 0)
		return -1;
	serve.base = event_base_new();
	if (!serve.base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	hvd_raise_nofile();
	if (hvd_agent_session(boot, &serve.session, err) != 0) {
		event_base_free(serve.base);
		return -1;
	}
	if (task)
		watch_tasks(&serve, task);
	link = hvd_link_create(serve.base, boot, &serve.session, hvd_deadline_in(boot->timeout), on_up, on_down,
			       &serve);
	event_base_dispatch(serve.base);
	hvd_link_destroy(link);
	finish(&serve);
	hvd_step_tasks_clear(&serve.tasks);
	return serve.rc;
}
