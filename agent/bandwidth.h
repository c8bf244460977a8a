/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bandwidth.h - measures how fast bytes arrive from another host's agent (--preflight=full).
 *
 * The asking agent connects to the other agent's probe server (probe_server.h), and both prove who they are by the
 * signed ping and pong of the probe (probe.h). Then it sends {"t":"stream", "ms":N}. The other side sends meaningless
 * bytes for at most that time, and at most HVD_STREAM_BYTES of them; then it closes the connection.
 */
#ifndef HVD_BANDWIDTH_H
#define HVD_BANDWIDTH_H

#include "lib/base/err.h"
#include "lib/net/addr.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define HVD_STREAM_BYTES (INT64_C(64) << 20)
#define HVD_BANDWIDTH_MS 2000 /* at most */

struct hvd_bandwidth;

/* Ask the agent of host `node` at this address. From the event loop `done` is called once: with Mbit/s and the
 * round-trip time of a packet in µs, or with 0 and 0 if nothing arrived. NULL with err set. */
struct hvd_bandwidth *hvd_bandwidth_ask(struct event_base *base, const struct hvd_key *key, uint32_t node,
					const struct hvd_addr *addr, in_port_t port, int ms,
					void (*done)(double mbps, uint32_t rtt_us, void *arg), void *arg,
					struct hvd_err *err);
/* Send bytes over `fd`, of which this takes ownership. `over` is called once, when `fd` is closed. */
struct hvd_bandwidth *hvd_bandwidth_serve(struct event_base *base, int fd, int ms, void (*over)(void *arg), void *arg);
void hvd_bandwidth_destroy(struct hvd_bandwidth *stream); /* without a call; NULL is fine */

#endif
