/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_scan.h - looks at /proc: what the processes of each rank of this host have used until now.
 *
 * Each feature that wants to know is a reader, with an interval of its own. Looks are shared: a look that begins serves all
 * readers that are due, or will be soon. It reads all of /proc once, some processes per turn of the event loop, and adds up
 * what the processes of each rank have used. Without a reader that has an interval nothing is looked at.
 *
 * A process belongs to a rank if it is the rank's process, in its group or session, or below one that is.
 */
#ifndef HVD_RANK_SCAN_H
#define HVD_RANK_SCAN_H

#include "lib/base/deadline.h"
#include "lib/process/procfs.h"
#include "lib/protocol/worlds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* What not every reader wants. */
#define HVD_SCAN_INPUT 1U /* does a process wait for input of its user? */
#define HVD_SCAN_DELAY 2U /* how long have its threads waited for a processor? */

/* Of all processes of a rank. What has ended in between may make a sum smaller than that of the last look. */
struct hvd_rank_sum {
	struct hvd_world_rank id;
	pid_t pid;    /* the rank's process */
	bool runs;    /* one of the processes does, or would if it had a processor */
	bool stopped; /* one of the processes is stopped */
	bool input;   /* one of the processes waits for input */
	bool io_known;
	int64_t cpu_ns;
	int64_t delay_ns; /* -1: not known */
	uint64_t faults, memory;
	struct hvd_process_io io;
};

struct hvd_rank_look {
	hvd_time at;     /* when it began */
	bool late;       /* since the reader's last look this process was stopped for seconds */
	int64_t cost_ns; /* of this process's own processor time */
	/* Ranks that were there when the look began, and are still. */
	const struct hvd_rank_sum *ranks;
	size_t n;
	/* All processes of this host, and for each one the index in `ranks`, or HVD_SCAN_NO_RANK. */
	const struct hvd_processes *processes;
	const size_t *owners;
};

#define HVD_SCAN_NO_RANK SIZE_MAX

/* Part of the reader's own state. The caller sets the first three. */
struct hvd_rank_reader {
	unsigned wants; /* HVD_SCAN_… */
	/* May change the interval of any reader. *look is valid during the call. */
	void (*looked)(const struct hvd_rank_look *look, void *arg);
	void *arg;

	/* Private. */
	TAILQ_ENTRY(hvd_rank_reader) link;
	hvd_time every, due;
	bool known, late, served;
};

/* The sum of the rank with this process, or NULL: it was not there when the look began. `place`: where it is likely to be
 * found. */
const struct hvd_rank_sum *hvd_rank_look_find(const struct hvd_rank_look *look, pid_t pid, size_t place);

struct hvd_agent;
struct hvd_rank_scan;

/* The next rank of this world that has begun and has not ended, from *i on, which moves on. Of the sum only `id` and `pid` are
 * of use. NULL: there are no more. */
const struct hvd_rank_sum *hvd_rank_scan_next(const struct hvd_rank_scan *scan, unsigned world, size_t *i);
/* The rank, of any world, that a process is part of at the moment; likewise. NULL: it is part of none. */
const struct hvd_rank_sum *hvd_rank_scan_owner(const struct hvd_rank_scan *scan, pid_t pid);

/* Look for the reader so often, for the first time now unless it has had an interval; 0: no longer. The agent's features end
 * together, so that a reader need not say so. */
void hvd_rank_scan_every(struct hvd_agent *agent, struct hvd_rank_reader *reader, hvd_time every);

#endif
