/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unkillable.h - what a host reports to the driver about a rank that SIGKILL has not ended: the message "unkillable".
 *
 *   {"pid":P, "state":"D", "gpus":B, "left":B}
 *
 * The caller adds "t", and "id" and "rank" of the process.
 */
#ifndef HVD_UNKILLABLE_H
#define HVD_UNKILLABLE_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* A process cannot be killed if it is there so long after SIGKILL, and has used no processor time for some seconds: the
 * kernel may need long to free the memory of a process, but then it works. */
#define HVD_UNKILLABLE_SECONDS       5
#define HVD_UNKILLABLE_QUIET_SECONDS 2
/* When a launch ends, the processes that started its agents may take so much longer than --kill-wait. */
#define HVD_UNKILLABLE_TOLD_SECONDS (HVD_UNKILLABLE_SECONDS + 3)

struct hvd_unkillable {
	pid_t pid;
	char state; /* of the thread that does not end, as in proc(5); '?' = not known */
	bool gpus;  /* it has GPUs open */
	bool left;  /* the rank itself has ended, and this is a process that it had started */
};

/* What /proc shows of the process. */
void hvd_unkillable_look(struct hvd_unkillable *what, pid_t pid);

/* A new reference. */
json_t *hvd_unkillable_json(const struct hvd_unkillable *what);
/* -1 with err set. Untrusted input is fine. */
int hvd_unkillable_parse(const json_t *msg, struct hvd_unkillable *what, struct hvd_err *err);

/* "rank 3 cannot be killed: process 4711 has not ended 5 s after SIGKILL (state D), and has GPUs open". The caller frees
 * it. */
char *hvd_unkillable_text(const struct hvd_unkillable *what, int rank);

/* The remedy, a string constant. */
#define HVD_UNKILLABLE_HINT                                                                                            \
	"a file system or a device of the host may hang (dmesg there); the process goes when that answers, or with a " \
	"reboot"

#endif
