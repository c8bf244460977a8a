/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - what starts processes on hosts.
 *
 * A backend turns a request into the processes that the launcher has to run on
 * its own host: one srun for the whole job, one ssh per host, one shim for
 * this machine. Each of them leads, there or elsewhere, to hvd-task, which
 * finds the driver through HVD_BOOT_ENV. To add a backend: one file with one
 * struct hvd_backend, and its line in the table of backend.c.
 */
#ifndef HVD_BACKEND_H
#define HVD_BACKEND_H

#include "launcher/driver/start_mode.h"
#include "launcher/options/launch_spec.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/job/alloc.h"
#include "lsf/lsf.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_scratch;

/* One process to run on the launcher's host. */
struct hvd_proc {
	struct hvd_strv argv;
	struct hvd_strv env; /* whole environment, without the boot variable */
	const char *host;    /* whose ranks it starts; NULL = those of all hosts */
	const char *cwd;     /* static; NULL = the launcher's */
	int fd;              /* a descriptor to hand down under the same number, -1 = none; owned */
};

struct hvd_launch {
	/* In. */
	const struct hvd_launch_spec *spec;
	char *const *envp;
	const char *task, *selftest; /* paths of hvd-task and hvd-selftest */
	const struct hvd_log *log;
	/* … of an elastic job, which has one of these for each host (see add_host): */
	int first_host; /* the index of the allocation's host among all that the job has ever had */
	uint32_t job;   /* the Slurm job that it belongs to; 0 = the one that we are in */
	bool another;   /* one was started before: files of output have their beginning */
	bool unbound;   /* Slurm does not bind tasks here */
	/* srun's shims read the launch's key from their stdin, for there is no munge: hvd-task --stdin. What hvdrun
	 * itself reads follows, unless `no_input`. */
	bool by_stdin, no_input;
	/* Out. */
	struct hvd_alloc alloc;      /* hosts and slots in use; empty when the backend gets its allocation itself */
	struct hvd_lsf lsf;          /* inside an LSF job: what is known of them, as hvd_launch_hosts() found it */
	bool one_machine;            /* nothing leaves this machine, though the backend reaches others too */
	struct hvd_scratch *scratch; /* files that are to be gone with it; owned, or NULL */
	struct hvd_proc *procs;
	size_t n_procs;
	bool proc_writes_files; /* the one process writes the files of --output-filename, the shims do not */
	bool framed;            /* the one process is srun --label, and the shims' output is framed (output_frame.h) */
};

/* From the words of a shim to those of the command that runs it on another host; they are appended to `argv`. */
typedef void hvd_reach_fn(const struct hvd_launch *launch, const char *host, char *const *shim, struct hvd_strv *argv);

struct hvd_backend {
	const char *name;
	enum hvd_start_mode mode;
	bool loopback;    /* nothing leaves this machine */
	bool by_stdin;    /* shims read the launch's data from their stdin (preamble.h): hvd-task --stdin */
	unsigned fan_out; /* so many processes at most that have not reached their hosts yet; 0 = any number */
	/* All ranks are tasks of one srun, which takes every option of srun's. Slurm can start the rendezvous on the
	 * job's first host; with any other backend it runs with the launcher. */
	bool one_srun;
	/* What its processes run is ended over the shims' connections. They themselves ignore SIGINT, SIGTERM and
	 * SIGHUP and go on when the launcher dies; a signal of ours goes to the whole group of such a process. They
	 * ignore SIGQUIT, SIGUSR1 and SIGUSR2 as well, which are meant for the ranks: a scheduler may send them to
	 * every process of the job. */
	bool launch_proc_ignores_signals;
	/* A process may leave its stdin unread until a signal wakes it up. This one is sent to its group again and
	 * again until its host has registered; it must mean nothing to the remote side. 0 = none. */
	int wake_signal;
	/* HVD_START_RANKS: its exit status does not tell that a signal ended it, so hvdrun's does. */
	bool status_hides_signals;
	/* Is it the right one here, when the user named none? */
	bool (*suits)(const struct hvd_launch *launch);
	/* Refuse what it cannot do, for elastic jobs, too. NULL: there is nothing that prepare does not find. */
	int (*check)(const struct hvd_launch *launch, struct hvd_err *err);
	/* Fill the out part. NULL: a process for each host that is listed, or of the LSF job, by `reach`. */
	int (*prepare)(struct hvd_launch *launch, struct hvd_err *err);
	/* Where each host has a process of its own. NULL: it has none, or only this machine is reached. */
	hvd_reach_fn *reach;
	/* Elastic jobs: instead of prepare, append the process that runs the shim of the allocation's one host. NULL:
	 * as hvd_launch_add_hosts() does. */
	int (*add_host)(struct hvd_launch *launch, struct hvd_err *err);
	/* The backend for elastic jobs, which has an add_host or a reach. NULL: there is none. */
	const struct hvd_backend *elastic;
	/* Where it starts hosts: a process ended (status as from waitpid(2)) before the host's ranks did; `came`: the
	 * host had registered. What does that mean? NULL: nothing more than it says. */
	void (*explain)(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool came,
			struct hvd_err *why);
};

extern const struct hvd_backend hvd_backend_srun;
extern const struct hvd_backend hvd_backend_jsrun;
extern const struct hvd_backend hvd_backend_steps; /* srun, a step for each host of an elastic job */
extern const struct hvd_backend hvd_backend_blaunch;
extern const struct hvd_backend hvd_backend_lsrun;
extern const struct hvd_backend hvd_backend_mpirun;
extern const struct hvd_backend hvd_backend_ssh;
extern const struct hvd_backend hvd_backend_fork;

/* The one that the user named (enum hvd_launcher), or the first that suits. NULL with err set, also when it refuses. */
const struct hvd_backend *hvd_backend_choose(const struct hvd_launch *launch, struct hvd_err *err);

/* Fill the out part of `launch`, after it has been refused what this backend does not do with it. */
int hvd_backend_prepare(const struct hvd_backend *backend, struct hvd_launch *launch, struct hvd_err *err);

/* After srun's prepare: have the key come to the shims on stdin, which srun brings to all tasks, and what the user said
 * of --input be done by them. Refuses what takes that way: --pty, a file as input. */
int hvd_srun_by_stdin(struct hvd_launch *launch, struct hvd_err *err);

/* Append a process with this launch's environment. The pointer is valid until the next call. */
struct hvd_proc *hvd_launch_add(struct hvd_launch *launch, const char *host);
/* Append hvd-task with what is the same for all backends (output) and then the user's command; options that only one
 * backend needs go between the two calls. */
void hvd_launch_add_shim(struct hvd_launch *launch, struct hvd_proc *proc);
void hvd_launch_add_command(struct hvd_launch *launch, struct hvd_proc *proc);
/* For a shim that starts ranks: how it is to bind them. */
void hvd_launch_add_binding(const struct hvd_launch *launch, struct hvd_proc *proc);

/* For each host of the allocation a process that runs its shim, with ranks in slot order: on this machine the shim
 * itself, on others what `reach` makes of the shim's words. The shim reads the launch's data from its stdin, unless
 * `reach` is NULL: then all hosts are this machine. */
void hvd_launch_add_hosts(struct hvd_launch *launch, hvd_reach_fn *reach);

/* What add_host says of an elastic job's backend, done: the allocation of `launch` is that one host. */
int hvd_backend_add_host(const struct hvd_backend *backend, struct hvd_launch *launch, struct hvd_err *err);

/* This machine, with as many slots as ranks or GPUs, as the launch's allocation. */
int hvd_launch_local_alloc(struct hvd_launch *launch, struct hvd_err *err);
/* The hosts that the user listed (-H, --hostfile), as the launch's allocation. */
int hvd_launch_listed(struct hvd_launch *launch, struct hvd_err *err);
/* … which must be among those of `granted`, unless that is empty. */
int hvd_launch_listed_within(struct hvd_launch *launch, const struct hvd_alloc *granted, struct hvd_err *err);
/* The hosts of the LSF job that we are in, or those of them that the user listed, with all of their slots, as the
 * launch's allocation. Warns of sources that could not be used. */
int hvd_launch_lsf_hosts(struct hvd_launch *launch, struct hvd_err *err);
/* Cut the launch's allocation to `np` ranks, unless that is 0. */
int hvd_launch_take(struct hvd_launch *launch, int np, struct hvd_err *err);
/* The hosts to use, cut to the number of ranks asked for, as the launch's allocation: those that the user listed, else
 * those of the LSF job. Inside an LSF job those listed must lie within it. HVD_E_NOENT when there are neither. */
int hvd_launch_hosts(struct hvd_launch *launch, struct hvd_err *err);
/* Is there a program of that name in the user's PATH? */
bool hvd_launch_installed(const struct hvd_launch *launch, const char *program);
/* Is that a name of the machine we are on? */
bool hvd_launch_is_local(const char *host);
/* Of the user's environment, what goes to other hosts. Adds to `env`. */
void hvd_launch_export(const struct hvd_launch *launch, struct hvd_strv *env);
void hvd_launch_clear(struct hvd_launch *launch);

#endif
