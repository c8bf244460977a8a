/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_log.h - the events of a launch, {timestamp, name, context}, and their log.
 *
 * docs/events.md describes the names and fields of HVD_EVENT_ROWS. A new event is a row here, and a call of hvd_event()
 * where it happens.
 *
 * Each fact is added once, where it is known first. Those who show a job, or count its time, are listeners. With a file
 * (--events) every event becomes a line of it as well, by a process of its own (event_file.h).
 */
#ifndef HVD_EVENT_LOG_H
#define HVD_EVENT_LOG_H

#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/host/rank_end.h"

#include <stddef.h>
#include <stdint.h>

/* The fields of an event's context, each a member of struct hvd_event. */
/* clang-format off */
#define HVD_EVENT_FIELDS(TEXT, NUMBER) \
	TEXT(version) TEXT(backend) TEXT(command) TEXT(role) TEXT(host) TEXT(hosts) TEXT(networks) TEXT(why) TEXT(how) TEXT(cause) \
	TEXT(error) TEXT(lines) TEXT(members) TEXT(where) TEXT(stack) \
	NUMBER(job) NUMBER(generation) NUMBER(ranks) NUMBER(restarts) NUMBER(rank) NUMBER(status) NUMBER(seconds) \
	NUMBER(count) NUMBER(cpu) NUMBER(memory) NUMBER(gpu)

/* Each event, its name, and its fields. A text that is not known is left out, and so are the numbers `job` and
 * `generation` if they are 0, and `gpu` if it is less. */
#define HVD_EVENT_ROWS(EVENT) \
	EVENT(LAUNCH_BEGAN,      "launch-began",      F(version) | F(backend) | F(command) | F(job)) \
	EVENT(HOST_COMING,       "host-coming",       F(host)) \
	EVENT(HOST_REGISTERED,   "host-registered",   F(host)) \
	EVENT(HOST_PROBING,      "host-probing",      F(host)) \
	EVENT(HOST_REPORTED,     "host-reported",     F(host)) \
	EVENT(HOST_HERE,         "host-here",         F(host)) \
	EVENT(HOST_SPARE,        "host-spare",        F(host) | F(why)) \
	EVENT(HOST_LEFT,         "host-left",         F(host)) \
	EVENT(HOST_LOST,         "host-lost",         F(host) | F(why)) \
	EVENT(HOST_USAGE,        "host-usage",        F(role) | F(host) | F(ranks) | F(cpu) | F(memory) | F(gpu)) \
	EVENT(NETWORKS_CHOSEN,   "networks-chosen",   F(networks) | F(why)) \
	EVENT(GENERATION_BEGAN,  "generation-began",  F(role) | F(generation) | F(ranks) | F(hosts) | F(restarts)) \
	EVENT(INIT_BEGAN,        "init-began",        F(role) | F(generation)) \
	EVENT(INIT_DONE,         "init-done",         F(role) | F(generation)) \
	EVENT(RANK_ENDED,        "rank-ended",        F(role) | F(generation) | F(rank) | F(host) | F(status) | F(how) | F(cause) | F(error)) \
	EVENT(RANK_SLOW,         "rank-slow",         F(role) | F(generation) | F(rank) | F(host) | F(why)) \
	EVENT(RANK_EVEN,         "rank-even",         F(role) | F(generation) | F(rank) | F(host)) \
	EVENT(GENERATION_ENDING, "generation-ending", F(role) | F(generation) | F(why) | F(host)) \
	EVENT(GENERATION_FAILED, "generation-failed", F(role) | F(generation) | F(rank) | F(host) | F(how) | F(error)) \
	EVENT(GENERATION_ENDED,  "generation-ended",  F(role) | F(generation)) \
	EVENT(FIRST_FAILURE,     "first-failure",     F(role) | F(generation) | F(host) | F(why) | F(lines)) \
	EVENT(RESTART,           "restart",           F(role) | F(generation) | F(restarts) | F(why)) \
	EVENT(HANG,              "hang",              F(role) | F(generation) | F(seconds) | F(why)) \
	EVENT(MAY_HANG,          "may-hang",          F(role) | F(generation) | F(seconds) | F(why)) \
	EVENT(STACK_GROUP,       "stack-group",       F(role) | F(generation) | F(count) | F(members) | F(hosts) | F(where) | F(stack)) \
	EVENT(HANG_ACTION,       "hang-action",       F(role) | F(generation) | F(why)) \
	EVENT(REQUEUE,           "requeue",           F(job) | F(why)) \
	EVENT(LAUNCH_ENDING,     "launch-ending",     0) \
	EVENT(LAUNCH_ENDED,      "launch-ended",      F(status)) \
	EVENT(EVENTS_LOST,       "events-lost",       F(count))
/* clang-format on */

enum hvd_event_name {
#define HVD_EVENT_ID(id, name, fields) HVD_EV_##id,
	HVD_EVENT_ROWS(HVD_EVENT_ID)
#undef HVD_EVENT_ID
	HVD_N_EVENTS,
};

struct hvd_event {
	enum hvd_event_name name;
	hvd_time at;    /* 0 = now */
	int64_t wall;   /* the same as hvd_wall_at() has it; 0 = not known yet */
	uint32_t index; /* of host-…: the host's number in the launch; no field */
	unsigned world; /* of generations and ranks: the number of their world, whose role the log adds; no field */
#define HVD_EVENT_TEXT(field)   const char *field;
#define HVD_EVENT_NUMBER(field) int64_t field;
	HVD_EVENT_FIELDS(HVD_EVENT_TEXT, HVD_EVENT_NUMBER)
#undef HVD_EVENT_TEXT
#undef HVD_EVENT_NUMBER
};

/* A line for the file, with a newline and a zero byte, of HVD_EVENT_LINE bytes at most; texts are escaped and cut. The
 * length. */
#define HVD_EVENT_LINE 4096
size_t hvd_event_line(const char *launch, const struct hvd_event *event, char line[HVD_EVENT_LINE + 1]);

/* For tests: the name of an event, and the names of its fields with commas between them, which the caller frees. */
const char *hvd_event_name(enum hvd_event_name name);
char *hvd_event_fields(enum hvd_event_name name);

/* ---- the log ---- */

struct hvd_event_log;
typedef void hvd_event_fn(const struct hvd_event *event, void *arg);

/* The log of a launch, which users know by the name `launch`. `file` (NULL: none) gets a line for each event; `log`,
 * which must outlive the result, tells at the end if it could not have all. NULL with err set if the file can never be
 * written. */
struct hvd_event_log *hvd_event_log_create(const char *launch, const char *file, const struct hvd_log *log,
					   struct hvd_err *err);
void hvd_event_log_destroy(struct hvd_event_log *events);             /* NULL is fine */
const char *hvd_event_log_launch(const struct hvd_event_log *events); /* the name of the launch */

/* Call fn for each event from now on. NULL is fine, here and below. */
void hvd_event_log_listen(struct hvd_event_log *events, hvd_event_fn *fn, void *arg);

/* The name of this world; NULL: it has none. Copied. */
void hvd_event_log_world(struct hvd_event_log *events, unsigned world, const char *role);

/* No more events for this argument. */
void hvd_event_log_unlisten(struct hvd_event_log *events, const void *arg);

/* Add an event; nothing is owned. Never waits. An event belongs to the generation of its world that began last. Of those
 * about a generation itself (init-began, …) only the first of a kind counts. */
void hvd_event_log_add(struct hvd_event_log *events, struct hvd_event *event);

/* A rank of the generation, of which `end` may not know the number, has ended. */
void hvd_event_log_rank_ended(struct hvd_event_log *events, unsigned world, const struct hvd_rank_end *end,
			      int64_t rank, const char *host);

/* hvd_event(log, HOST_LOST, .host = name, .why = "…") */
#define hvd_event(events, id, ...) hvd_event_log_add(events, &(struct hvd_event){.name = HVD_EV_##id, __VA_ARGS__})

#endif
