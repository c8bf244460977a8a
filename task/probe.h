/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - a node agent's part in finding the networks that all hosts share.
 *
 * The agent answers other agents on one port, and connects to every address of
 * its neighbours at once. An attempt counts only when
 *   - the answering process proves that it is the agent of the intended host
 *     (signed with the launch's key, over a nonce of ours), so that addresses
 *     which exist on several hosts do not pass;
 *   - it left this host by an address of one of our interfaces;
 *   - the other side saw that very address, and was asked at the one that we asked, so there is neither NAT nor
 *     somebody who passes on what is said in between.
 * An address that this host has itself is not tried: whoever listens there is not the one that is meant.
 * The rendezvous' endpoints are tried in the same way, by a GET that only the
 * launch's own server can answer.
 *
 * Between agents, signed with a key derived from the session's (wire.h):
 *   {"t":"ping", "to":I, "nonce":HEX}  ->  {"t":"pong", "node":I, "nonce":HEX, "seen":ADDR, "at":ADDR, "port":PORT}
 *   {"t":"fill", "pad":TEXT}           ->  {"t":"filled", "pad":TEXT}
 * The second pair is longer than a segment of the connection, so that packets of the network's full size go both ways:
 * where routers disagree about it, and say so to nobody, short ones arrive and a training stands still. Over IPv6 it is
 * left out where the interface has IPv4 too.
 */
#ifndef HVD_PROBE_H
#define HVD_PROBE_H

#include "lib/base/deadline.h"
#include "lib/job/network.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <jansson.h>

struct hvd_probe;

/* Starts to answer. `node` (not owned) must have its interfaces. NULL with err set. */
struct hvd_probe *hvd_probe_create(struct event_base *base, const struct hvd_key *session_key, uint32_t index,
				   const struct hvd_node *node, struct hvd_err *err);
void hvd_probe_destroy(struct hvd_probe *probe); /* NULL is fine */
in_port_t hvd_probe_port(const struct hvd_probe *probe);

/*
 * Try all targets, those that do not answer several times. One order at a time; another may follow the report. `order`
 * is the driver's message:
 *   {"targets":[{"n":I, "p":PORT, "a":[ADDR,…], "here":BOOL},…], "rendezvous":[[ADDR,PORT],…], "here":BOOL,
 * "timeout_ms":N} here: the host, or the one that the rendezvous runs on, is this very machine, whose own addresses
 * lead to it. `done` is called once, from the loop, with the report (released after the call):
 *   {"t":"report", "edges":[[I, index in "a", own interface or -1, result, rtt µs],…],
 *    "rendezvous":[[index, result, rtt µs],…]}
 */
int hvd_probe_run(struct hvd_probe *probe, const json_t *order, void (*done)(json_t *report, void *arg), void *arg,
		  struct hvd_err *err);

#endif
