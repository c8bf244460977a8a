/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload_wire.h - the messages between hvd-agent and the Python that forks ranks (python/preload/sitecustomize.py).
 *
 * They go over a socketpair of packets. A request is one byte, with five descriptors: a memory file, a pipe, and the
 * rank's standard input, output and error. The memory file has the rank's CPUs ("0,1,5", or nothing: do not bind it)
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
#ifndef HVD_PRELOAD_WIRE_H
#define HVD_PRELOAD_WIRE_H

#include "lib/base/err.h"

#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

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
/* A memory file with an environment alone. -1 with err set. */
int hvd_preload_environ(char *const *envp, struct hvd_err *err);

/* Send the request. Does not wait. -1 with errno. */
int hvd_preload_send(int socket, const int fds[HVD_PRELOAD_FDS]);

#endif
