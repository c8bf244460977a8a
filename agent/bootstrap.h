/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - the start of a process of hvd-agent that belongs to a launch: it finds out where the driver is, and
 * which ranks of the job are its own.
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
	struct hvd_strv args; /* what the preamble has brought of the command line (lib/protocol/preamble.h) */
	struct hvd_log log;   /* at the level of the launch */
};

struct hvd_bootstrap_opts {
	/* Find out which ranks are this process's: one of the readers in taskinfo.h. */
	int (*find)(const void *arg, struct hvd_taskinfo *info, struct hvd_err *err);
	const void *arg;
	bool from_stdin; /* the launcher's data comes on stdin (stdin_bootstrap.h); else HVD_BOOT_ENV has it */
	const char
		*input; /* the rank that gets the rest of stdin (hvd_stdin_bootstrap_input()); NULL = this process's */
	bool refuses;   /* a directory that this host lacks is a refusal, not an error */
	/* Do the work of the process. Returns the exit status. */
	int (*run)(struct hvd_bootstrap *start, const void *arg);
};

/* Find driver and ranks, and call `run`. Returns the exit status. If `run` was not called, `log` has the reason. */
int hvd_bootstrap_run(const struct hvd_bootstrap_opts *opts, const struct hvd_log *log);
/* The log level of a process of this launch. */
enum hvd_log_level hvd_bootstrap_level(const struct hvd_boot *boot);

#endif
