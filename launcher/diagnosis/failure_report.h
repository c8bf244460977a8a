/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failure_report.h - which rank of a launch failed first, and what is known of that.
 *
 * The owner adds the ends of ranks in any order, with times by one clock (launcher/hosts/clocks.h). In the end the
 * report names the first failure by the time at which it happened: the first sign of it, or else the end of the
 * process. There are four kinds of failures. The first failure is of the first kind that occurs:
 *   OWN     a rank failed by itself; or was killed before any other had ended with a failure
 *   PEER    it failed because it could not reach others any longer: a connection error of Gloo, NCCL, Horovod, …
 *   KILLED  it was ended by a signal that others send (SIGTERM, SIGKILL, …), or after the launch had begun to end ranks
 *   ALL     it was ended with all others (HVD_END_WITH_ALL): never the first, and never reported alone. If it had
 *           reported before that it could not reach others, it counts as PEER
 * A process of the launch that has ended earlier (struct hvd_loss) is what failed first, if it explains the failure:
 * any failure of kind PEER or KILLED, or any on its own host; a lost host explains any failure, and so does
 * an agent whose ranks end with it, and a shim that was known to be lost before. Otherwise the report
 * mentions the process besides.
 *
 * If all failures are of kind PEER, the report names a rank that ended with 0 before all of them: the others still
 * needed it.
 *
 * Does no I/O. Some ends are kept in full, the others are counted, so that a job of 10,000 ranks costs no more than a
 * small one.
 */
#ifndef HVD_FAILURE_REPORT_H
#define HVD_FAILURE_REPORT_H

#include "launcher/events/event_log.h"
#include "launcher/hosts/loss.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/host/rank_end.h"

#include <jansson.h>
#include <stdbool.h>

struct hvd_failure_report;

struct hvd_failure_report *hvd_failure_report_create(void);
/* Its ranks are those of this world. `role`, which is not owned, is the name of the world; NULL: it has none. */
void hvd_failure_report_of(struct hvd_failure_report *report, unsigned world, const char *role);
void hvd_failure_report_destroy(struct hvd_failure_report *report); /* NULL is fine */

/* The rank has ended, with 0 or another status. Nothing is owned; `host` is a name. ended_at must be known. */
void hvd_failure_report_add(struct hvd_failure_report *report, const struct hvd_rank_end *end, const char *host);
/* A process of the launch has ended before the ranks. Call this again when more is known of it. Nothing is owned. */
void hvd_failure_report_lost(struct hvd_failure_report *report, const struct hvd_loss *loss);
/* The launch ends the ranks from now on (by hvd_now()). Only the first time counts. */
void hvd_failure_report_ending(struct hvd_failure_report *report, hvd_time now);
/* Add what is known of another world, up to now. An end with 0 counts there if it was not long before the failures of
 * `report`. */
void hvd_failure_report_merge(struct hvd_failure_report *report, const struct hvd_failure_report *other);

/* The first failure, and *host. The report owns both; they are valid until the next call with this report. NULL: there
 * is none. Its status is 0 if a rank ended too early with 0. */
const struct hvd_rank_end *hvd_failure_report_first(struct hvd_failure_report *report, const char **host);
/* Was the first failure a SIGKILL or SIGTERM with no known cause? Then the caller may know who sent it. */
bool hvd_failure_report_killed(struct hvd_failure_report *report);
/* Who killed the first rank, as a sentence that the report ends with: "job 12 was cancelled (scancel)". NULL = nobody
 * knows. Copied. */
void hvd_failure_report_killer(struct hvd_failure_report *report, const char *text);
/* Is there anything to report: a failure, or a process of the launch that was lost before all ranks were ended? */
bool hvd_failure_report_any(struct hvd_failure_report *report);
/* The process of the launch that failed first; NULL: none did. The report owns it; it is valid until the next call. */
const struct hvd_loss *hvd_failure_report_loss(struct hvd_failure_report *report);
/* The highest exit status of a rank, as a shell gives it: srun ends with that. */
int hvd_failure_report_highest(const struct hvd_failure_report *report);
/* The status of the launch, as from waitpid(2): the first failure's. If that one ended with 0 or was ended with all
 * others, the status of the first rank that ended by itself with a failure. 0: there is no failure. */
int hvd_failure_report_status(struct hvd_failure_report *report);

/* Was the first failure a SIGKILL, and were others killed in the same way within a second, while no rank failed in
 * another way? Then somebody has killed them all, as Slurm does when srun is forced to end. */
bool hvd_failure_report_killed_together(struct hvd_failure_report *report);

/* Did SIGINT end the first rank, or Python's exception for it? Then the user did, by Ctrl-C. */
bool hvd_failure_report_interrupted(struct hvd_failure_report *report);

/* Some lines for people, escaped: the rank that failed first, everything that is known of it and of the others, and the
 * remedy. `brief`: only the first line, with the error. NULL: no failure. Caller frees. */
char *hvd_failure_report_text(struct hvd_failure_report *report, bool brief);
/* The same as a message of the log, an error. Logs nothing without a failure. */
void hvd_failure_report_log(struct hvd_failure_report *report, bool brief, const struct hvd_log *log);
/* Its first line as an event of the first failure's world; none without a failure. */
void hvd_failure_report_event(struct hvd_failure_report *report, struct hvd_event_log *events);

/* Did the first rank to fail do so by itself, and not because it could not reach others, or was ended? */
bool hvd_failure_report_own(const struct hvd_failure_report *report);

/* For programs: *first is {"role":TEXT, "rank":R, "host":TEXT, "how":TEXT, "local_rank":L, "pid":P, "status":S, "time":SECONDS,
 * "cause":TEXT, "error":TEXT, "traceback":TEXT, "stderr":TEXT}, where the role and the last four are left out if nothing is known;
 * *counts is {"failed":N, "connection_errors":N, "ended":N}. Both are new references, or NULL without a failure. */
void hvd_failure_report_json(struct hvd_failure_report *report, json_t **first, json_t **counts);

#endif
