/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - the start of a process of hvd-agent that belongs to a launch: it finds out where the driver is, and
 * which ranks of the job are its own.
 *
 * HVD_BOOT_ENV has the driver's address, or the launcher sends it on stdin (its option --stdin), with environment,
 * directory, key, and perhaps arguments: lib/protocol/preamble.h.
 */
#ifndef HVD_BOOTSTRAP_H
#define HVD_BOOTSTRAP_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/protocol/boot.h"
#include "taskinfo.h"

#include <stdbool.h>

struct hvd_bootstrap {
	struct hvd_boot boot;
	struct hvd_taskinfo info;
	/* With a code: this host cannot have ranks, and the driver must learn why. */
	struct hvd_err refusal;
	struct hvd_strv args; /* what the preamble has brought of the command line */
	struct hvd_log log;   /* at the level of the launch */
};

struct hvd_bootstrap_opts {
	/* Where this process's ranks are from (taskinfo.h): `host` and `ranks`, or `mpi`, or `jsrun`; else it is a task of
	 * Slurm. */
	const char *host, *ranks, *mpi, *jsrun;
	bool from_stdin; /* the launcher's data comes on stdin; else HVD_BOOT_ENV has it */
	/* The rank that gets the rest of stdin, or "none". Every other rank gets /dev/null in its place; a child process,
	 * which ends with this one, reads the input for others. NULL = this process's rank. */
	const char *input;
	bool refuses; /* a directory that this host lacks is a refusal, not an error */
};

/* Find driver and ranks, and take over what has come on stdin. Returns 0, or the exit status to end with after `log` has
 * got the reason. The caller clears *start in both cases. */
int hvd_bootstrap_begin(struct hvd_bootstrap *start, const struct hvd_bootstrap_opts *opts, const struct hvd_log *log);
void hvd_bootstrap_clear(struct hvd_bootstrap *start);
/* The log level of a process of this launch. */
enum hvd_log_level hvd_bootstrap_level(const struct hvd_boot *boot);

/* Set the nice value, and the soft limit of locked memory in bytes or "unlimited", to those of the launcher, as far as
 * the hard limit and the user's rights allow. The program that starts processes on other hosts may not pass them on.
 * NULL = leave. */
void hvd_bootstrap_limits(const char *nice_value, const char *memlock);
/* The main part of the child that reads input for others: read stdin to its end. Returns the exit status. */
int hvd_bootstrap_drain(void);

#endif
