/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_check.h - what an agent finds when it checks its host before the ranks start (--preflight).
 *
 * In the message "report" (agent/probe.h) it is
 *   "preflight":{"tmp":BYTES, "shm":BYTES, "memlock":BYTES, "nofile":N, "gpus":N, "mib":[N,…], "gpu":TEXT, "held":TEXT,
 *                "hook":TEXT}
 * Each field may be left out: the value is then not known, or there is nothing to report.
 */
#ifndef HVD_HOST_CHECK_H
#define HVD_HOST_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define HVD_HOST_CHECK_TEXT 256 /* bytes of a reason */
#define HVD_HOST_CHECK_GPUS 256 /* whose memory is listed */

struct hvd_host_check {
	bool known;       /* the host was checked */
	int64_t tmp, shm; /* bytes that the user may write in /tmp and /dev/shm; -1 = not known */
	int64_t memlock;  /* the soft limit RLIMIT_MEMLOCK in bytes; INT64_MAX = none, -1 = not known */
	int64_t nofile;   /* the soft limit RLIMIT_NOFILE; -1 = not known */
	int gpus;         /* that nvidia-smi lists; -1 = there is no nvidia-smi */
	json_t *mib;      /* of the memory of each of them that is in use; NULL = not known */
	char *held;       /* whose memory is still in use though the ranks have ended; NULL = none. Printable */
	char *gpu;        /* what is wrong with one of them; NULL = nothing. Printable */
	char *hook;       /* why the site's program says that the host is bad; NULL = it does not. Printable */
	char *failed;     /* why the host could not be checked; NULL = it was. Printable */
};

/* A new reference. `mib` is shared with *check. */
json_t *hvd_host_check_json(const struct hvd_host_check *check);
/* Read the object "preflight". A field that is missing or malformed counts as not known. The caller clears *check.
 * Untrusted input is fine. */
void hvd_host_check_read(const json_t *object, struct hvd_host_check *check);
/* Is it a list of MiB for each of some GPUs? */
bool hvd_host_check_is_mib(const json_t *list);
void hvd_host_check_clear(struct hvd_host_check *check); /* NULL is fine */

#endif
