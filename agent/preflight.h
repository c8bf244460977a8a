/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - an agent checks its host before the ranks start, and before they start again: free space, limits, GPUs,
 * the site's program.
 *
 * A process of its own makes the check, because programs may hang: nvidia-smi, if it is in PATH, and the site's
 * program. The process is killed when its time is over, with the programs that it has started.
 */
#ifndef HVD_AGENT_PREFLIGHT_H
#define HVD_AGENT_PREFLIGHT_H

#include "child_answer.h"
#include "lib/base/err.h"

struct hvd_preflight_order {
	/* The site's program, which is run as this user without arguments; NULL = there is none. If its status is not
	 * 0, the host is bad, and the program's last line is the reason. */
	const char *hook;
	double seconds;
	/* Not NULL: check nothing but whether no more of the GPUs' memory is in use than this (struct hvd_host_check), and
	 * wait for that as long as there is time. */
	const json_t *mib;
};

/* Read {"ms":N, "hook":PATH}. The string stays that of `msg`. -1 with err set. */
int hvd_preflight_order_read(const json_t *msg, struct hvd_preflight_order *order, struct hvd_err *err);

/* Begin. From the event loop `done` is called once, within `seconds` and one more, with what hvd_preflight_result() takes.
 * NULL with err set. */
struct hvd_child_answer *hvd_preflight_start(struct event_base *base, const struct hvd_preflight_order *order,
					     void (*done)(json_t *result, void *arg), void *arg, struct hvd_err *err);
/* The result (lib/host/host_check.h), a new reference, also if the check has failed. */
json_t *hvd_preflight_result(json_t *result);

#endif
