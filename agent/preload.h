/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload.h - hvdrun --preload: a Python that has imported modules, from which the ranks of this host are forked.
 *
 * The Python is a child of this process, which must be a subreaper (PR_SET_CHILD_SUBREAPER); so are the ranks that it
 * forks. It is started with the first rank, by the ranks' own command (python/preload/sitecustomize.py), and waits for
 * further ones. If it ends before it has imported the modules, cannot import them or must not be forked, or does not
 * answer in time, a warning says so, and all ranks are started by hvd_spawn(). If it ends later, another one is started
 * at once. It ends with this process.
 */
#ifndef HVD_PRELOAD_H
#define HVD_PRELOAD_H

#include "lib/base/log.h"
#include "lib/process/spawn.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct hvd_preload;

struct hvd_preload_opts {
	const char *modules; /* with commas between them */
	const char *host;    /* this host's name, for messages */
	int key_fd;          /* each rank has it at the same number; 0 = none */
	/* A rank that hvd_preload_rank() took was forked, and waits until this function returns. With a pid of 0 it
	 * could not be: start it by hvd_spawn(). */
	void (*forked)(pid_t pid, pid_t group, void *rank);
};

/* How many descriptors a rank takes here until it is forked. */
#define HVD_PRELOAD_RANK_FDS 6

/* All of `opts` and `log` must outlive it. */
struct hvd_preload *hvd_preload_create(struct event_base *base, const struct hvd_preload_opts *opts,
				       const struct hvd_log *log);
void hvd_preload_destroy(struct hvd_preload *preload); /* kills the Python, which the caller reaps; NULL is fine */

/* Have a rank forked as hvd_spawn() would start it. `first`: it is the first rank of this host. False: start it by
 * hvd_spawn(). Otherwise forked() follows from the event loop, unless hvd_preload_forget() is called before. */
bool hvd_preload_rank(struct hvd_preload *preload, const struct hvd_spawn *sp, bool first, void *rank);
/* Do not fork this rank. */
void hvd_preload_forget(struct hvd_preload *preload, const void *rank);
/* A child of this process, which is no rank, was reaped. NULL is fine. */
void hvd_preload_reaped(struct hvd_preload *preload, pid_t pid, int status);
/* There will be no more ranks: kill the Python. NULL is fine. */
void hvd_preload_end(struct hvd_preload *preload);

#endif
