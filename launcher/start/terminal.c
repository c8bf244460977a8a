/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

struct hvd_terminal hvd_terminal_save(void)
{
	struct hvd_terminal terminal = {0};
	pid_t foreground = tcgetpgrp(STDIN_FILENO);

	terminal.foreground =
		foreground >= 0 && foreground == getpgrp() && tcgetattr(STDIN_FILENO, &terminal.settings) == 0;
	return terminal;
}

void hvd_terminal_restore(const struct hvd_terminal *terminal, bool settings)
{
	pid_t foreground = terminal->foreground ? tcgetpgrp(STDIN_FILENO) : -1;
	sigset_t background, old;

	if (foreground < 0)
		return;
	/* A process in the background that sets something gets SIGTTOU, unless it has blocked it. */
	sigemptyset(&background);
	sigaddset(&background, SIGTTOU);
	sigprocmask(SIG_BLOCK, &background, &old);
	if (foreground != getpgrp() && kill(-foreground, 0) != 0 && errno == ESRCH &&
	    tcsetpgrp(STDIN_FILENO, getpgrp()) == 0)
		foreground = getpgrp();
	if (settings && foreground == getpgrp())
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal->settings);
	sigprocmask(SIG_SETMASK, &old, NULL);
}
