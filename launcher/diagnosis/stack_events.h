/* SPDX-License-Identifier: Apache-2.0 */
/* stack_events.h - the groups of stacks of a hang (stack_groups.h) as events, one for each group. */
#ifndef HVD_STACK_EVENTS_H
#define HVD_STACK_EVENTS_H

#include "launcher/events/event_log.h"

#include <jansson.h>

/* Log the first groups of this world, the smallest first: 16 at most, with some frames each. `answers` is as in stack_groups.h. */
void hvd_stack_events(const json_t *answers, unsigned world, struct hvd_event_log *events);

#endif
