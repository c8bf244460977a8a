/* SPDX-License-Identifier: Apache-2.0 */
#include "signal_forward.h"

#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/process/keep_fds.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_NS (HVD_SIGNAL_ROUND_MS * INT64_C(1000000))

struct hvd_signal_forward {
	sigset_t set;
	pid_t witness;
	int own, seen;            /* signalfd; what the witness says: a byte for each of its signals */
	hvd_time judge[NSIG];     /* when it is decided whether the witness got it, too; 0 = nothing to decide */
	hvd_time witnessed[NSIG]; /* 0 = never */
	bool had[NSIG];
	struct event *on_own, *on_seen, *due;
	void (*alone)(int sig, void *arg);
	void *arg;
};

static _Noreturn void witness(const sigset_t *set, int out, pid_t parent)
{
	unsigned char byte;
	int sig;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, "hvd-signals");
	hvd_keep_fds(NULL, 0, out, 0);
	for (;;) {
		sig = sigwaitinfo(set, NULL);
		byte = (unsigned char)sig;
		/* A full pipe is one that tells of the signal already. */
		if (sig > 0 && write(out, &byte, 1) < 0 && errno != EAGAIN)
			_exit(0);
	}
}

/* ---- what has come ---- */

static void set_due(struct hvd_signal_forward *forward)
{
	hvd_time first = 0;
	struct timeval tv;

	for (int sig = 1; sig < NSIG; sig++)
		if (forward->judge[sig] && (!first || forward->judge[sig] < first))
			first = forward->judge[sig];
	if (!first)
		return;
	tv = hvd_left_tv(first);
	evtimer_add(forward->due, &tv);
}

static void read_seen(struct hvd_signal_forward *forward)
{
	unsigned char bytes[NSIG];
	ssize_t n = read(forward->seen, bytes, sizeof(bytes));

	for (ssize_t i = 0; i < n; i++)
		if (bytes[i] < NSIG)
			forward->witnessed[bytes[i]] = hvd_now();
	if (n == 0)
		event_del(forward->on_seen); /* it was killed: nothing comes to it any longer */
}

static void on_seen(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_seen(arg);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_signal_forward *forward = arg;
	hvd_time now = hvd_now();

	(void)fd;
	(void)what;
	read_seen(forward);
	for (int sig = 1; sig < NSIG; sig++) {
		if (!forward->judge[sig] || forward->judge[sig] > now)
			continue;
		forward->judge[sig] = 0;
		if (!forward->witnessed[sig] || now - forward->witnessed[sig] > 2 * ROUND_NS)
			forward->alone(sig, forward->arg);
	}
	set_due(forward);
}

static void on_own(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_signal_forward *forward = arg;
	struct signalfd_siginfo info;

	(void)what;
	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info) || info.ssi_signo >= NSIG)
		return;
	forward->had[info.ssi_signo] = true;
	/* As the kernel does with signals that wait. */
	if (info.ssi_signo == SIGCONT)
		forward->judge[SIGTSTP] = 0;
	else if (info.ssi_signo == SIGTSTP)
		forward->judge[SIGCONT] = 0;
	if (!forward->judge[info.ssi_signo])
		forward->judge[info.ssi_signo] = hvd_now() + ROUND_NS;
	set_due(forward);
}

/* ---- begin and end ---- */

static int start_witness(struct hvd_signal_forward *forward, struct hvd_err *err)
{
	pid_t parent = getpid();
	sigset_t all, mask;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	/* No handler of this process may run in the witness: it could write to a descriptor that both have. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	forward->witness = fork();
	if (forward->witness == 0)
		witness(&forward->set, fds[1], parent);
	if (forward->witness < 0)
		hvd_err_sys(err, "cannot start a process");
	sigprocmask(SIG_SETMASK, &mask, NULL);
	close(fds[1]);
	forward->seen = fds[0];
	return forward->witness < 0 ? -1 : 0;
}

struct hvd_signal_forward *hvd_signal_forward_create(struct event_base *base, const sigset_t *set,
						     void (*alone)(int sig, void *arg), void *arg, struct hvd_err *err)
{
	struct hvd_signal_forward *forward = hvd_xcalloc(1, sizeof(*forward));

	*forward = (struct hvd_signal_forward){.set = *set, .own = -1, .seen = -1, .alone = alone, .arg = arg};
	if (start_witness(forward, err) != 0 ||
	    ((forward->own = signalfd(-1, &forward->set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0 &&
	     hvd_err_sys(err, "cannot wait for signals") != 0)) {
		hvd_signal_forward_destroy(forward);
		return NULL;
	}
	forward->due = evtimer_new(base, on_due, forward);
	forward->on_own = event_new(base, forward->own, EV_READ | EV_PERSIST, on_own, forward);
	forward->on_seen = event_new(base, forward->seen, EV_READ | EV_PERSIST, on_seen, forward);
	event_add(forward->on_own, NULL);
	event_add(forward->on_seen, NULL);
	return forward;
}

bool hvd_signal_forward_had(const struct hvd_signal_forward *forward, int sig)
{
	sigset_t pending;

	return forward->had[sig] || (sigpending(&pending) == 0 && sigismember(&pending, sig) == 1);
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void hvd_signal_forward_destroy(struct hvd_signal_forward *forward)
{
	if (!forward)
		return;
	free_event(forward->due);
	free_event(forward->on_own);
	free_event(forward->on_seen);
	if (forward->own >= 0)
		close(forward->own);
	if (forward->seen >= 0)
		close(forward->seen);
	/* While it was not waited for, its id is its own. */
	if (forward->witness > 0 && waitpid(forward->witness, NULL, WNOHANG) == 0) {
		kill(forward->witness, SIGKILL);
		waitpid(forward->witness, NULL, 0);
	}
	for (int sig = 1; sig < NSIG; sig++)
		if (forward->had[sig] && sig != SIGCONT)
			raise(sig);
	free(forward);
}
