/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_socket.h - how the rank shims of a host find the host's agent, which the first of them starts.
 *
 * Shims and agent meet at an abstract unix socket. The shim that binds its name first starts the agent. All of a host's
 * shims must see the same network namespace. Each end checks that the other one is a process of its own user
 * (SO_PEERCRED). If another user has taken the name, the next name is tried. Everybody on the host can read the names that
 * are bound, so a name is a digest of the launch's session, the number of the host, and the number of the attempt: who
 * sees one cannot take the next.
 */
#ifndef HVD_AGENT_SOCKET_H
#define HVD_AGENT_SOCKET_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Connect to the agent of host `node`, or be the first. For the first, *listening is a socket at which the shims of
 * this host, also this one, connect; an agent will accept them there. For the others *listening is -1. Returns the
 * connected socket, -1 with err set. */
int hvd_agent_socket_connect(const char *session, uint32_t node, hvd_time deadline, int *listening,
			     struct hvd_err *err);

/* The name of an attempt, from 0 on. Returns the length of the address. */
socklen_t hvd_agent_socket_name(const char *session, uint32_t node, int attempt, struct sockaddr_un *name);

/* Does the process at the other end of a connected unix socket belong to this user? */
bool hvd_agent_socket_own(int fd);

#endif
