/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_try.h - asks a server of this host once whether it is up.
 *
 * It may listen on any address, so loopback is tried first, and then the host's own addresses, until one accepts the
 * connection. It is up then, or, if it is asked for a path, when the status of its answer is 2xx. The rest of the answer is
 * dropped, up to a limit.
 */
#ifndef HVD_READY_TRY_H
#define HVD_READY_TRY_H

#include <event2/event.h>
#include <netinet/in.h>
#include <stddef.h>

/* How long one question may take. */
#define HVD_READY_TRY_SECONDS 5.0

struct hvd_ready_try;

/* Ask for GET of `path`, or only for a connection (NULL). From the event loop `done` is called once: `why` says why the
 * server is not up, and is the object's; NULL: it is. It may destroy the object, which the caller owns. */
struct hvd_ready_try *hvd_ready_try_begin(struct event_base *base, in_port_t port, const char *path,
					  void (*done)(const char *why, void *arg), void *arg);
void hvd_ready_try_destroy(struct hvd_ready_try *try); /* gives up; NULL is fine */

#define HVD_HTTP_STATUS_LEN 12 /* of "HTTP/1.1 200" */

/* The status of an answer that begins so. 0: more of it is needed; -1: it is no answer in HTTP/1. Untrusted input is fine. */
int hvd_http_status(const char *bytes, size_t n);

#endif
