/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_event.h - what a host's node agent and those who start its ranks tell each other: slurmstepd and its tasks, or
 * the rank shims.
 *
 *   TASK   a rank begins: its pid and, where its standard error is to be looked at, two descriptors: the reading end of
 *          the pipe that it writes to now, and what it wrote to before. A shim sends the descriptors first, with pid 0
 *   EXIT   a rank has ended: pid, status, time; WITH_ALL: by a signal that a scheduler has sent to all
 *
 * Between slurmstepd and the agent there are two socket pairs, which slurmstepd makes before it forks the tasks. The
 * agent reads at the other end of the first. The other end of the second is its watchdog's (agent/detached.h), which
 * does not read it: what tasks have sent there stays in the kernel, and can be taken up should the agent be killed.
 * Nothing can be sent the other way: a user's socket that lingers, sent as a descriptor, would hold up root's process
 * when it is dropped. For each EXIT but the last the agent adds one to an eventfd of slurmstepd's, as soon as what the
 * task had written is where it belongs, and the driver was told; for the last one it ends, which closes its end of the
 * pair. slurmstepd hears of both through an epoll instance, and never reads the eventfd: its flags are also the user's,
 * who could make a read wait.
 *
 * A shim, and the process that gets the plans of all tasks for the plugin, have a connection to the agent
 * (agent/agent_socket.h), on which they also send and get:
 *
 *   ASK          to the agent: what is the plan of this local rank; HVD_STEP_ALL: of all ranks of the host?
 *   PLAN         the answer: two descriptors, of the plan (agent/shims.h) and, where it has func_key, of the key of
 *                --run-func; else of the plan once more
 *   REFUSED      in its place: there will be none; status: to end with
 *   NOT_STARTED  to the agent, in place of TASK and EXIT: the command could not be started. The descriptors, which are
 *                one, have the reason
 *   OUTPUT_LOST  to the agent: output of the rank could not be written; the user was told
 *   SEEN         from the agent, for each EXIT and NOT_STARTED: what the rank had written is where it belongs, and the
 *                driver was told
 *   (closing)    the shim closes its direction when it has sent all; the agent then closes the connection, by its own
 *                end if that was the last shim
 *   SIGNAL       from the agent: send this signal (status) to the rank
 *   END          from the agent: end the rank; again: at once
 *
 * Nobody waits in a call: sending fails where it would. Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_STEP_EVENT_H
#define HVD_STEP_EVENT_H

#include <stdint.h>

/* Descriptors of hvd-agent plan. */
#define HVD_STEP_EVENTS_FD 4
#define HVD_STEP_SPARE_FD  5
#define HVD_STEP_SEEN_FD   6
/* In the plan that hvd-agent prints for the plugin: the pid of the node agent. No variable of a rank. */
#define HVD_STEP_AGENT_ENV "SLURM_HVD_NODE_AGENT"
/* … and the plan of a task that takes no part in the job is only this, with any value. */
#define HVD_STEP_SPARE_ENV "SLURM_HVD_SPARE"
/* How long slurmstepd waits until an EXIT was seen, and for all of a step. It waits no more when it has waited in vain
 * once. */
#define HVD_STEP_SEEN_MS     300
#define HVD_STEP_SEEN_ALL_MS 10000
/* How long an agent may take from closing its descriptors to its end. */
#define HVD_STEP_ENDS_MS 2

enum hvd_step_event_kind {
	HVD_STEP_TASK = 1,
	HVD_STEP_EXIT,
	HVD_STEP_EXIT_WITH_ALL,
	HVD_STEP_ASK,
	HVD_STEP_PLAN,
	HVD_STEP_REFUSED,
	HVD_STEP_NOT_STARTED,
	HVD_STEP_OUTPUT_LOST,
	HVD_STEP_SEEN,
	HVD_STEP_SIGNAL,
	HVD_STEP_END,
};

#define HVD_STEP_ALL UINT32_MAX

struct hvd_step_event {
	uint32_t kind;
	uint32_t local_id;
	int32_t pid;
	int32_t status; /* EXIT: as from waitpid(2) */
	int64_t at;     /* ns since the epoch */
};

/* Make a socket pair, close-on-exec. Notes go from ends[0] to ends[1] only. 0, or -1 with errno. */
int hvd_step_events_pair(int ends[2]);
/* Send an event, with two descriptors unless `fds` is NULL. 0, or -1 with errno: it was not sent. */
int hvd_step_event_send(int fd, const struct hvd_step_event *event, const int fds[2]);
/* Take an event. Returns 1 with *event; fds[0] and fds[1] are descriptors that the caller owns, or -1. 0: none is
 * there. -1: none will come. What is no event is passed over. */
int hvd_step_event_take(int fd, struct hvd_step_event *event, int fds[2]);
void hvd_step_event_close(int fds[2]); /* close the descriptors of an event; -1 is fine, and left in their place */

#endif
