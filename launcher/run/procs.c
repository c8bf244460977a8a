/* SPDX-License-Identifier: Apache-2.0 */
#include "procs.h"

#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/preamble.h"
#include "output_mux.h"
#include "stdin_forward.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a shim said last may still be on its way when its process is seen to have ended. */
#define LATE_MS 200
/* How often processes are woken up whose hosts have not registered (wake_signal). */
#define WAKE_MS 250

struct one {
	struct hvd_procs *procs;
	struct hvd_proc *proc;
	pid_t pid; /* 0 when it has been reaped or was not started */
	int status;
	int ranks_left; /* not reported yet; 0 where the backend starts no hosts */
	bool came, over;
	struct hvd_stdin_forward *feed;
	struct event *late;
};

struct hvd_procs {
	struct event_base *base;
	struct hvd_launch *launch;
	const struct hvd_backend *backend;
	const struct hvd_procs_opts *opts;
	const struct hvd_procs_ops *ops;
	void *arg;
	struct hvd_output_mux *out[2]; /* stdout, stderr; NULL where the processes write to ours themselves */
	struct one *v;
	size_t n, started, running; /* the first n are to run */
	unsigned under_way;
	struct event *wake; /* NULL where the backend has no wake_signal */
};

/* ---- starting ---- */

/* A descriptor from which the one local shim reads the launch's key. */
static int key_pipe(const struct hvd_key *key, struct hvd_err *err)
{
	int fds[2];

	if (pipe(fds) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	if (write(fds[1], key->b, HVD_KEY_LEN) != HVD_KEY_LEN) {
		close(fds[0]);
		fds[0] = hvd_err_sys(err, "cannot hand over the launch's key");
	}
	close(fds[1]);
	return fds[0];
}

/* The launch's data, behind it what hvdrun itself reads: for the first host only, which has rank 0. */
static int stdin_of(struct one *one, bool first, struct hvd_err *err)
{
	struct hvd_procs *procs = one->procs;
	bool srun = procs->launch->by_stdin; /* which brings environment and directory */
	struct hvd_preamble p = {.key = *procs->opts->key, .directory = srun ? hvd_xstrdup("") : getcwd(NULL, 0)};
	unsigned char *bytes;
	int rc = -1, fd = -1;
	size_t n;

	if (!p.directory) {
		hvd_err_sys(err, "cannot tell the current directory");
	} else {
		memcpy(p.boot, procs->opts->boot, strlen(procs->opts->boot) + 1);
		if (!srun)
			hvd_launch_export(procs->launch, &p.env);
		rc = hvd_preamble_format(&p, &bytes, &n, err);
	}
	hvd_preamble_clear(&p);
	if (rc == 0)
		one->feed = hvd_stdin_forward_create(procs->base, bytes, n, first ? STDIN_FILENO : -1, &fd, err);
	return fd;
}

/* Labelled lines of several processes must not mix, and srun does not keep lines whole. */
static int open_streams(struct hvd_procs *procs, struct hvd_spawn *spawn, int fds[2], struct hvd_err *err)
{
	enum hvd_label label = procs->launch->spec->output.label;
	bool hosts = procs->backend->mode == HVD_START_HOSTS && (!procs->backend->loopback || procs->n > 1) &&
		     label != HVD_LABEL_NONE;
	enum hvd_output_mux_form form = !hosts                       ? HVD_OUTPUT_MUX_TASKS
					: label == HVD_LABEL_HOROVOD ? HVD_OUTPUT_MUX_HOROVOD
								     : HVD_OUTPUT_MUX_LINES;

	for (int s = 0; s < 2 && (hosts || procs->launch->framed); s++) {
		if (!procs->out[s] && !(procs->out[s] = hvd_output_mux_create(procs->base, s + 1, form, err)))
			return -1;
		fds[s] = hvd_output_mux_open(procs->out[s], err);
		if (fds[s] < 0)
			return -1;
		hvd_spawn_fd(spawn, fds[s], s + 1);
	}
	return 0;
}

static int start_one(struct one *one, bool first, struct hvd_err *err)
{
	struct hvd_procs *procs = one->procs;
	struct hvd_proc *proc = one->proc;
	struct hvd_spawn spawn = {.path = proc->argv.v[0],
				  .argv = proc->argv.v,
				  .parent_death_signal = procs->backend->launch_proc_ignores_signals ? 0 : SIGTERM,
				  .ignore_ends = procs->backend->launch_proc_ignores_signals,
				  .ignore_user = procs->backend->launch_proc_ignores_signals,
				  .nofile = procs->opts->nofile,
				  .new_group = procs->backend->mode != HVD_START_RANKS};
	bool by_stdin = procs->backend->by_stdin || procs->launch->by_stdin;
	int fd = -1, to = STDIN_FILENO, streams[2] = {-1, -1};

	/* A plugin that srun has is to see whose step it is. */
	if (!procs->backend->by_stdin)
		hvd_env_set(&proc->env, HVD_BOOT_ENV, procs->opts->boot);
	if (by_stdin) {
		fd = stdin_of(one, first && !procs->opts->no_stdin && !procs->launch->no_input, err);
	} else {
		to = HVD_KEY_FD;
		if (procs->backend->loopback)
			fd = key_pipe(procs->opts->key, err);
	}
	if (fd < 0 && (by_stdin || procs->backend->loopback))
		return -1;
	if (fd >= 0)
		hvd_spawn_fd(&spawn, fd, to);
	if (proc->fd >= 0)
		hvd_spawn_fd(&spawn, proc->fd, proc->fd);
	spawn.envp = proc->env.v;
	spawn.cwd = proc->cwd;
	one->pid = open_streams(procs, &spawn, streams, err) == 0 ? hvd_spawn(&spawn, err) : -1;
	for (int s = 0; s < 2; s++)
		if (streams[s] >= 0)
			close(streams[s]);
	if (fd >= 0)
		close(fd);
	if (one->pid >= 0) {
		if (procs->wake && !evtimer_pending(procs->wake, NULL))
			evtimer_add(procs->wake, &(struct timeval){.tv_usec = WAKE_MS * 1000});
		return 0;
	}
	one->pid = 0;
	return -1;
}

int hvd_procs_start(struct hvd_procs *procs, struct hvd_err *err)
{
	unsigned most = procs->backend->fan_out;

	while (procs->started < procs->n && (!most || procs->under_way < most)) {
		if (start_one(&procs->v[procs->started], procs->started == 0, err) != 0)
			return -1;
		procs->started++;
		procs->running++;
		procs->under_way++;
	}
	return 0;
}

static void start_more(struct hvd_procs *procs)
{
	struct hvd_err why = {0};

	if (hvd_procs_start(procs, &why) != 0) {
		hvd_procs_stop(procs);
		procs->ops->lost(&why, procs->arg);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_procs *procs = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < procs->started; i++)
		if (procs->v[i].pid > 0 && !procs->v[i].came)
			kill(-procs->v[i].pid, procs->backend->wake_signal);
	if (procs->under_way > 0)
		evtimer_add(procs->wake, &(struct timeval){.tv_usec = WAKE_MS * 1000});
}

/* ---- ending ---- */

static void explain(const struct one *one, struct hvd_err *why)
{
	const struct hvd_procs *procs = one->procs;
	char text[64];

	if (procs->backend->explain) {
		procs->backend->explain(procs->launch, one->proc, one->status, one->came, why);
	} else {
		hvd_status_text(one->status, text, sizeof(text));
		hvd_err_set(why, HVD_E_FAILED, "its node agent ended before its ranks did: %s", text);
	}
	if (one->proc->host)
		hvd_err_host(why, one->proc->host);
}

static void settle(struct one *one)
{
	struct hvd_procs *procs = one->procs;
	struct hvd_err why = {0};

	one->over = true;
	procs->running--;
	if (!one->came)
		procs->under_way--;
	if (one->ranks_left > 0) {
		explain(one, &why);
		procs->ops->lost(&why, procs->arg);
	}
	procs->ops->ended(one->status, procs->arg);
	start_more(procs);
	if (procs->running == 0)
		procs->ops->all_ended(procs->arg);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	settle(arg);
}

void hvd_procs_reap(struct hvd_procs *procs)
{
	int status;

	for (size_t i = 0; i < procs->started; i++) {
		struct one *one = &procs->v[i];

		/* Its own only: others in this process may have children, too. */
		if (one->pid <= 0 || waitpid(one->pid, &status, WNOHANG) != one->pid)
			continue;
		one->pid = 0;
		one->status = status;
		/* One that was killed is itself the reason, whatever is reported of its ranks after it. */
		if (one->ranks_left > 0 && !WIFSIGNALED(status))
			event_add(one->late, &(struct timeval){.tv_usec = LATE_MS * 1000});
		else
			settle(one);
	}
}

void hvd_procs_came(struct hvd_procs *procs, size_t host)
{
	if (host >= procs->started || procs->v[host].came || procs->v[host].over)
		return;
	procs->v[host].came = true;
	procs->under_way--;
	start_more(procs);
}

void hvd_procs_rank_ended(struct hvd_procs *procs, const char *host)
{
	for (size_t i = 0; i < procs->started; i++)
		if (procs->v[i].ranks_left > 0 &&
		    (procs->backend->mode == HVD_START_SUPERVISED_RANKS ||
		     (procs->v[i].proc->host && strcmp(procs->v[i].proc->host, host) == 0))) {
			procs->v[i].ranks_left--;
			return;
		}
}

void hvd_procs_release(struct hvd_procs *procs)
{
	for (size_t i = 0; i < procs->n; i++)
		procs->v[i].ranks_left = 0;
}

void hvd_procs_stop(struct hvd_procs *procs)
{
	procs->n = procs->started;
}

void hvd_procs_signal(struct hvd_procs *procs, int sig)
{
	for (size_t i = 0; i < procs->started; i++)
		if (procs->v[i].pid > 0)
			kill(procs->backend->launch_proc_ignores_signals ? -procs->v[i].pid : procs->v[i].pid, sig);
}

pid_t hvd_procs_pid(const struct hvd_procs *procs)
{
	return procs->started ? procs->v[0].pid : 0;
}

/* ---- life ---- */

struct hvd_procs *hvd_procs_create(struct event_base *base, struct hvd_launch *launch,
				   const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
				   const struct hvd_procs_ops *ops, void *arg)
{
	struct hvd_procs *procs = hvd_xcalloc(1, sizeof(*procs));

	procs->base = base;
	procs->launch = launch;
	procs->backend = backend;
	procs->opts = opts;
	procs->ops = ops;
	procs->arg = arg;
	procs->n = launch->n_procs;
	procs->v = hvd_xcalloc(procs->n, sizeof(*procs->v));
	if (backend->wake_signal)
		procs->wake = evtimer_new(base, on_wake, procs);
	for (size_t i = 0; i < procs->n; i++) {
		procs->v[i].procs = procs;
		procs->v[i].proc = &launch->procs[i];
		procs->v[i].late = evtimer_new(base, on_late, &procs->v[i]);
		if (backend->mode == HVD_START_HOSTS && i < (size_t)launch->alloc.n_hosts)
			procs->v[i].ranks_left = launch->alloc.hosts[i].slots;
		if (backend->mode == HVD_START_SUPERVISED_RANKS)
			procs->v[i].ranks_left = launch->alloc.slots;
	}
	return procs;
}

int hvd_procs_destroy(struct hvd_procs *procs)
{
	int rc = 0;

	if (!procs)
		return 0;
	for (size_t i = 0; i < procs->launch->n_procs; i++) {
		struct one *one = &procs->v[i];

		hvd_stdin_forward_destroy(one->feed);
		if (one->pid > 0)
			hvd_end(one->pid, 1, NULL);
		if (one->late)
			event_free(one->late);
	}
	if (procs->wake)
		event_free(procs->wake);
	for (int s = 0; s < 2; s++) {
		errno = hvd_output_mux_finish(procs->out[s]);
		if (!errno)
			continue;
		rc = -1;
		hvd_error(procs->launch->log, "output of ranks is lost: cannot write to standard %s: %s",
			  s ? "error" : "output", strerror(errno));
	}
	free(procs->v);
	free(procs);
	return rc;
}
