/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_socket.h - how the rank shims of a host find the host's node agent, which the first of them starts.
 *
 * They meet at an abstract unix socket, whose name has the launch's session and the number of the host: whoever can
 * bind the name is the first. All of a host's shims must see the same network namespace. Each end checks that the other
 * is a process of its own user (SO_PEERCRED). Where another user has taken the name, the next name is tried.
 */
#ifndef HVD_AGENT_SOCKET_H
#define HVD_AGENT_SOCKET_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Connect to the agent of host `node`, or be the first: then *listening is a socket at which the shims of this host,
 * and this one, connect once an agent accepts them there; else it is -1. Returns the connected socket, -1 with err
 * set. */
int hvd_agent_socket_connect(const char *session, uint32_t node, hvd_time deadline, int *listening,
			     struct hvd_err *err);

/* Is the process at the other end of a connected unix socket one of this user? */
bool hvd_agent_socket_own(int fd);

#endif
