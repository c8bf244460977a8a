/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the socket through which a running launch answers questions: hvdrun --stacks and --status, on the
 * host of the driver.
 *
 * The driver's process listens on a UNIX socket in the abstract namespace. So no file is left behind, however the
 * process ends, and a container with a network of its own has a namespace of its own. The socket's name is
 *     hvd/UID/LAUNCH/PID, or hvd/UID/LAUNCH/RANDOM/PID
 * LAUNCH is "slurm-JOB.STEP" (srun --hvd), "slurm-JOB" or "lsf-JOB" (hvdrun in such a job), or "none". PID is that of
 * srun or hvdrun. The longer name is for a launch whose name somebody else has taken. Both ends check that the other
 * one is a process of the same user, because anyone may take a name; the launch's end also accepts root.
 *
 * A client sends one line, "QUESTION SECONDS" or "QUESTION SECONDS RANK" with a rank as in lib/host/rank_name.h, and gets the answer as JSON until the end of the
 * connection. One client at a time is answered.
 */
#ifndef HVD_CONTROL_H
#define HVD_CONTROL_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <event2/event.h>
#include <jansson.h>
#include <sys/types.h>

#define HVD_CONTROL_MAX_SECONDS  60.0
#define HVD_CONTROL_MAX_LAUNCHES 64

struct hvd_control;

/* A question that a launch answers. */
struct hvd_control_question {
	const char *name; /* NULL ends a list */
	/* About this rank alone, or all (NULL). Call `done` once, at once or from the event loop, at the latest
	 * `seconds` and one more from now, with an object of JSON as a text, which is taken over. NULL: there is no answer. */
	void (*ask)(void *owner, double seconds, const char *rank, void (*done)(char *answer, void *arg), void *arg);
	/* Do not answer the client that has asked. */
	void (*forget)(void *owner);
	void *owner;
};

/* Listen, and answer these questions, which are not owned and must outlive the result. `launch` is LAUNCH; NULL: that of
 * this process's environment. Returns NULL if that is impossible: the launch goes on without. */
struct hvd_control *hvd_control_open(struct event_base *base, const char *launch, pid_t pid,
				     const struct hvd_control_question *questions);
void hvd_control_close(struct hvd_control *control); /* NULL is fine */

/* ---- control_ask.c ---- */

/* Ask the launch that `target` names: "JOB", "JOB.STEP", or "pid:PID". A new reference; NULL with err set: HVD_E_NOENT
 * if this user has no such launch on this host, or more than one. */
json_t *hvd_control_ask(const char *target, const char *question, double seconds, struct hvd_err *err);
/* Also a target: all launches that were not started in a job. Such a launch may have made a job of its own. */
#define HVD_CONTROL_NO_JOB "none"
/* Ask all of them about a rank, or NULL, at most HVD_CONTROL_MAX_LAUNCHES: an array of the answers of those that
 * have answered, at least one. NULL with err set. */
json_t *hvd_control_ask_each(const char *target, const char *question, const char *rank, double seconds,
			     struct hvd_err *err);

#endif
