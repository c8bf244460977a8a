/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload_python.h - the Python from which ranks are forked (preload.h): with which command, environment and CPUs it is
 * started, and its messages (python/preload/sitecustomize.py).
 *
 * The messages go over a socketpair of packets. A request is one byte, with five descriptors: a memory file, a pipe, and
 * the rank's standard input, output and error. The memory file has the rank's CPUs ("0,1,5", or nothing: do not bind it)
 * and its environment, NAME=VALUE, each with a zero byte behind it. The rank begins when it reads "g" from the pipe, and
 * ends at the end of the pipe.
 *
 * The answers are text:
 *
 *     ready                  the modules are imported
 *     refused WHY            no rank can be forked
 *     started PID GROUP      to a request: the rank waits at its pipe
 *     failed WHY             to a request: this rank cannot be forked
 */
#ifndef HVD_PRELOAD_PYTHON_H
#define HVD_PRELOAD_PYTHON_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/process/spawn.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hvd_preload_python {
	struct hvd_strv argv, env; /* owned */
	cpu_set_t cpus;            /* if it is bound */
	bool bound, ignore_ends;
	unsigned long nofile;
};

/* Keep with what to start it, from that of the host's first rank. */
void hvd_preload_python_keep(struct hvd_preload_python *python, const struct hvd_spawn *rank);
void hvd_preload_python_clear(struct hvd_preload_python *python);

/* Would the rank, started by itself, find the same of what Python and libraries read before the program begins? */
bool hvd_preload_python_fits(const struct hvd_preload_python *python, const struct hvd_spawn *rank);
/* The name of a variable that makes it impossible to fork such ranks; NULL: there is none. */
const char *hvd_preload_python_obstacle(const struct hvd_spawn *rank);

/* Start it. It imports the modules, which have commas between them. *socket is then this process's end of its socket,
 * which the caller closes. Returns its pid; -1 with err set. */
pid_t hvd_preload_python_start(const struct hvd_preload_python *python, const char *modules, int key_fd, int *socket,
			       struct hvd_err *err);

/* ---- messages ---- */

#define HVD_PRELOAD_ANSWER_MAX 4096
#define HVD_PRELOAD_FDS        5

enum hvd_preload_word {
	HVD_PRELOAD_READY,
	HVD_PRELOAD_REFUSED,
	HVD_PRELOAD_STARTED,
	HVD_PRELOAD_FAILED,
};

struct hvd_preload_answer {
	enum hvd_preload_word word;
	pid_t pid, group; /* STARTED: both more than 1 */
	const char *why;  /* REFUSED, FAILED: within the text */
};

/* Read an answer. -1 with err set: it is none. Untrusted input is fine. */
int hvd_preload_answer_parse(const char *text, struct hvd_preload_answer *answer, struct hvd_err *err);

/* A memory file with the contents of a request. `cpus`: NULL = do not bind the rank. -1 with err set. */
int hvd_preload_request(const cpu_set_t *cpus, char *const *envp, struct hvd_err *err);
/* Send the request. Does not wait. -1 with errno. */
int hvd_preload_send(int socket, const int fds[HVD_PRELOAD_FDS]);

#endif
