/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - an agent finds out which other hosts it reaches, over which interfaces.
 *
 * The agent answers the other agents on one port, and connects to every address of its neighbours at the same time. An
 * attempt counts only if
 *   - the process that answers proves that it is the agent of the intended host: it signs a nonce of this agent with
 *     the launch's key. So an address that several hosts have does not pass;
 *   - the connection leaves this host by an address of one of its interfaces;
 *   - the other side saw that same address, and was reached at the address that was tried. So there is neither NAT nor
 *     a process that forwards the messages.
 * An address that this host has itself is not tried: the process that listens there is on this host.
 *
 * Messages between agents, signed with a key that is derived from the session's (wire.h):
 *   {"t":"ping", "to":I, "nonce":HEX}  ->  {"t":"pong", "node":I, "nonce":HEX, "seen":ADDR, "at":ADDR, "port":PORT}
 *   {"t":"fill", "pad":TEXT}           ->  {"t":"filled", "pad":TEXT}
 * "fill" and "filled" are longer than a segment of the connection, so that packets of full size go both ways. If
 * routers disagree about that size and send no error, short packets arrive and long ones get lost, and a training would
 * hang. Over IPv6 this step is left out if the interface also has an IPv4 address.
 */
#ifndef HVD_PROBE_H
#define HVD_PROBE_H

#include "lib/base/deadline.h"
#include "lib/host/network.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <jansson.h>

struct hvd_probe;

/* Begin to answer other agents as the host `index`. `node` (not owned) is this host with its interfaces; it must
 * outlive the probe. NULL with err set. */
struct hvd_probe *hvd_probe_create(struct event_base *base, const struct hvd_key *session_key, uint32_t index,
				   const struct hvd_host_info *node, struct hvd_err *err);
void hvd_probe_destroy(struct hvd_probe *probe); /* NULL is fine */
in_port_t hvd_probe_port(const struct hvd_probe *probe);

/* Measure how fast bytes arrive from another host (bandwidth.h). `order` is the driver's message {"t":"measure", "n":I,
 * "a":ADDR, "p":PORT, "ms":N}. `done` is called once, perhaps from within, with {"t":"measured", "n":I, "kbps":KBIT/S,
 * "rtt":µs}, which is released after the call; 0: nothing arrived. A measurement that is under way is given up. -1 with
 * err set if the order is malformed. */
int hvd_probe_measure(struct hvd_probe *probe, const json_t *order, void (*done)(json_t *measured, void *arg),
		      void *arg, struct hvd_err *err);

/*
 * Try all targets of an order; targets that do not answer are tried several times. There is one order at a time: the
 * next may follow the report. `order` is the driver's message:
 *   {"targets":[{"n":I, "p":PORT, "a":[ADDR,…], "here":BOOL},…], "timeout_ms":N}
 * "n" is the index of a host, "p" and "a" are its agent's port and addresses; an empty address is not tried. "here":
 * the host is this same machine, whose own addresses lead to it. From the event loop `done` is called once, with the
 * report, which is released after the call:
 *   {"t":"report", "edges":[[I, index in "a", own interface or -1, result, rtt µs],…], "clock":NS}
 * "clock" is this host's time at the call (launcher/hosts/clocks.h). A result is a number of enum hvd_reach. Returns
 * -1 with err set if the order is malformed.
 */
int hvd_probe_run(struct hvd_probe *probe, const json_t *order, void (*done)(json_t *report, void *arg), void *arg,
		  struct hvd_err *err);

#endif
