/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carry.h - the launcher's end of an agent that came by itself: carries what its host's ranks read and write.
 */
#ifndef HVD_CARRY_H
#define HVD_CARRY_H

#include "lib/base/log.h"

/* `at` is "FD:SESSION:HOST", a connection whose agent waits (lib/job/join.h). A preamble (lib/protocol/preamble.h)
 * comes on stdin, of which the key and the boot text count. Have the agent run hvd-task with the arguments of `argv`,
 * whose first word is left out; stdin goes there, and its output comes here. Blocks. Returns the exit status of that
 * hvd-task, or HVD_JOIN_LOST, of which the user was told, when the connection ends before that. */
int hvd_carry_run(const char *at, char *const *argv, const struct hvd_log *log);

#endif
