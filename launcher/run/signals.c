/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include "lib/base/xalloc.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct hvd_signals {
	int fd;
	struct event *ev;
	void (*fn)(int sig, bool tty, void *arg);
	void *arg;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_signals *signals = arg;
	struct signalfd_siginfo si;

	(void)what;
	while (read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		signals->fn((int)si.ssi_signo, si.ssi_code == SI_KERNEL, signals->arg);
}

struct hvd_signals *hvd_signals_catch(struct event_base *base, bool job_control,
				      void (*fn)(int sig, bool tty, void *arg), void *arg, struct hvd_err *err)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
	struct hvd_signals *signals = hvd_xcalloc(1, sizeof(*signals));
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		sigaddset(&set, caught[i]);
	if (job_control) {
		sigaddset(&set, SIGTSTP);
		sigaddset(&set, SIGTTIN);
		sigaddset(&set, SIGTTOU);
		sigaddset(&set, SIGCONT);
	}
	signals->fn = fn;
	signals->arg = arg;
	signals->fd = -1;
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
	    (signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0 ||
	    !(signals->ev = event_new(base, signals->fd, EV_READ | EV_PERSIST, on_readable, signals)) ||
	    event_add(signals->ev, NULL) != 0) {
		hvd_err_sys(err, "cannot watch for signals");
		hvd_signals_release(signals);
		return NULL;
	}
	return signals;
}

void hvd_signals_release(struct hvd_signals *signals)
{
	if (!signals)
		return;
	if (signals->ev)
		event_free(signals->ev);
	if (signals->fd >= 0)
		close(signals->fd);
	free(signals);
}
