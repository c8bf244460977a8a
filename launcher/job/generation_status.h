/* SPDX-License-Identifier: Apache-2.0 */
/* generation_status.h - the state of a world's current generation, made of the events of the launch. */
#ifndef HVD_GENERATION_STATUS_H
#define HVD_GENERATION_STATUS_H

#include "launcher/events/event_log.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: none has begun. */
struct hvd_generation_status {
	int64_t generation, restarts;
	hvd_time began;
	bool init_began, init_done;
	bool ends;      /* it has failed, or is being ended */
	char *why;      /* it ends; the last restart; NULL: not known */
	uint32_t n;     /* its ranks */
	int16_t *ended; /* by rank: the exit status, or -1 */
};

/* An event of the world. */
void hvd_generation_status_event(struct hvd_generation_status *status, const struct hvd_event *event);
void hvd_generation_status_clear(struct hvd_generation_status *status); /* leaves a zeroed struct */

#endif
