/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_commands.h - which command each rank of a launch runs: one for all, or with --multi-prog that of a line of a file
 * (lib/process/multi_prog.h), which is read once, by the launcher.
 */
#ifndef HVD_RANK_COMMANDS_H
#define HVD_RANK_COMMANDS_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>

struct hvd_launch_spec;
struct hvd_multi_prog;
struct hvd_options;

/* --multi-prog is given: read the file, which is the first word of the command, and check it against the other options.
 * If they do not say how many ranks there are, the file does. -1 with HVD_E_USAGE. */
int hvd_rank_commands_load(struct hvd_options *o, struct hvd_err *err);
/* Fail if a command, or one of the file, cannot be sent, since words of it are no UTF-8. */
int hvd_rank_command_check(char *const *argv, struct hvd_err *err);
int hvd_rank_commands_check(const struct hvd_multi_prog *programs, struct hvd_err *err);

/* Refuse commands that are launchers themselves, as hvd_other_launcher_refuse() does. */
int hvd_rank_commands_refuse(const struct hvd_launch_spec *spec, long ranks, bool crowded, struct hvd_err *err);

/* With --multi-prog, the command of a rank as [WORD,…], a new reference. NULL: the rank runs the command of the launch; with
 * `any` that one is returned then. */
json_t *hvd_rank_command(const struct hvd_launch_spec *spec, int rank, bool any);

#endif
