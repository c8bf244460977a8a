/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include "lib/base/xalloc.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct source {
	struct hvd_signals *signals;
	int fd;
	struct event *readable;
};

struct hvd_signals {
	struct source user; /* what users and schedulers send */
	struct source child;
	hvd_signal_fn *fn;
	void *arg;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct source *source = arg;
	struct signalfd_siginfo si;

	(void)what;
	while (read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		source->signals->fn((int)si.ssi_signo, si.ssi_code == SI_KERNEL, source->signals->arg);
}

static int open_source(struct hvd_signals *signals, struct source *source, struct event_base *base, const sigset_t *set,
		       int priority)
{
	source->signals = signals;
	source->fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (source->fd < 0)
		return -1;
	source->readable = event_new(base, source->fd, EV_READ | EV_PERSIST, on_readable, source);
	return source->readable && event_priority_set(source->readable, priority) == 0 &&
			       event_add(source->readable, NULL) == 0
		       ? 0
		       : -1;
}

static void close_source(struct source *source)
{
	if (source->readable)
		event_free(source->readable);
	if (source->fd >= 0)
		close(source->fd);
}

/* A user's signal comes before what is read of connections, for the ends of ranks that follow from it are no failures. Ends
 * of child processes have no such order. */
struct hvd_signals *hvd_signals_catch(struct event_base *base, bool job_control, hvd_signal_fn *fn, void *arg,
				      struct hvd_err *err)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	static const int of_job_control[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};
	const int least = event_base_get_npriorities(base) / 2;
	struct hvd_signals *signals = hvd_xcalloc(1, sizeof(*signals));
	sigset_t user, child, all;

	sigemptyset(&user);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		sigaddset(&user, caught[i]);
	for (size_t i = 0; job_control && i < sizeof(of_job_control) / sizeof(of_job_control[0]); i++)
		sigaddset(&user, of_job_control[i]);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigorset(&all, &user, &child);
	*signals = (struct hvd_signals){.user.fd = -1, .child.fd = -1, .fn = fn, .arg = arg};
	if (sigprocmask(SIG_BLOCK, &all, NULL) != 0 || open_source(signals, &signals->user, base, &user, 0) != 0 ||
	    open_source(signals, &signals->child, base, &child, least) != 0) {
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
	close_source(&signals->user);
	close_source(&signals->child);
	free(signals);
}
