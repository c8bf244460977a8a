/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attempt.h - one connection of the probe: to another host's agent, or to the rendezvous (see probe.h for what is
 * said).
 *
 * It lives from hvd_attempt_start() to hvd_attempt_destroy(). Its owner destroys it, also from within `done`.
 */
#ifndef HVD_ATTEMPT_H
#define HVD_ATTEMPT_H

#include "lib/job/network.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>

struct hvd_attempt;

/* Who asks. */
struct hvd_asker {
	struct event_base *base;
	struct hvd_key session_key, key; /* of the launch, and of the probe's messages */
	const struct hvd_node *node;     /* this host, with its interfaces; not owned */
};

/* Who is to answer. */
struct hvd_target {
	bool endpoint; /* the rendezvous */
	bool here;     /* this machine is meant */
	uint32_t node; /* else the agent of that host */
	struct hvd_addr addr;
	in_port_t port;
};

/* What came of it; called once. `at` is NULL when it could not even begin. `iface` is the interface of this host that
 * the connection left by, or -1; `rtt_us` is 0 unless the result is HVD_REACH_OK. */
typedef void hvd_attempt_done(void *arg, struct hvd_attempt *at, enum hvd_reach result, int iface, uint32_t rtt_us);

/* Begin to connect. `asker` and `target` must outlive the attempt. NULL when it failed at once: then `done` has been
 * called. */
struct hvd_attempt *hvd_attempt_start(const struct hvd_asker *asker, const struct hvd_target *target,
				      hvd_attempt_done *done, void *arg);
void hvd_attempt_destroy(struct hvd_attempt *at); /* without a call of `done`; NULL is fine */

/* It has a connection: the kernel cares for what gets lost from here on. */
bool hvd_attempt_connected(const struct hvd_attempt *at);

/* It has proof of who is there, and waits for packets of full size to have gone both ways. */
bool hvd_attempt_proven(const struct hvd_attempt *at);

#endif
