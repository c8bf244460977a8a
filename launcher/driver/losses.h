/* SPDX-License-Identifier: Apache-2.0 */
/*
 * losses.h - what the driver does about a process of the launch that has ended before the ranks (loss.h), when there is
 * a plan.
 *
 * It waits first for a moment, since the launch may just be ending, with all of its processes. Then the start fails if
 * ranks need the process to come to PyTorch's store and have not come yet: they would wait for half an hour. Otherwise
 * the user is told, and the ranks go on.
 */
#ifndef HVD_DRIVER_LOSSES_H
#define HVD_DRIVER_LOSSES_H

#include "agent_registry.h"
#include "loss.h"

#include <event2/event.h>

struct hvd_losses;

/* `agents` and `log` are not owned and must outlive it. */
struct hvd_losses *hvd_losses_create(struct event_base *base, struct hvd_agent_registry *agents,
				     const struct hvd_log *log);
void hvd_losses_destroy(struct hvd_losses *losses); /* NULL is fine */

/* A process was lost, on the host of this number. One is judged at a time, and of that one more may be told. */
void hvd_losses_add(struct hvd_losses *losses, const struct hvd_loss *loss, uint32_t host);
/* A rank has failed: what is lost from now on may be lost because of that, and ends nothing. */
void hvd_losses_rank_failed(struct hvd_losses *losses);

#endif
