/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_note.h - what slurmstepd and its tasks tell the node agent that stays beside them (task/stay.h).
 *
 * slurmstepd makes two socket pairs before it forks the tasks. The agent reads at the other end of the first. The other
 * end of the second is the watchdog's (task/resident.h), which does not read it: what tasks have sent there stays in
 * the kernel, and can be taken up should the agent be killed. Nothing can be sent the other way: a user's socket that
 * lingers, sent as a descriptor, would hold up root's process when it is dropped.
 *
 *   TASK   from each task, to both, when it has its plan: its pid and, where its standard error is to be looked at, two
 *          descriptors: the reading end of the pipe that it writes to now, and what it wrote to before
 *   EXIT   from slurmstepd, when a task has ended: pid, status, time
 *
 * For each EXIT the agent adds one to an eventfd of slurmstepd's, as soon as what the task had written is where it
 * belongs, and the driver was told. slurmstepd hears of it through an epoll instance, and never reads the eventfd: its
 * flags are also the user's, who could make a read wait.
 *
 * Nobody waits in a call: sending fails where it would. Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_STEP_NOTE_H
#define HVD_STEP_NOTE_H

#include <stdint.h>

/* hvd-task's descriptors. */
#define HVD_STEP_NOTES_FD 4
#define HVD_STEP_SPARE_FD 5
#define HVD_STEP_SEEN_FD  6
/* In the plan that hvd-task prints for the plugin: the pid of the node agent that stays. No variable of a rank. */
#define HVD_STEP_AGENT_ENV "SLURM_HVD_NODE_AGENT"
/* … and the plan of a task that takes no part in the job is only this, with any value. */
#define HVD_STEP_SPARE_ENV "SLURM_HVD_SPARE"
/* How long slurmstepd waits until an EXIT was seen, and for all of a step. It waits no more when it has waited in vain
 * once. */
#define HVD_STEP_SEEN_MS     300
#define HVD_STEP_SEEN_ALL_MS 10000

enum hvd_step_note_kind {
	HVD_STEP_TASK = 1,
	HVD_STEP_EXIT,
};

struct hvd_step_note {
	uint32_t kind;
	uint32_t local_id;
	int32_t pid;
	int32_t status; /* as from waitpid(2) */
	int64_t at;     /* ns since the epoch */
};

/* Make a socket pair, close-on-exec. Notes go from ends[0] to ends[1] only. 0, or -1 with errno. */
int hvd_step_notes_pair(int ends[2]);
/* Send a note, with two descriptors unless `fds` is NULL. 0, or -1 with errno: it was not sent. */
int hvd_step_note_send(int fd, const struct hvd_step_note *note, const int fds[2]);
/* Take a note. Returns 1 with *note; fds[0] and fds[1] are descriptors that the caller owns, or -1. 0: none is there.
 * -1: none will come. What is no note is passed over. */
int hvd_step_note_take(int fd, struct hvd_step_note *note, int fds[2]);

#endif
