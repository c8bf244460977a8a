/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_line.h - the command line of a process, as a line that others may read.
 *
 * Secrets that users write into command lines are left out: the values of options and variables whose names end in token,
 * password, key and the like, what follows "Authorization:", and the user's name and password in a URL. They are guessed by
 * these names, so a secret of another name stays.
 */
#ifndef HVD_COMMAND_LINE_H
#define HVD_COMMAND_LINE_H

#include "lib/base/strv.h"

#include <sys/types.h>

/* The words as a line for a shell, with "***" in place of each secret. The caller frees it. */
char *hvd_command_line(char *const *argv);

/* The same of a process of this user, at most 64 KiB of it. NULL if it cannot be read. */
char *hvd_command_line_of(pid_t pid);
/* Append its words as they are; none if they cannot be read. */
void hvd_command_words_of(pid_t pid, struct hvd_strv *words);

#endif
