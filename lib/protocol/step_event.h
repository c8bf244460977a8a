/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_event.h - messages between a host's agent and the processes that start its ranks: slurmstepd and its tasks, or
 * the rank shims.
 *
 *   TASK   a rank begins: its pid and, if its standard error is to be read, two descriptors: the reading end of the
 *          pipe that it writes to now, and its former standard error. A shim sends the descriptors first, with pid 0
 *   FILE   before it, where standard error is a regular file: both descriptors are that file; at: its size, in place of
 *          a time
 *   EXIT   a rank has ended: pid, status, time; WITH_ALL: by a signal that a scheduler has sent to all ranks
 *
 * slurmstepd and the agent share two socket pairs, which slurmstepd makes before it forks the tasks. The agent reads
 * the other end of the first pair. The watchdog (agent/detached.h) holds the other end of the second pair, and does not
 * read it: the tasks' messages stay in the kernel, and can be read if the agent is killed. Nothing can be sent the
 * other way. Otherwise a user could send, as a descriptor, a socket that lingers, and root's process would block when
 * it drops the socket.
 *
 * The agent acknowledges each EXIT when the task's output has been delivered and the driver knows of the end. For each
 * EXIT but the last it adds one to an eventfd of slurmstepd's. For the last one it ends, which closes its end of the
 * pair. slurmstepd waits for both with an epoll instance. It never reads the eventfd: the user can change the eventfd's
 * flags, and so could make a read block.
 *
 * A shim, and the process that gets the plans of all tasks for the plugin, have a connection to the agent
 * (agent/agent_socket.h), on which these follow:
 *
 *   ASK          to the agent: what is the plan of this local rank or, under the plugin, of all ranks of the host?
 *   PLAN         the answer: two descriptors, of the plan (agent/shims.h) and, where it has func_key, of the key of
 *                --run-func; else of the plan once more. Under the plugin there are none: the plans are in the memory
 *                that slurmstepd has made (step_plans.h)
 *   REFUSED      in its place: there will be no plan; status: the exit status
 *   NOT_STARTED  to the agent, in place of TASK and EXIT: the command could not be started. Both descriptors are the
 *                same, and have the reason
 *   OUTPUT_LOST  to the agent: output of the rank could not be written; the user was told
 *   SEEN         from the agent, for each EXIT and NOT_STARTED: the rank's output has been delivered, and the
 *                driver knows
 *   (closing)    the shim closes its direction when it has sent all; the agent then closes the connection, by its own
 *                end if that was the last shim
 *   SIGNAL       from the agent: send this signal (status) to the rank
 *   END          from the agent: end the rank; again: at once
 *
 * No call blocks: a send that would block fails. Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_STEP_EVENT_H
#define HVD_STEP_EVENT_H

#include <stdint.h>

/* Descriptors of hvd-agent plan. */
#define HVD_STEP_EVENTS_FD 4
#define HVD_STEP_BACKUP_FD 5
#define HVD_STEP_SEEN_FD   6
/* How long slurmstepd waits for the acknowledgement of an EXIT, and for all of a step. After one wait in vain it waits
 * no more. */
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
	HVD_STEP_FILE,
};

struct hvd_step_event {
	uint32_t kind;
	uint32_t local_id;
	int32_t pid;
	int32_t status; /* EXIT: as from waitpid(2) */
	int64_t at;     /* CLOCK_MONOTONIC, in ns; FILE: bytes */
};

/* Make a socket pair, close-on-exec. Events go from ends[0] to ends[1] only. 0, or -1 with errno. */
int hvd_step_events_pair(int ends[2]);
/* Send an event, with two descriptors unless `fds` is NULL. 0, or -1 with errno: nothing was sent. */
int hvd_step_event_send(int fd, const struct hvd_step_event *event, const int fds[2]);
/*
 * Receive an event. Returns 1 with *event; fds[0] and fds[1] are descriptors that the caller owns, or -1. 0: there is
 * none yet. -1: there will be none. A message that is no event is skipped.
 */
int hvd_step_event_take(int fd, struct hvd_step_event *event, int fds[2]);
void hvd_step_event_close(int fds[2]); /* close the descriptors of an event; -1 is fine, and left in their place */

#endif
