/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_end.h - what a host tells the driver of a rank that has ended: the fields of the message "exit".
 *
 *   {"status":S, "lrank":L, "pid":P, "ended":NS, "failed":NS, "cause":TEXT, "error":TEXT, "traceback":TEXT,
 *    "tail":TEXT}
 *
 * All but "status" may be missing, and are left out where nothing is known. The caller adds "t", and "rank" or
 * "worker".
 */
#ifndef HVD_RANK_END_H
#define HVD_RANK_END_H

#include "lib/base/err.h"
#include "lib/process/oom_kills.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The longest texts, in bytes; longer ones are cut, with a mark at the end. */
#define HVD_RANK_END_ERROR     1024
#define HVD_RANK_END_TRACEBACK (16 * 1024)
#define HVD_RANK_END_TAIL      (8 * 1024)

/* What is known of the end besides the status. */
enum hvd_end_cause {
	HVD_END_NONE,
	HVD_END_OOM,         /* the kernel killed a process of the rank's cgroup, whose memory was used up */
	HVD_END_HOST_OOM,    /* … of the host, whose memory was used up */
	HVD_END_NOT_STARTED, /* the command could not be run */
	HVD_END_WITH_ALL,    /* ended with all others: signalled by the scheduler or the launch */
};
#define HVD_END_CAUSES 5

struct hvd_rank_end {
	uint32_t rank, local_rank;
	pid_t pid;  /* 0 = not known */
	int status; /* as from waitpid(2) */
	/* ns since the epoch by that host's clock: the end of the process, and the first sign of the failure: that a
	 * traceback began on stderr, or the error file was written. 0 = not known. */
	int64_t ended_at, failed_at;
	enum hvd_end_cause cause;
	char *error;     /* one line, "RuntimeError: …"; NULL = not known */
	char *traceback; /* from the error file, else from stderr; NULL = none */
	char *tail;      /* the last lines of stderr; NULL = none, or not looked at */
};

/* "none", "oom", "host-oom", "not-started", "with-all". */
const char *hvd_end_cause_name(enum hvd_end_cause cause);

/* The fields as an object, `rank` not among them. Text that is not UTF-8 is escaped (lib/base/printable.h), as are
 * control characters. */
json_t *hvd_rank_end_json(const struct hvd_rank_end *end);
/* Read them into *end, whose rank stays as it is, and which the caller clears. Text is escaped and cut. What is out of
 * range counts as not known; -1 with err set without a status, and *end is empty then. Untrusted input is fine. */
int hvd_rank_end_parse(const json_t *msg, struct hvd_rank_end *end, struct hvd_err *err);
/* No cause is known yet, and status or error look like those of a rank of which a process was killed by SIGKILL: look
 * whether the kernel did it because memory was used up (lib/process/oom_kills.h), and set the cause. */
bool hvd_rank_end_may_be_oom(const struct hvd_rank_end *end);
void hvd_rank_end_oom(struct hvd_rank_end *end, enum hvd_oom oom);
/* Free what it owns; it is as zeroed then. */
void hvd_rank_end_clear(struct hvd_rank_end *end);

#endif
