/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silent_hosts.h - finds a host of srun --hvd that was lost before its node agent has connected again.
 *
 * Under srun --hvd no connection to a host is open from its plan until the node agent that stays there connects, up to
 * HVD_STAY_SECONDS later; that of a host whose ranks end well before does not connect at all. So nobody notices the
 * loss of a host in that time, and srun waits for its tasks for ever. When no host is connected any longer, and srun
 * has not ended HVD_CONN_WATCH_SECONDS after the last one should have connected, the hosts that have not are lost.
 */
#ifndef HVD_SILENT_HOSTS_H
#define HVD_SILENT_HOSTS_H

#include "lib/base/strv.h"
#include "node_agents.h"

#include <event2/event.h>

/* How long after the plan a node agent that stays connects, at most (task/stay.c). */
#define HVD_STAY_SECONDS 3

struct hvd_silent_hosts;

/* `lost` is called with the names of these hosts, of which one at least is lost: where the ranks of others have ended
 * well, nobody has said so. The object may not be destroyed from within. `agents` is not owned and
 * must outlive it. */
struct hvd_silent_hosts *
hvd_silent_hosts_create(struct event_base *base, struct hvd_node_agents *agents,
			void (*lost)(const struct hvd_strv *hosts, const struct hvd_err *why, void *arg), void *arg);
void hvd_silent_hosts_destroy(struct hvd_silent_hosts *silent); /* NULL is fine */

/* The node agent of this host has connected, or it is known to have ended. */
void hvd_silent_hosts_heard(struct hvd_silent_hosts *silent, uint32_t host);
/* The hosts whose tasks still run, as far as can be told, when those of another host have ended: their names, with
 * commas between them; NULL where there are none of the one or the other kind. The caller frees the text. */
char *hvd_silent_hosts_behind(const struct hvd_silent_hosts *silent);
/* There is a plan, and no host is connected: they have just been sent it, or the last one has left. */
void hvd_silent_hosts_alone(struct hvd_silent_hosts *silent);

#endif
