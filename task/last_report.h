/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_report.h - one message to the driver, over a connection of its own, from a process that has no other.
 *
 * Both functions block for some seconds at most. A driver that is gone is not told, and nothing is said of that.
 */
#ifndef HVD_LAST_REPORT_H
#define HVD_LAST_REPORT_H

#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "taskinfo.h"

#include <jansson.h>
#include <sys/types.h>

/* Connect, send, and end the connection. Takes the reference to `msg`. */
void hvd_last_report_send(const struct hvd_boot *boot, struct hvd_session *session, json_t *msg);

/* A process of the launch on this host has ended before the ranks: what it has served there ("agent" or "relay"),
 * and its status as from waitpid(2). */
void hvd_last_report_death(const struct hvd_boot *boot, struct hvd_session *session, const struct hvd_taskinfo *info,
			   const char *serves, pid_t pid, int status);

#endif
