/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meeting.h - the rendezvous of one launch, wherever it runs.
 *
 * A rendezvous server (server.h) set up for a launch: it listens on
 * every address of this host until the plan has chosen some, admits the hosts
 * of the allocation only, and proves to the probe that it is the right one.
 * Runs in the driver, or on the first node in a process of its own.
 */
#ifndef HVD_MEETING_H
#define HVD_MEETING_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/net/addr.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <stddef.h>

#define HVD_MEETING_PROBE_PATH "/_hvd/probe/"

struct hvd_meeting;

/* Listen on these addresses (all at one port) within lo … hi; 0, 0 = any port. */
struct hvd_meeting *hvd_meeting_create(struct event_base *base, const struct hvd_key *session_key,
				       const struct hvd_addr *addrs, size_t n_addrs, in_port_t lo, in_port_t hi,
				       const struct hvd_log *log, struct hvd_err *err);
void hvd_meeting_destroy(struct hvd_meeting *meeting); /* NULL is fine */

in_port_t hvd_meeting_port(const struct hvd_meeting *meeting);

/* Admit these addresses of the job's hosts, and no others: who was admitted before and is not among them is shut out,
 * and what it has open is closed. Before the first call only this host's own user is admitted, over loopback. */
void hvd_meeting_admit(struct hvd_meeting *meeting, const struct hvd_addr *addrs, size_t n_addrs);

/* The plan is made: go on listening at these addresses only. */
void hvd_meeting_keep(struct hvd_meeting *meeting, const struct hvd_addr *addrs, size_t n_addrs);

/* The server itself, for what the launch knows of it (scope sizes, statistics). */
struct hvd_rv *hvd_meeting_server(struct hvd_meeting *meeting);

/* What this launch's server answers to the probe that comes to one of its addresses: hex of an HMAC over the nonce,
 * address and port, 2 * HVD_MAC_LEN + 1 bytes. Whoever passes the probe on from elsewhere gets another one. */
void hvd_meeting_proof(const struct hvd_key *session_key, const char *nonce, const struct hvd_addr *addr,
		       in_port_t port, char *text);

#endif
