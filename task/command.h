/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - the user's command as the one child of a shim, from its start until the shim ends as it did.
 *
 * Everything here blocks and is for the main thread of a program that does nothing else meanwhile. Signals for the
 * group of processes go to the command as well: the shim only waits, and can tell afterwards what it was sent, for all
 * of its signals are blocked when hvd_command_run() comes back, also with an error.
 *
 * A shim that follows is for where no scheduler tracks the rank's processes. When what started it has gone, or the
 * command has ended, so has every process that the command has left.
 */
#ifndef HVD_COMMAND_H
#define HVD_COMMAND_H

#include "lib/base/err.h"
#include "output.h"

#include <stdbool.h>
#include <sys/types.h>

struct hvd_command {
	char *const *argv; /* NULL-terminated; the first is searched in PATH of `envp` */
	char *const *envp;
	int rank;                             /* for labels and files */
	const struct hvd_output_style *style; /* where it asks for nothing the command has our output itself */
	int key_fd;                           /* the command has it at the same number; 0 = none */
	/* After hvd_command_follow(): end with `parent`, which had started this process. The command's group, when we
	 * lead it, else the command, gets SIGTERM and five seconds first. Then this process ends as well: the call does
	 * not come back. */
	bool follow;
	pid_t parent;
	/* Without `follow`, where a scheduler's daemon is the parent and nobody would look after the command when that
	 * has gone: called first, then the command is ended in the same way, with all that it has left. The call comes
	 * back then. NULL: the command goes on. */
	void (*orphaned)(void *arg);
	void *arg;
};

/* First thing in a program that follows: from now on the end of its parent sends a signal that ends it. Returns it. */
int hvd_command_follow(void);

/* Run it to its end, and all of its output to its. *status as from waitpid(2). -1 with err set when it could not be
 * started; then nothing of it runs. */
int hvd_command_run(const struct hvd_command *command, int *status, struct hvd_err *err);

/* After hvd_command_run(): did the signal that ended the command go to the whole step: scancel, a time limit, a lost
 * node, Ctrl-C? Takes a tenth of a second when it did not. */
bool hvd_command_signalled_with_us(int status);

/* End as this wait status says, or return what to exit with. */
int hvd_command_mirror(int status);

#endif
