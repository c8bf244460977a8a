/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom_kills.h - how often the kernel has killed a process because memory was used up.
 *
 * The cgroup's count is "oom_kill" of memory.events (version 2) or memory.oom_control (version 1). It counts kills for
 * the cgroup's own limit, for the limit of a cgroup around it, and for the host's memory. The host's count is
 * "oom_kill" of /proc/vmstat, which counts all kills.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_OOM_KILLS_H
#define HVD_OOM_KILLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_oom_kills {
	int64_t cgroup, host; /* -1 = not known */
	bool limited;         /* the cgroup, or one around it, has a limit of memory */
};

/* The counts for the cgroup that a process is in. 0 = this process. */
struct hvd_oom_kills hvd_oom_kills(pid_t pid);

/* For a process that may have ended by the time of the count. hvd_oom_cgroup() returns the folder of its cgroup, which
 * the caller frees; NULL = not known. hvd_oom_kills_in() counts for that folder; for NULL it counts the host's kills
 * only. */
char *hvd_oom_cgroup(pid_t pid);
struct hvd_oom_kills hvd_oom_kills_in(const char *cgroup);

/* The same, but with the host's count taken from `before` if the cgroup's count is known. The host's count is
 * expensive: the kernel adds up hundreds of counters of all processors. */
struct hvd_oom_kills hvd_oom_kills_soon_after(const struct hvd_oom_kills *before, const char *cgroup);

enum hvd_oom {
	HVD_OOM_NO,
	HVD_OOM_CGROUP, /* the cgroup's memory was used up */
	HVD_OOM_HOST,   /* the host's */
};

/* Was a process killed between the two counts? If the cgroup's count is not known, the killed process may be any
 * process of the host. */
enum hvd_oom hvd_oom_between(const struct hvd_oom_kills *before, const struct hvd_oom_kills *after);

#endif
