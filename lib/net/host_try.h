/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_try.h - does the kernel of a host answer?
 *
 * A connection is tried to each of its addresses. One that is accepted, or refused, is an answer: no process of the
 * host needs to run for that. Nothing is sent.
 */
#ifndef HVD_HOST_TRY_H
#define HVD_HOST_TRY_H

#include "addr.h"

#include <event2/event.h>
#include <stddef.h>

#define HVD_HOST_TRY_ADDRS 16

struct hvd_host_try;

/* Try the first HVD_HOST_TRY_ADDRS addresses, for so many milliseconds. From the event loop `done` is called once, when
 * one has answered, or all have failed, or the time is over. It may destroy the object, which the caller owns. */
struct hvd_host_try *hvd_host_try_begin(struct event_base *base, const struct hvd_addr *addrs, size_t n, in_port_t port,
					int ms, void (*done)(bool answered, void *arg), void *arg);
void hvd_host_try_destroy(struct hvd_host_try *tries); /* gives up; NULL is fine */

#endif
