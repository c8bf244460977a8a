/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_connections.h - break connections of this host's ranks, so that none of them waits for a peer that will not
 * answer.
 *
 * The launcher names the connections by their local addresses and ports. Other connections and listening sockets are
 * left alone. This process copies each socket from the process that has it (pidfd_getfd(2), Linux 5.6) and shuts it
 * down, so that both sides read the end of the connection.
 *
 *   from the launcher   {"t":"kill-connections", "at":{ADDR:[PORT,…],…}}   portset.h
 *   to the launcher     {"t":"kill-connections", "n":N, "why":TEXT}        how many were broken; why some could not
 *                                                                          be, or ""
 */
#ifndef HVD_KILL_CONNECTIONS_H
#define HVD_KILL_CONNECTIONS_H

#include "agent.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/net/portset.h"

/*
 * Break the connections of all descendants of this process, and of all processes that it has adopted as a subreaper.
 * Returns how many were broken. *err is set if the deadline has passed, or if none was broken and this process may not
 * look into another one. Does not block.
 */
int hvd_kill_connections(const struct hvd_portset *at, hvd_time deadline, struct hvd_err *err);

/* Carry out such a message. Returns the answer, a new object. */
json_t *hvd_kill_connections_answer(const json_t *msg);

#endif
