/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_queue.h - what has happened in the parts of an elastic job, on its way to the state machine; and its clock.
 *
 * News are not handed over at once, but from the event loop, in the order in
 * which they came: the machine's orders reach other parts, which may have news
 * in turn, and the machine must not be called while it is at work.
 */
#ifndef HVD_EVENT_QUEUE_H
#define HVD_EVENT_QUEUE_H

#include "lib/job/alloc.h"
#include "machine.h"

#include <event2/event.h>

enum hvd_news_kind {         /* id                  value */
	HVD_NEWS_HOST_HERE,  /* host */
	HVD_NEWS_HOST_LOST,  /* host */
	HVD_NEWS_HOST_UNFIT, /* host */
	HVD_NEWS_ARRIVED,    /* worker */
	HVD_NEWS_CONNECTED,
	HVD_NEWS_READY,    /* worker */
	HVD_NEWS_EXITED,   /* worker              as from waitpid(2) */
	HVD_NEWS_NOTIFIED, /* worker              has it heard? */
	HVD_NEWS_UNCUT,
};

struct hvd_news;

/* Neither is owned. */
struct hvd_news *hvd_news_create(struct event_base *base, struct hvd_machine *machine);
void hvd_news_destroy(struct hvd_news *news); /* NULL is fine */

void hvd_news_add(struct hvd_news *news, enum hvd_news_kind kind, uint32_t id, int value);
/* The hosts that there are, each once, and the Slurm job of each (0: ours). Copied. */
void hvd_news_add_hosts(struct hvd_news *news, const struct hvd_alloc *hosts, const uint32_t *jobs);
/* The Slurm job of a host, as the machine was told last; 0: ours. */
uint32_t hvd_news_job_of(const struct hvd_news *news, const char *host);

/* From now on the machine is told nothing. */
void hvd_news_stop(struct hvd_news *news);

#endif
