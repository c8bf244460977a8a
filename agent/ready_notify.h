/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_notify.h - a socket for each rank of a world on this host, to which it sends READY=1 as sd_notify(3) does.
 *
 * Its address (NOTIFY_SOCKET) is an abstract one that nobody can guess. A message counts if its sender is of this user, and
 * no process of another rank. The kernel says who the sender is. One that has ended by then, or has left its rank's group,
 * session and parents, counts as well, since it knew the address.
 *
 * All else that sd_notify(3) may send is read and dropped, as long as the rank runs, for a full socket would block it.
 */
#ifndef HVD_READY_NOTIFY_H
#define HVD_READY_NOTIFY_H

#include "agent.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hvd_ready_notify;

/* `sent` is called for each rank, once. */
struct hvd_ready_notify *hvd_ready_notify_create(struct hvd_agent *agent, unsigned world,
						 void (*sent)(uint32_t id, void *arg), void *arg);
void hvd_ready_notify_destroy(struct hvd_ready_notify *notify); /* NULL is fine */

/* Before the rank with this id starts: its NOTIFY_SOCKET, which stays the object's. NULL with err set. */
const char *hvd_ready_notify_open(struct hvd_ready_notify *notify, uint32_t id, struct hvd_err *err);
/* It has ended; what it has sent before counts. Nothing happens if it has no socket. */
void hvd_ready_notify_close(struct hvd_ready_notify *notify, uint32_t id);

#define HVD_NOTIFY_MAX 4096 /* bytes of a message */

/* Does the message say READY=1, as one of its lines? Untrusted input is fine. */
bool hvd_notify_is_ready(const char *bytes, size_t n);

#endif
