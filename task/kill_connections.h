/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_connections.h - the shim breaks connections of its ranks, so that none waits for a peer that will not answer.
 *
 * Those are meant whose local end is one of a set of addresses and ports; all
 * others, and listening sockets, are left alone. Each is taken over from its process for
 * a moment (pidfd_getfd(2), Linux 5.6) and shut down: what reads from it, on
 * either side, sees its end.
 *
 *   from the launcher   {"t":"cut", "at":{ADDR:[PORT,…],…}}   portset.h
 *   to the launcher     {"t":"cut", "n":N, "why":TEXT}        how many were broken; "": all that there were
 */
#ifndef HVD_KILL_CONNECTIONS_H
#define HVD_KILL_CONNECTIONS_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/net/portset.h"

/*
 * Break them in all processes below this one (its descendants, and what it has adopted as a subreaper). Returns how
 * many were broken; *err is set when none was and a process did not let itself be looked into, or when the deadline
 * has passed. Does not block.
 */
int hvd_kill_connections(const struct hvd_portset *at, hvd_time deadline, struct hvd_err *err);

/* The answer to such a message: a new object. */
json_t *hvd_kill_connections_answer(const json_t *msg);

#endif
