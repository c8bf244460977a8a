/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.h - the process in front of a rank that a scheduler or an MPI starts. It finds the host's agent
 * (agent_socket.h), or starts it, gets the plan from it (shims.h), and runs the rank.
 *
 * Both functions log errors on start->log, and return the exit status.
 */
#ifndef HVD_SHIM_H
#define HVD_SHIM_H

#include "bootstrap.h"
#include "observed.h"
#include "output.h"

/* For the plugin: start the host's agent, and wait until it has written the variables of all tasks of the host
 * (lib/protocol/step_plans.h). `events`: the descriptors of lib/protocol/step_event.h are open. `command`: what the
 * ranks run; empty: not known. */
int hvd_shim_plan(struct hvd_bootstrap *start, bool events, char *const *command);

struct hvd_shim_opts {
	const struct hvd_rank_starter *starter; /* with shims */
	char *const *argv;                      /* the command, unless the rank has one of its own */
	const struct hvd_output_style *style;
};

/* Run the command as a child, report its start and end to the agent, and end in the same way. Signals that a scheduler
 * sends to the process group reach the command without this process. */
int hvd_shim_run(struct hvd_bootstrap *start, const struct hvd_shim_opts *opts);

#endif
