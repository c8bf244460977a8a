/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_client.h - one connection of the probe to one address of another host's agent.
 *
 * probe.h has the messages. An attempt exists from hvd_probe_client_start() until its owner destroys it, which may
 * happen within `done`.
 */
#ifndef HVD_PROBE_CLIENT_H
#define HVD_PROBE_CLIENT_H

#include "lib/host/network.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>

struct hvd_probe_client;

/* The host that probes. */
struct hvd_asker {
	struct event_base *base;
	struct hvd_key key;               /* signs the messages of the probe */
	const struct hvd_host_info *node; /* this host, with its interfaces; not owned */
};

/* The agent that should answer. */
struct hvd_target {
	bool here;     /* it runs on this machine */
	uint32_t node; /* the index of its host */
	struct hvd_addr addr;
	in_port_t port;
};

/* Called once, with the result. `at` is NULL if the attempt failed before hvd_probe_client_start() returned. `iface` is
 * the index of the interface of this host over which the connection goes, or -1. `rtt_us` is the time until the result
 * in microseconds for HVD_REACH_OK, else 0. */
typedef void hvd_probe_client_done(void *arg, struct hvd_probe_client *at, enum hvd_reach result, int iface,
				   uint32_t rtt_us);

/* Begin to connect. `asker` and `target` must outlive the attempt. NULL if the attempt failed at once; `done` was then
 * called. */
struct hvd_probe_client *hvd_probe_client_start(const struct hvd_asker *asker, const struct hvd_target *target,
						hvd_probe_client_done *done, void *arg);
void hvd_probe_client_destroy(struct hvd_probe_client *at); /* without a call of `done`; NULL is fine */

/* Is there a connection? From then on the kernel repeats packets that are lost. */
bool hvd_probe_client_connected(const struct hvd_probe_client *at);

/* Has the other side proved who it is? The attempt then waits until packets of full size have gone both ways. */
bool hvd_probe_client_proven(const struct hvd_probe_client *at);

#endif
