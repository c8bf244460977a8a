/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_end.h - what a host reports to the driver about a rank that has ended: the fields of the message "exit".
 *
 *   {"status":S, "lrank":L, "pid":P, "ended":NS, "failed":NS, "cause":TEXT, "error":TEXT, "traceback":TEXT,
 *    "tail":TEXT}
 *
 * Only "status" is always there; a field is left out if its value is not known. The caller adds "t" and
 * "id", that of the rank's process.
 */
#ifndef HVD_RANK_END_H
#define HVD_RANK_END_H

#include "lib/base/deadline.h"
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
	HVD_END_HOST_OOM,    /* the kernel killed a process because the memory of the host was used up */
	HVD_END_NOT_STARTED, /* the command could not be run */
	HVD_END_WITH_ALL,    /* ended with all others: signalled by the scheduler or the launch */
};
#define HVD_END_CAUSES 5

struct hvd_rank_end {
	uint32_t rank, local_rank;
	pid_t pid;  /* 0 = not known */
	int status; /* as from waitpid(2) */
	/* By hvd_now() of that host: the end of the process, and the first sign of the failure, which is the begin of
	 * a traceback on stderr, or the write of the error file. 0 = not known. */
	hvd_time ended_at, failed_at;
	enum hvd_end_cause cause;
	char *error;     /* one line, "RuntimeError: …"; NULL = not known */
	char *traceback; /* from the error file, else from stderr; NULL = none */
	char *tail;      /* the last lines of stderr; NULL = none, or not read */
};

/* "none", "oom", "host-oom", "not-started", "with-all". */
const char *hvd_end_cause_name(enum hvd_end_cause cause);

/* The fields as an object, without `rank`. Text that is not UTF-8 is escaped (lib/base/printable.h), as are control
 * characters. */
json_t *hvd_rank_end_json(const struct hvd_rank_end *end);
/* Read the fields into *end, which the caller clears; its rank stays unchanged. Text is escaped and cut. A value out of
 * range counts as not known. -1 with err set if there is no status; *end is then empty. Untrusted input is fine. */
int hvd_rank_end_parse(const json_t *msg, struct hvd_rank_end *end, struct hvd_err *err);
/* Might the kernel have killed the rank because memory was used up? True if no cause is known yet, and status or error
 * look like those of a rank of which SIGKILL has killed a process. The caller then counts the kernel's kills
 * (lib/process/oom_kills.h), and hvd_rank_end_oom() sets the cause. */
bool hvd_rank_end_may_be_oom(const struct hvd_rank_end *end);
void hvd_rank_end_oom(struct hvd_rank_end *end, enum hvd_oom oom);
/* Did SIGINT end the rank: by itself, or seen as a shell's status or Python's exception? Or one of the signals by which a
 * scheduler ends all ranks: SIGINT, SIGTERM or SIGKILL? */
bool hvd_rank_end_interrupted(const struct hvd_rank_end *end);
bool hvd_rank_end_cancelled(const struct hvd_rank_end *end);
/* Free what it owns; it is as zeroed then. */
void hvd_rank_end_clear(struct hvd_rank_end *end);

#endif
