/* SPDX-License-Identifier: Apache-2.0 */
/* proc_start.c - how a process of the job is started: its key, its stdin, and where its output goes. */
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/preamble.h"
#include "output_mux.h"
#include "procs_internal.h"
#include "stdin_forward.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A descriptor from which the node agent on this host reads the launch's key. */
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

/* What the node agents or rank shims read first from their stdin: key, boot text, environment, directory, arguments. With
 * `forward` hvdrun's own stdin follows. Returns the descriptor to read from, -1 with err set. */
static int preamble_pipe(struct hvd_started_proc *p, bool forward, struct hvd_err *err)
{
	struct hvd_procs *procs = p->procs;
	bool srun = procs->launch->by_stdin; /* srun brings environment and directory itself */
	struct hvd_preamble pre = {.key = *procs->opts->key, .directory = srun ? hvd_xstrdup("") : getcwd(NULL, 0)};
	unsigned char *bytes;
	int rc = -1, fd = -1;
	size_t n;

	if (!pre.directory) {
		hvd_err_sys(err, "cannot tell the current directory");
	} else {
		memcpy(pre.boot, procs->opts->boot, strlen(procs->opts->boot) + 1);
		if (!srun)
			hvd_launch_export(procs->launch, &pre.env);
		hvd_strv_add_all(&pre.args, p->proc->stdin_args.v);
		rc = hvd_preamble_format(&pre, &bytes, &n, err);
	}
	hvd_preamble_clear(&pre);
	if (rc == 0)
		p->stdin_forward =
			hvd_stdin_forward_create(procs->base, bytes, n, forward ? STDIN_FILENO : -1, &fd, err);
	return fd;
}

static enum hvd_output_mux_form form_of(enum hvd_label label)
{
	return label == HVD_LABEL_NONE      ? HVD_OUTPUT_MUX_PLAIN
	       : label == HVD_LABEL_HOROVOD ? HVD_OUTPUT_MUX_HOROVOD
					    : HVD_OUTPUT_MUX_LINES;
}

static int open_muxes(struct hvd_procs *procs, enum hvd_output_mux_form form, struct hvd_err *err)
{
	for (int s = 0; s < 2; s++)
		if (!procs->out[s] && !(procs->out[s] = hvd_output_mux_create(procs->base, s + 1, form, err)))
			return -1;
	return 0;
}

/* Can a write to this descriptor fail because there is no room? */
static bool may_be_full(int fd)
{
	struct stat st, none;

	if (fstat(fd, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) || isatty(fd))
		return false;
	return !S_ISCHR(st.st_mode) || stat("/dev/null", &none) != 0 || none.st_rdev != st.st_rdev;
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* srun does not tell that it could not write the tasks' output, so hvdrun writes it where that may happen. */
static int open_files(struct hvd_procs *procs, struct hvd_spawn *spawn, int fds[2], struct hvd_err *err)
{
	for (int s = 0; s < 2; s++) {
		int fd = s + 1;

		if (s == 1 && fds[0] >= 0 && same_file(STDOUT_FILENO, STDERR_FILENO)) {
			hvd_spawn_fd(spawn, fds[0], fd); /* in the order in which srun writes */
			continue;
		}
		if (!may_be_full(fd))
			continue;
		procs->out[s] = hvd_output_mux_create(procs->base, fd, HVD_OUTPUT_MUX_BYTES, err);
		fds[s] = procs->out[s] ? hvd_output_mux_open(procs->out[s], err) : -1;
		if (fds[s] < 0)
			return -1;
		hvd_spawn_fd(spawn, fds[s], fd);
	}
	return 0;
}

/* Output of several hosts goes through pipes to hvdrun, since their lines must not mix; so do labelled lines of srun's,
 * which does not keep lines whole. Otherwise the process writes to hvdrun's stdout and stderr itself. */
static int open_streams(struct hvd_procs *procs, struct hvd_spawn *spawn, int fds[2], struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = procs->launch->spec;
	enum hvd_label label = spec->output.label;
	bool hosts = procs->backend->mode == HVD_START_HOSTS &&
		     (!procs->backend->loopback || procs->launch->n_procs > 1) &&
		     (label != HVD_LABEL_NONE || hvd_launch_mixes_output(procs->launch));

	if (!hosts && !procs->launch->framed)
		return procs->backend->one_srun && !spec->srun.pty ? open_files(procs, spawn, fds, err) : 0;
	if (open_muxes(procs, hosts ? form_of(label) : HVD_OUTPUT_MUX_TASKS, err) != 0)
		return -1;
	for (int s = 0; s < 2; s++) {
		fds[s] = hvd_output_mux_open(procs->out[s], err);
		if (fds[s] < 0)
			return -1;
		hvd_spawn_fd(spawn, fds[s], s + 1);
	}
	return 0;
}

/* ---- self-registering agents ---- */

/* All that the agent has said came on the connection that has ended, so nothing is on its way. */
static void on_agent_ended(int status, void *arg)
{
	struct hvd_started_proc *p = arg;

	p->status = status < 0 ? HVD_PROC_LOST : W_EXITCODE(status, 0);
	hvd_timer_soon(p->late);
}

static void on_room(void *arg)
{
	struct hvd_procs *procs = arg;

	for (struct hvd_started_proc *p = procs->first; p; p = p->next)
		if (p->proc->agent)
			hvd_pool_agent_acknowledge(p->proc->agent);
}

static int open_for_agents(struct hvd_procs *procs, struct hvd_err *err)
{
	if (open_muxes(procs, form_of(procs->launch->spec->output.label), err) != 0)
		return -1;
	for (int s = 0; s < 2; s++)
		hvd_output_mux_on_room(procs->out[s], on_room, procs);
	procs->agents = (struct hvd_pool_agent_opts){.boot = procs->opts->boot, .out = {procs->out[0], procs->out[1]}};
	return 0;
}

static int start_agent(struct hvd_started_proc *p, bool input, struct hvd_err *err)
{
	struct hvd_procs *procs = p->procs;

	if (!procs->out[0] && open_for_agents(procs, err) != 0)
		return -1;
	return hvd_pool_agent_start(p->proc->agent, &p->proc->argv, &procs->agents, input, on_agent_ended, p, err);
}

int hvd_proc_start(struct hvd_started_proc *p, bool first, struct hvd_err *err)
{
	struct hvd_procs *procs = p->procs;
	struct hvd_proc *proc = p->proc;
	struct hvd_spawn spawn = {.path = proc->argv.v[0],
				  .argv = proc->argv.v,
				  .parent_death_signal = procs->backend->launch_proc_ignores_signals ? 0 : SIGTERM,
				  .ignore_ends = procs->backend->launch_proc_ignores_signals,
				  .ignore_user = procs->backend->launch_proc_ignores_signals,
				  .nofile = procs->opts->nofile,
				  .new_group = procs->backend->mode != HVD_START_RANKS};
	bool by_stdin = procs->backend->by_stdin || procs->launch->by_stdin;
	int fd = -1, to = STDIN_FILENO, streams[2] = {-1, -1};

	if (proc->agent)
		return start_agent(p, first && !procs->opts->elastic, err);
	/* Also with hvd-agent shim --stdin: srun's plugin, if there is one, has to see that the step is hvdrun's. */
	if (!procs->backend->by_stdin)
		hvd_env_set(&proc->env, HVD_BOOT_ENV, procs->opts->boot);
	if (by_stdin) {
		fd = preamble_pipe(p, first && !procs->opts->elastic && !procs->launch->no_input, err);
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
	p->pid = open_streams(procs, &spawn, streams, err) == 0 ? hvd_spawn(&spawn, err) : -1;
	for (int s = 0; s < 2; s++)
		if (streams[s] >= 0)
			close(streams[s]);
	if (fd >= 0)
		close(fd);
	return p->pid >= 0 ? 0 : -1;
}
