/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - a node agent looks at its host before the ranks start: free space, limits, GPUs, the site's program.
 *
 * A process of its own does it, since programs may hang: nvidia-smi, where it is in PATH, and the site's program. When
 * its time is over it is killed, with the programs that it has started.
 */
#ifndef HVD_TASK_PREFLIGHT_H
#define HVD_TASK_PREFLIGHT_H

#include "lib/base/err.h"

#include <event2/event.h>
#include <jansson.h>

struct hvd_preflight;

/* Begin. `hook`: the site's program, which is run as this user without arguments; a status that is not 0 makes the host
 * a bad one, and the last line that it has printed is the reason; NULL = there is none. From the event loop `done` is
 * called once, within `seconds` and one more, with what was found (lib/job/host_check.h), which is released after the
 * call. NULL with err set. */
struct hvd_preflight *hvd_preflight_start(struct event_base *base, const char *hook, double seconds,
					  void (*done)(json_t *found, void *arg), void *arg, struct hvd_err *err);
void hvd_preflight_destroy(struct hvd_preflight *preflight); /* without a call of `done`; NULL is fine */

#endif
