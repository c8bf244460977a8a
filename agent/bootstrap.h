/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - how a process of hvd-agent that belongs to a launch begins: it finds out where the driver is, and which
 * ranks of the job are its own.
 */
#ifndef HVD_BOOTSTRAP_H
#define HVD_BOOTSTRAP_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "taskinfo.h"

#include <stdbool.h>

struct hvd_bootstrap {
	struct hvd_boot boot;
	struct hvd_taskinfo info;
	/* With a code: this host cannot have ranks, and the driver is to be told why. */
	struct hvd_err refusal;
	struct hvd_log log; /* at the level of the launch */
};

struct hvd_bootstrap_opts {
	/* Find out which ranks are this process's: one of the readers in taskinfo.h. */
	int (*find)(const void *arg, struct hvd_taskinfo *info, struct hvd_err *err);
	const void *arg;
	bool from_stdin;   /* what the launcher tells comes on stdin (stdin_bootstrap.h); else HVD_BOOT_ENV has it */
	const char *input; /* whose the rest of stdin is, see hvd_stdin_bootstrap_input(); NULL = this process's */
	bool refuses;      /* a directory that this host lacks is a refusal, not an error */
	/* Do what the process is for. Returns the exit status. */
	int (*run)(struct hvd_bootstrap *start, const void *arg);
};

/* Find it out, and run. Returns the exit status, after saying on `log` why nothing was run. */
int hvd_bootstrap_run(const struct hvd_bootstrap_opts *opts, const struct hvd_log *log);
/* At which level a process of this launch logs. */
enum hvd_log_level hvd_bootstrap_level(const struct hvd_boot *boot);

#endif
