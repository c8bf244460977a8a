/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - launch backends: what starts processes on the hosts of a job.
 *
 * A backend turns the launch spec into the processes that hvdrun starts on its
 * own host: one srun for the whole job, one ssh per host, or one node agent for
 * this machine. Each of these processes starts hvd-agent, on its own host or on
 * another, and hvd-agent connects to the driver.
 *
 * To add a backend: a file with its struct hvd_backend_NAME, and NAME in the list of launcher/options/launchers.h.
 */
#ifndef HVD_BACKEND_H
#define HVD_BACKEND_H

#include "launcher/options/launch_spec.h"
#include "launcher/options/launchers.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"
#include "lib/host/local_hosts.h"
#include "lsf/lsf.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_agent_pool;
struct hvd_role_specs;
struct hvd_pool_agent;
struct hvd_scratch;

/* A launch process: one process that hvdrun starts on its own host. */
struct hvd_proc {
	struct hvd_strv argv;
	struct hvd_strv env; /* the whole environment; whoever starts the process adds the boot variable */
	/* A shell of another host may read `argv`, and shells differ in how words are quoted. So this part of the
	 * command line of hvd-agent comes on its stdin, in the preamble. Empty: `argv` has all. */
	struct hvd_strv stdin_args;
	const char *host; /* the host whose ranks it starts; NULL = the ranks of all hosts. Not owned */
	const char *cwd;  /* a string constant; NULL = hvdrun's directory */
	int fd;           /* a descriptor that the process inherits under the same number; -1 = none. Owned */
	struct hvd_pool_agent *agent; /* a self-registering agent that was taken (agent_pool.h) in its place; or NULL */
};

/* In place of a wait status: it was a self-registering agent, whose connection ended before it reported a status. */
#define HVD_PROC_LOST (-1)

struct hvd_launch {
	/* In: set before a backend is called. Nothing here is owned. */
	const struct hvd_launch_spec *spec;
	char *const *envp;
	const char *agent, *selftest; /* paths of hvd-agent and hvd-selftest */
	const struct hvd_log *log;
	struct hvd_local_hosts *local_hosts;
	/* In, for the backend join: where agents wait (agent_pool.h). The job runs in its event loop, with its key. */
	struct hvd_agent_pool *agent_pool;
	unsigned long nofile; /* the soft limit of open files before it was raised for them; 0 = it was not */
	const struct hvd_role_specs
		*roles; /* In: of a launch of several roles; `spec` is that of the first. NULL: it has none */
	/* In, for elastic jobs: each host has a struct hvd_launch, see hvd_launch_for_host(). */
	int first_host; /* the host's index among all hosts that the job has ever had */
	bool another;   /* the job has started a process before: files of output are appended to */
	const struct hvd_strv
		*gpus; /* HOST=NUMBER, of each host of a Slurm job that has GPUs as a whole (-G); NULL: no such
				      * job */
	bool unbound;  /* Slurm's configuration binds no tasks */
	/* There is no munge, so srun's shims read the launch's key from their stdin (hvd-agent shim --stdin). hvdrun's
	 * own stdin follows the key, unless `no_input`. */
	bool by_stdin, no_input;

	/* Out: what hvd_backend_prepare() has found. hvd_launch_clear() frees it. */
	struct hvd_alloc alloc;      /* hosts and slots in use; empty when only srun knows them */
	struct hvd_lsf lsf;          /* in an LSF job: LSF's facts about the hosts in `alloc` */
	bool one_machine;            /* all hosts are this machine, though the backend could reach others */
	struct hvd_scratch *scratch; /* temporary files, which are removed with it; or NULL */
	struct hvd_proc *procs;
	size_t n_procs;
	bool proc_writes_files; /* the launch process writes the files of --output-filename, not the shims */
	bool framed; /* the launch process is srun --label, and the shims frame their output (output_frame.h) */
};

/* Append to `argv` the command that runs `agent`, the words of a command line of hvd-agent, on `host`. */
typedef void hvd_reach_fn(const struct hvd_launch *launch, const char *host, char *const *agent, struct hvd_strv *argv);

struct hvd_backend {
	const char *name; /* the value of --launcher */
	enum hvd_start_mode mode;
	bool loopback; /* it starts processes on this machine only: the driver listens on 127.0.0.1 */
	/* What it starts reads environment, directory and key from its stdin (lib/protocol/preamble.h): hvd-agent host
	 * --stdin. */
	bool by_stdin;
	/* How many launch processes may be connecting to their hosts at a time; 0 = any number. */
	unsigned fan_out;
	/* All ranks are tasks of one srun, which accepts every option of srun. */
	bool one_srun;
	/* Killing a launch process would kill its node agent before the agent can end its ranks. So the launch process
	 * is started with SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 ignored, survives hvdrun, and ends when
	 * the node agent has ended, which gets that order over its connection to the driver. A signal that hvdrun does
	 * send goes to the launch process's whole group. */
	bool launch_proc_ignores_signals;
	/* A launch process may leave its stdin unread until a signal wakes it up. This signal is sent to its group
	 * again and again until its host has registered; it must mean nothing to the remote side. 0 = none. */
	int wake_signal;
	/* HVD_START_RANKS: its exit status does not show that a signal ended it, so hvdrun's does. */
	bool status_hides_signals;
	/* Is it the right backend here if the user has not named one? Never NULL. */
	bool (*suits)(const struct hvd_launch *launch);
	/* Refuse what it cannot do, in elastic jobs as well; -1 with err set. NULL: nothing. */
	int (*check)(const struct hvd_launch *launch, struct hvd_err *err);
	/* Fill the out part of `launch`. NULL: as hvd_launch_hosts() and hvd_launch_add_hosts() do. */
	int (*prepare)(struct hvd_launch *launch, struct hvd_err *err);
	/* HVD_START_HOSTS: how a host is reached. NULL: this machine only, or add_host does it. */
	hvd_reach_fn *reach;
	/* Elastic jobs, in place of prepare: append the process that starts the node agent of the one host in
	 * launch->alloc. NULL: as hvd_launch_add_hosts() does. */
	int (*add_host)(struct hvd_launch *launch, struct hvd_err *err);
	/* The backend that starts node agents for elastic jobs, often this one. NULL: elastic jobs are refused. */
	const struct hvd_backend *elastic;
	/* Set `why`, and a hint, for a launch process that ended before its ranks did. `status` is as from waitpid(2);
	 * `registered`: its host had. NULL: the message contains only the status. */
	void (*explain)(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
			struct hvd_err *why);
};

#define HVD_DECLARE(name) extern const struct hvd_backend hvd_backend_##name;
HVD_LAUNCHERS(HVD_DECLARE)
#undef HVD_DECLARE
extern const struct hvd_backend hvd_backend_steps; /* srun, a step for each host of an elastic job */

/* The backend that the user named, or the first that suits. NULL with err set, also when it refuses the launch. */
const struct hvd_backend *hvd_backend_choose(const struct hvd_launch *launch, struct hvd_err *err);

/* Refuse what this backend cannot do, and fill the out part of `launch`. After an error hvd_launch_clear() is due. */
int hvd_backend_prepare(const struct hvd_backend *backend, struct hvd_launch *launch, struct hvd_err *err);

/* The launch of one host of an elastic job, with the process that starts the host's node agent: as that of the job, but
 * the allocation is this host. `number` is its number among all that the job has ever had. -1 with err set;
 * hvd_launch_clear() is due in any case. */
int hvd_launch_for_host(struct hvd_launch *one, const struct hvd_launch *job, const struct hvd_backend *backend,
			int number, const struct hvd_alloc_host *host, struct hvd_err *err);

/* Must the job that an elastic launch needs be made first? And the command line that makes it by salloc and runs `argv`,
 * hvdrun's own words, in it; appended to *out. -1 with HVD_E_USAGE: roles do not say how large a job they need. */
bool hvd_launch_needs_salloc(const struct hvd_launch *launch, const struct hvd_backend *backend);
int hvd_launch_salloc(const struct hvd_launch *launch, char *const *argv, struct hvd_strv *out, struct hvd_err *err);
/* For srun's backends: does the user say where the hosts come from? And name the job or step after the user's command, which
 * is hvd-agent here. Within a job the option would also change SLURM_JOB_NAME of the ranks. Options of the user that follow
 * win. */
bool hvd_launch_hosts_told(const struct hvd_launch_spec *spec);
void hvd_launch_name_job(const struct hvd_launch *launch, struct hvd_strv *argv);

/* After srun's prepare, without munge: have srun send the key to all tasks on their stdin, and have the shims implement
 * --input. Refuses --pty and a file as --input, which need stdin for something else. */
int hvd_srun_by_stdin(struct hvd_launch *launch, struct hvd_err *err);

/* ---- for backends: launch processes ---- */

/* Append a process with this launch's environment. The pointer is valid until the next call. */
struct hvd_proc *hvd_launch_add(struct hvd_launch *launch, const char *host);
/* Append to the process's command line hvd-agent with a subcommand (host, shim) and the options that all backends need,
 * then the user's command. Options that only one backend needs are added between the two calls. */
void hvd_launch_add_agent(struct hvd_launch *launch, struct hvd_proc *proc, const char *subcommand);
/* Append the options for a node agent that name its host, launch->alloc.hosts[index], and its ranks. */
void hvd_launch_add_ranks(const struct hvd_launch *launch, int index, int first_rank, struct hvd_strv *argv);
/* Bind the ranks of an agent as the user wants it. */
void hvd_launch_add_binding(const struct hvd_launch *launch, struct hvd_strv *argv);
void hvd_launch_add_command(struct hvd_launch *launch, struct hvd_strv *argv);
/* Do ranks of a backend that reaches other hosts write lines without labels, which are to stay whole? Not where all of
 * them are on this machine: they may write to the terminal themselves. */
bool hvd_launch_mixes_output(const struct hvd_launch *launch);
/* For each host of launch->alloc append a process that starts its node agent, with ranks in slot order. On this machine
 * the process is the node agent itself; on others it is the command line that `reach` makes of the node agent's. Node
 * agents read the launch's data from their stdin, unless `reach` is NULL: then all hosts are this machine. */
void hvd_launch_add_hosts(struct hvd_launch *launch, hvd_reach_fn *reach);
/* Append to `env` the variables of the user's environment that make sense on other hosts. */
void hvd_launch_export(const struct hvd_launch *launch, struct hvd_strv *env);

/* ---- for backends: hosts. These set launch->alloc; -1 with err set. ---- */

/* This machine, with as many slots as ranks are asked for, or as it has GPUs. */
int hvd_launch_local_alloc(struct hvd_launch *launch, struct hvd_err *err);
/* The hosts that the user listed (-H, --hostfile). */
int hvd_launch_listed(struct hvd_launch *launch, struct hvd_err *err);
/* The hosts of `granted`, or those that the user listed, which must be among them, unless there are none. */
int hvd_launch_within(struct hvd_launch *launch, const struct hvd_alloc *granted, struct hvd_err *err);
/* Does hvdrun run in a job of a scheduler whose hosts any backend may use? */
bool hvd_launch_has_granted(const struct hvd_launch *launch);
/* All slots of that job, or of those of its hosts that the user listed. Sets launch->lsf as well, and warns about data
 * of LSF that cannot be used. */
int hvd_launch_granted(struct hvd_launch *launch, struct hvd_err *err);
/* The hosts of that job or else the listed hosts, cut to the number of ranks. HVD_E_NOENT when there are neither. */
int hvd_launch_hosts(struct hvd_launch *launch, struct hvd_err *err);
/* Cut launch->alloc to `np` ranks, unless that is 0. With --spares keep so many more hosts than these need, each with
 * all of its slots. */
int hvd_launch_take(struct hvd_launch *launch, int np, struct hvd_err *err);

/* Is this host listed by that name? hvd_launch_find_local() looks the names of many hosts up at once. */
bool hvd_launch_is_local(const struct hvd_launch *launch, const char *host);
void hvd_launch_find_local(const struct hvd_launch *launch, const struct hvd_alloc *hosts);

/* Set `why`, and a hint, for an exit status that says why a node agent could not begin (lib/protocol/preamble.h). Returns
 * false for any other status. */
bool hvd_launch_explain_begin(int code, struct hvd_err *why);

/* Is there a program of that name in the user's PATH? */
bool hvd_launch_installed(const struct hvd_launch *launch, const char *program);

/* Free the out part. */
void hvd_launch_clear(struct hvd_launch *launch);

#endif
