/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage_log.h - what hosts use over time, as events (host-usage), for the file of events and the report.
 *
 * The first look at which ranks are known is after three samples or later, and then there is one each minute. A look is an
 * event for each host with ranks that are known; of n hosts, more than HVD_USAGE_LOG_HOSTS, each is part of every
 * n / HVD_USAGE_LOG_HOSTS-th look, so that the file of a large job does not grow faster.
 */
#ifndef HVD_USAGE_LOG_H
#define HVD_USAGE_LOG_H

#include "usage.h"

#include <event2/event.h>
#include <stddef.h>

#define HVD_USAGE_LOG_HOSTS 60

struct hvd_usage_log;

/* `sample`: seconds between two reports of an agent. Nothing is owned, and all outlive the log. */
struct hvd_usage_log *hvd_usage_log_create(struct event_base *base, double sample, const struct hvd_usage *usage,
					   struct hvd_event_log *events);
void hvd_usage_log_destroy(struct hvd_usage_log *log); /* NULL is fine, here and below */

/* A generation begins. */
void hvd_usage_log_begin(struct hvd_usage_log *log);
/* The job is over. */
void hvd_usage_log_stop(struct hvd_usage_log *log);

/* For tests: the look with this number. Returns how many events were logged. */
size_t hvd_usage_log_look(const struct hvd_usage *usage, unsigned number, struct hvd_event_log *events);

#endif
