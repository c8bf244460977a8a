/* SPDX-License-Identifier: Apache-2.0 */
/*
 * losses.h - what the driver does, after the plan, about a process of the launch that has ended before the ranks
 * (loss.h).
 *
 * It first waits for a moment, because the whole launch may just be ending. Then the start fails if ranks need the
 * process to reach PyTorch's store and have not called init_process_group() yet: they would wait for half an hour.
 * Otherwise the user is told, and the ranks go on.
 */
#ifndef HVD_DRIVER_LOSSES_H
#define HVD_DRIVER_LOSSES_H

#include "launcher/hosts/loss.h"
#include "lib/base/log.h"

#include <event2/event.h>

struct hvd_losses;

/* `failed` is called if ranks cannot rendezvous any longer. `log` is not owned and must outlive the result. */
struct hvd_losses *hvd_losses_create(struct event_base *base, void (*failed)(const struct hvd_err *why, void *arg),
				     void *arg, const struct hvd_log *log);
void hvd_losses_destroy(struct hvd_losses *losses); /* NULL is fine */

/* A process was lost. `expected`, which this takes over, names the ranks that have not come to the store, and cannot any
 * longer; NULL: none. One loss is judged at a time, and may be added once more with more facts. */
void hvd_losses_add(struct hvd_losses *losses, const struct hvd_loss *loss, char *expected);
/* A rank has failed: later losses may follow from that, and end nothing. */
void hvd_losses_rank_failed(struct hvd_losses *losses);

#endif
