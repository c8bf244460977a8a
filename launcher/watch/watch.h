/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - hvdrun --watch: the state of a job, again and again, until its launch has ended or the user leaves.
 *
 * It asks hvdrun --status JOB --json in a process of its own, and shows the answer on a full screen (view.h, screen.h), or
 * prints it where there is none. The next question follows after the interval, and never before four times what the last one
 * took, so a job that is asked by steps of Slurm is asked less often.
 *
 * The job has ended when hvdrun says so (status 2). If hvdrun fails otherwise, as between two launches of a batch job, it is
 * asked again; MOST_FAILURES in a row end the watch.
 */
#ifndef HVD_WATCH_H
#define HVD_WATCH_H

#include <stdbool.h>

struct hvd_watch_opts {
	const char *hvdrun; /* path of the program */
	const char *job;
	int interval; /* seconds */
	bool json;    /* print a line of JSON each time */
};

/* Watch. Returns the exit status: 0 if the user has left, or the launch has ended; else as hvdrun's. A screen is closed, and
 * the process ends by the signal if it was SIGTERM or SIGHUP. */
int hvd_watch(const struct hvd_watch_opts *opts);

#endif
