/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - standard output and standard error of one rank, as far as they pass through this process.
 *
 * Both pass if the style of output asks for labels or files. Otherwise only standard error passes, byte by byte, if it
 * is to be read and is no terminal. If standard error goes to the same place as standard output, both pass, through one
 * pipe, so that the rank's output stays in order.
 *
 * Another process may read standard error in place of this one (task_stderr.h). Standard error then passes through that
 * process first. It also passes through this one only if it must: for labels and files, and if its destination is no
 * pipe.
 */
#ifndef HVD_STREAMS_H
#define HVD_STREAMS_H

#include "lib/base/err.h"
#include "lib/process/spawn.h"
#include "output.h"

#include <event2/event.h>
#include <stdbool.h>

/* Zeroed: nothing passes. The struct must not move while something passes. */
struct hvd_streams {
	struct hvd_output *out[2]; /* by enum hvd_stream; NULL = does not pass, or has ended */
	int child[2];              /* the rank's ends; 0 = closed */
	bool all;                  /* both were made to pass */
};

/* Hand two descriptors, which stay the caller's, to the reader of standard error: the reading end of the pipe that the
 * rank writes to, and the destination of its bytes. False: nobody reads. */
typedef bool hvd_streams_tap_fn(const int fds[2], void *arg);

/* How many descriptors a rank's streams take in this process. */
int hvd_streams_fds(const struct hvd_output_style *style);

/* Make the pipes of a rank, and name them to `spawn`. `on_bytes` may be NULL (hvd_output_on_bytes()), and so may `tap` if
 * no other process reads. -1 with err set; the caller closes the streams then, too. */
int hvd_streams_open(struct hvd_streams *streams, struct event_base *base, struct hvd_output_rank rank,
		     const struct hvd_output_style *style, hvd_output_bytes_fn *on_bytes, hvd_streams_tap_fn *tap,
		     void *arg, struct hvd_spawn *spawn, struct hvd_err *err);
/* The rank was started, or could not be: close its ends. */
void hvd_streams_started(struct hvd_streams *streams);
/* Have all streams that pass here ended? */
bool hvd_streams_ended(const struct hvd_streams *streams);
/* Pass on what can be read without waiting, and stop. */
void hvd_streams_close(struct hvd_streams *streams);

#endif
