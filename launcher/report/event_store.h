/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_store.h - the events of launches, as lines of the file of --events have them (docs/events.md), in bounded memory.
 *
 * A line may come from a running launch or from a file, which anybody may have written: each is parsed, and what is kept
 * is safe in a page of HTML. Of a launch with very many events the first and the last ones are kept: those about the launch
 * and its generations (8192), and those about hosts and ranks (32768). Of what hosts use (host-usage) at most 32768 are
 * kept, of every minute, of every second one, of every fourth one, and so on. Of a file of very many launches the last ones
 * are kept, 64 at most.
 */
#ifndef HVD_EVENT_STORE_H
#define HVD_EVENT_STORE_H

#include <stdbool.h>
#include <stddef.h>

struct hvd_event_store;

struct hvd_event_store *hvd_event_store_create(void);
void hvd_event_store_destroy(struct hvd_event_store *store); /* NULL is fine */

/* Add a line, with or without its newline. False: it is no event, and is counted. Untrusted input is fine. */
bool hvd_event_store_add(struct hvd_event_store *store, const char *line, size_t len);

/* A line was too long to be read. */
void hvd_event_store_skip(struct hvd_event_store *store);

/* How many events were added. */
size_t hvd_event_store_count(const struct hvd_event_store *store);

/* All of it, for the page:
 *   {"launches":[{"launch":NAME, "left_out":N, "events":[[TIMESTAMP,NAME,{FIELD:VALUE,…}],…]},…], "older":N, "malformed":N}
 * The launches are in the order of their first events. The text is printable ASCII without <, > and &, which no HTML parser
 * sees as anything but text. *len does not count the zero byte. The caller frees it. */
char *hvd_event_store_json(const struct hvd_event_store *store, size_t *len);

/* Add the launches of such a text, as launches of their own. What is none of its lines is left out: untrusted input is
 * fine, of less than 2 GiB. */
void hvd_event_store_add_text(struct hvd_event_store *store, const char *text, size_t len);

/* Put all launches of `later` behind those of `store`, in place of earlier states of the same launches. `later` is empty
 * then. */
void hvd_event_store_append(struct hvd_event_store *store, struct hvd_event_store *later);

#endif
