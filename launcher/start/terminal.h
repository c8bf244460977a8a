/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h - the terminal that is hvdrun's standard input, and that rank 0 may use.
 *
 * A rank that is killed at a prompt, or in an editor or debugger, leaves the terminal without echo, or with a process
 * group in the foreground that is gone. Shells put the terminal right only after a command that a signal has killed.
 */
#ifndef HVD_TERMINAL_H
#define HVD_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

struct hvd_terminal {
	bool foreground; /* hvdrun began in the foreground of a terminal, and these are its settings */
	struct termios settings;
};

struct hvd_terminal hvd_terminal_save(void);
/* Give hvdrun's process group the terminal's foreground again if the group that has it is gone. With `settings`, and if
 * hvdrun is in the foreground, restore the terminal's settings, too. */
void hvd_terminal_restore(const struct hvd_terminal *terminal, bool settings);

#endif
