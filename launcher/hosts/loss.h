/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h - a process of the launch that has ended before the ranks that need it, or a host that was lost.
 *
 * The driver learns of it by the end of a connection, which gives no reason, or from the process's watchdog:
 *   {"t":"died", "node":I, "pid":P, "status":S, "ended":NS}
 */
#ifndef HVD_DRIVER_LOSS_H
#define HVD_DRIVER_LOSS_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

enum hvd_loss_of {
	HVD_LOSS_AGENT,   /* the node agent beside ranks that others have started (agent/observed.h) */
	HVD_LOSS_SPAWNER, /* the node agent that had started the ranks of its host, which end with it */
	HVD_LOSS_SHIM,    /* of one rank */
	HVD_LOSS_HOST,    /* with all that ran there: no process, so it has no name and no outlook */
};
#define HVD_LOSS_KINDS 4

struct hvd_loss {
	enum hvd_loss_of of;
	const char *host; /* not owned */
	uint32_t rank;    /* SHIM: of which rank; else 0 */
	pid_t pid;        /* 0 = not known */
	int status;       /* as from waitpid(2); -1 = not known */
	hvd_time at;      /* by this process's clock */
};

/* What to look for. */
#define HVD_LOSS_HINT "was it killed by a user (pkill), or by the kernel for lack of memory? (dmesg there)"

/* Read a message "died" into *loss, except host and of; `at` is by hvd_now() there. -1 with err set. */
int hvd_loss_parse(const json_t *msg, struct hvd_loss *loss, struct hvd_err *err);

/* As ps(1) shows it: "hvd-agent". */
const char *hvd_loss_name(const struct hvd_loss *loss);
/* The purpose of the process, for a text such as "hvd-agent on n2": "the relay of the rendezvous and node agent
 * there". */
const char *hvd_loss_duty(const struct hvd_loss *loss);
/* "the relay of the rendezvous (hvd-agent, pid 77) was killed by signal 9 (SIGKILL)". The caller frees it. */
char *hvd_loss_text(const struct hvd_loss *loss);
/* What happens to ranks without it: half a sentence. */
const char *hvd_loss_outlook(const struct hvd_loss *loss);

#endif
