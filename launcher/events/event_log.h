/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_log.h - takes the events of a launch (event.h).
 *
 * Each fact is added once, where it is known first. Those who show a job, or count its time, are listeners. With a file
 * (--events) every event becomes a line of it as well, by a process of its own (event_file.h).
 */
#ifndef HVD_EVENT_LOG_H
#define HVD_EVENT_LOG_H

#include "event.h"
#include "lib/base/log.h"
#include "lib/host/rank_end.h"

struct hvd_event_log;
typedef void hvd_event_fn(const struct hvd_event *event, void *arg);

/* The log of a launch, which users know by the name `launch`. `file` (NULL: none) gets a line for each event; `log`,
 * which must outlive the result, tells at the end if it could not have all. NULL with err set if the file can never be
 * written. */
struct hvd_event_log *hvd_event_log_create(const char *launch, const char *file, const struct hvd_log *log,
					   struct hvd_err *err);
void hvd_event_log_destroy(struct hvd_event_log *events); /* NULL is fine */

/* Call fn for each event from now on. There may be four listeners. NULL is fine, here and below. */
void hvd_event_log_listen(struct hvd_event_log *events, hvd_event_fn *fn, void *arg);

/* No more events for this argument. */
void hvd_event_log_unlisten(struct hvd_event_log *events, const void *arg);

/* Add an event; nothing is owned. Never waits. An event belongs to the generation that began last. Of those about a
 * generation itself (init-began, …) only the first of a kind counts. */
void hvd_event_log_add(struct hvd_event_log *events, struct hvd_event *event);

/* A rank of the generation, of which `end` may not know the number, has ended. */
void hvd_event_log_rank_ended(struct hvd_event_log *events, const struct hvd_rank_end *end, int64_t rank,
			      const char *host);

/* hvd_event(log, HOST_LOST, .host = name, .why = "…") */
#define hvd_event(events, id, ...) hvd_event_log_add(events, &(struct hvd_event){.name = HVD_EV_##id, __VA_ARGS__})

#endif
