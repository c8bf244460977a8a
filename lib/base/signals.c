/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The names as sigabbrev_np() of glibc 2.32 has them. */
static const char *const names[] = {
	[SIGHUP] = "HUP",       [SIGINT] = "INT",     [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
	[SIGABRT] = "ABRT",     [SIGBUS] = "BUS",     [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
	[SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",   [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
	[SIGCHLD] = "CHLD",     [SIGCONT] = "CONT",   [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN",
	[SIGTTOU] = "TTOU",     [SIGURG] = "URG",     [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM",
	[SIGPROF] = "PROF",     [SIGWINCH] = "WINCH", [SIGPOLL] = "POLL", [SIGPWR] = "PWR",   [SIGSYS] = "SYS",
#ifdef SIGSTKFLT
	[SIGSTKFLT] = "STKFLT",
#endif
};

const char *hvd_signal_name(int sig)
{
	return sig > 0 && (size_t)sig < sizeof(names) / sizeof(names[0]) ? names[sig] : NULL;
}

int hvd_signal_number(const char *text, size_t len)
{
	if (len > 3 && strncasecmp(text, "SIG", 3) == 0) {
		text += 3;
		len -= 3;
	}
	for (int sig = 1; sig < SIGRTMIN; sig++) {
		const char *known = hvd_signal_name(sig);
		char number[16];

		if (!known)
			continue; /* the C library's own */
		if (strlen(known) == len && strncasecmp(known, text, len) == 0)
			return sig;
		if ((size_t)snprintf(number, sizeof(number), "%d", sig) == len && strncmp(number, text, len) == 0)
			return sig;
	}
	return 0;
}
