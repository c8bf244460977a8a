/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_http.h - a server of one page, /metrics, within the launch's event loop.
 *
 * Who may read it: without a token only processes of this user on this host, as the owner of a client's socket shows
 * (lib/rendezvous/access.h); with one, whoever sends it as "Authorization: Bearer TOKEN".
 *
 * No stranger can keep the event loop busy. A connection has one request, with a head of a few kilobytes and no body, and a
 * few seconds for all of it. If there are too many, the one that has not sent its request for longest is closed. The page is
 * made for those only who may read it.
 */
#ifndef HVD_METRICS_HTTP_H
#define HVD_METRICS_HTTP_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "metrics_text.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct hvd_metrics_http;

struct hvd_metrics_http_opts {
	struct event_base *base;
	const struct sockaddr_storage *addr; /* with the port; 0 = any */
	const char *token;                   /* NULL = none; copied */
	/* Makes the page, which is taken over. */
	char *(*page)(enum hvd_metrics_form form, size_t *len, void *arg);
	void *arg;
	const struct hvd_log *log;
};

/* NULL with err set: HVD_E_NET if the port is in use. */
struct hvd_metrics_http *hvd_metrics_http_create(const struct hvd_metrics_http_opts *opts, struct hvd_err *err);
in_port_t hvd_metrics_http_port(const struct hvd_metrics_http *http);
void hvd_metrics_http_destroy(struct hvd_metrics_http *http); /* NULL is fine */

#endif
