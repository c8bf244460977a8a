/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - what the ranks of a launch use at the moment, as their agents report it (lib/host/rank_usage.h).
 *
 * For each rank of the generation the last message counts. A rank is known from the first message about its process until that
 * ends, is not part of the next generation, its agent is gone, or nothing was heard of it for HVD_USAGE_SECONDS. Whoever shows a job
 * reads it here, at any moment; nobody is asked.
 *
 * The growth of a rank's memory is the slope of its least values in windows of half a minute, over the last five minutes, so
 * that what a rank takes and gives back in each of its steps does not count. It is the median of the slopes between any two
 * windows, so that what the rank takes once, as when it loads its modules, does not count either.
 *
 * A message costs as much as the ranks that it has, whatever the size of the job.
 */
#ifndef HVD_USAGE_H
#define HVD_USAGE_H

#include "launcher/events/event_log.h"
#include "launcher/hosts/clients.h"
#include "lib/base/deadline.h"
#include "lib/host/layout.h"
#include "lib/host/rank_usage.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* An agent reports each rank twice in this time. */
#define HVD_USAGE_SECONDS (2 * HVD_RANK_USAGE_SECONDS)

struct hvd_usage_rank {
	struct hvd_rank_usage uses; /* with the number of the rank */
	uint32_t host;              /* its number in the launch */
	const char *host_name;
	hvd_time heard;  /* the last message; uses.output was so much less ago */
	bool has_growth; /* it was watched for long enough */
	double growth;   /* of its memory: bytes a second, below 0 if it shrinks; 0 as long as it is not known */
};

/* The ranks of a host together. */
struct hvd_usage_host {
	const char *name; /* NULL: not known */
	uint32_t ranks;   /* that are known; 0: all else is 0 */
	/* Sums over those ranks of which a figure is known; HVD_USAGE_UNKNOWN: of none. `output` is the least as of now, `awaited`
	 * the largest; `rank` is the first. */
	struct hvd_rank_usage uses;
};

struct hvd_usage;

/* Of the ranks of this world. `events` (NULL: none) tells of their ends. It is not owned, and outlives the result. */
struct hvd_usage *hvd_usage_create(unsigned world, struct hvd_event_log *events);
void hvd_usage_destroy(struct hvd_usage *usage); /* NULL is fine */
unsigned hvd_usage_world(const struct hvd_usage *usage);

/* A generation begins. What is known of a process stays if it has a rank of it, too. `layout` is not owned; it does not change until the next call or
 * the end. Its hosts have their numbers in the launch. */
void hvd_usage_begin(struct hvd_usage *usage, const struct hvd_layout *layout);

/* The message "usage" of an agent. Ranks that are not on its host are ignored. */
void hvd_usage_message(struct hvd_usage *usage, const struct hvd_client *cl, const json_t *msg);
/* The agent of this host is gone. */
void hvd_usage_gone(struct hvd_usage *usage, uint32_t host);

/* How many ranks the generation has; 0 before the first one. */
uint32_t hvd_usage_size(const struct hvd_usage *usage);
/* The rank; NULL: it is not known. Valid until the next message. */
const struct hvd_usage_rank *hvd_usage_get(const struct hvd_usage *usage, uint32_t rank);
/* The first known rank (`after` NULL), or the next one; NULL after the last. */
const struct hvd_usage_rank *hvd_usage_next(const struct hvd_usage *usage, const struct hvd_usage_rank *after);
/* How many seconds before `now` its last output was; HVD_USAGE_UNKNOWN: that is not known. */
int64_t hvd_usage_output(const struct hvd_usage_rank *rank, hvd_time now);
/* How many hosts the generation has; 0 before the first one. */
uint32_t hvd_usage_hosts(const struct hvd_usage *usage);
/* The ranks of the host with this number, which the generation may not have. */
struct hvd_usage_host hvd_usage_host(const struct hvd_usage *usage, uint32_t host);
/* Add them to *sum, which is zeroed, or has those of other worlds on this host. */
void hvd_usage_host_add(const struct hvd_usage *usage, uint32_t host, struct hvd_usage_host *sum);

/* For tests: this was heard of a rank of this host, at this time, no earlier than the last one. */
void hvd_usage_take(struct hvd_usage *usage, uint32_t host, const struct hvd_rank_usage *uses, hvd_time at);

#endif
