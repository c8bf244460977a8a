/* SPDX-License-Identifier: Apache-2.0 */
/*
 * goodput.h - where the time of a launch goes, made of its events.
 *
 * The time has these parts. start: until the first generation began. init: from the begin of each generation until all of
 * its ranks had called init_process_group(). training: from then to its first failure, or to the change of hosts that ended
 * it. ending: from then until the last rank had gone. waiting: from then until the next generation began, as for hosts.
 * Goodput is the share of training in all of it, as far as the launcher can see.
 *
 * Ranks may not be PyTorch's. Until a generation has called init_process_group(), training counts from the begin of
 * generations; afterwards one that has not called it has not trained.
 */
#ifndef HVD_GOODPUT_H
#define HVD_GOODPUT_H

#include "event_log.h"
#include "lib/base/deadline.h"

#include <stdbool.h>

/* Seconds. */
struct hvd_phases {
	double start, init, training, ending, waiting;
};

/* Zeroed, but for `began`. */
struct hvd_goodput {
	hvd_time began; /* the launch */
	bool inits;     /* a generation has called init_process_group() */
	struct hvd_phases past;
	struct {
		hvd_time began, init, failed, over; /* 0 = has not */
	} now;                                      /* the current generation */
};

void hvd_goodput_event(struct hvd_goodput *goodput, const struct hvd_event *event);

/* The part of the current generation, or of the start before there is one, if it were over now. */
struct hvd_phases hvd_goodput_current(const struct hvd_goodput *goodput, hvd_time now);
/* All of the launch until now. */
struct hvd_phases hvd_goodput_phases(const struct hvd_goodput *goodput, hvd_time now);
/* The share of training in all of the launch until now, from 0 to 1. */
double hvd_goodput_share(const struct hvd_goodput *goodput, hvd_time now);
double hvd_goodput_seconds(hvd_time from, hvd_time to); /* to a millisecond; 0 if `to` is not later */

#endif
