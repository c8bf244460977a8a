/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_info.h - the evidence of why a rank failed, which the agent keeps while the rank runs: its standard error,
 * PyTorch's error file (lib/host/rank_error.h), and how often the kernel has killed a process of its cgroup because
 * memory was used up.
 *
 * The error file is a pipe of this process, so no file is left behind, however the process ends.
 */
#ifndef HVD_CRASH_INFO_H
#define HVD_CRASH_INFO_H

#include "lib/base/strv.h"
#include "lib/host/rank_end.h"
#include "lib/process/oom_kills.h"

#include <event2/event.h>
#include <stddef.h>

/* How many descriptors one rank takes. */
#define HVD_EVIDENCE_FDS 1
/* Of hvd_crash_info_lines(). */
#define HVD_LAST_LINES 20

struct hvd_crash_info;

/* Before the rank starts. `lines`: how many last lines of standard error to keep. `kills`: the present result of
 * hvd_oom_kills(0). If no pipe can be made, there is no error file. */
struct hvd_crash_info *hvd_crash_info_create(struct event_base *base, unsigned lines,
					     const struct hvd_oom_kills *kills);
void hvd_crash_info_destroy(struct hvd_crash_info *crash_info); /* NULL is fine */

/* The error file's path, for hvd_rank_env_error_file(); NULL = there is none. */
const char *hvd_crash_info_file(const struct hvd_crash_info *crash_info);
/* Another process has started the rank; `pid` is the rank's. */
void hvd_crash_info_began(struct hvd_crash_info *crash_info, pid_t pid);
/* The rank has written this to its standard error, at some time until then, as by hvd_now(). */
void hvd_crash_info_stderr(struct hvd_crash_info *crash_info, const char *bytes, size_t n, hvd_time until);
/* The rank has written this to one of its streams, both of which pass here. */
void hvd_crash_info_output(struct hvd_crash_info *crash_info, const char *bytes, size_t n);
/* The last lines that the rank has written: of both streams if both pass here, else of standard error. The caller frees them. */
char *hvd_crash_info_lines(const struct hvd_crash_info *crash_info);
/* The rank has just ended, and all of its output was handed over. The caller has set status in `end`, and cause if
 * another cause is already known, and ended_at if the end was earlier. This function sets the other fields except rank,
 * local_rank and pid. */
void hvd_crash_info_end(struct hvd_crash_info *crash_info, struct hvd_rank_end *end);

#endif
