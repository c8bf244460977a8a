/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_waits.h - which ranks wait in the TCPStore, and for which key.
 *
 * The store knows address and pid of a client. The agents of the hosts that have this address say which rank a process is
 * part of (host_questions.h). A process that tells no pid, or another one than the host's, as in a container with pids of its
 * own, is no known rank.
 */
#ifndef HVD_STORE_WAITS_H
#define HVD_STORE_WAITS_H

#include "host_questions.h"
#include "launcher/hosts/host_table.h"
#include "lib/rendezvous/service.h"

#include <jansson.h>
#include <stdbool.h>

struct hvd_store_waits;

/* Nothing is owned. */
struct hvd_store_waits *hvd_store_waits_create(const struct hvd_host_table *table, struct hvd_rv_service *service,
					       struct hvd_host_questions *questions);
void hvd_store_waits_destroy(struct hvd_store_waits *waits); /* NULL is fine */

/* {"ranks":{"12":KEY,…}, "lines":[LINE,…]}: the ranks that wait, by their number, and a line for each other process that does
 * (hvd_rv_service_ask_waits()). It stays the object's. */
typedef void hvd_store_waits_fn(const json_t *answer, void *arg);

/* Ask. `done` is called once, from the event loop, within some seconds. There is one who asks. False: there is no store
 * now, and `done` is not called. */
bool hvd_store_waits_ask(struct hvd_store_waits *waits, hvd_store_waits_fn *done, void *arg);
void hvd_store_waits_forget(struct hvd_store_waits *waits); /* do not answer */

#endif
