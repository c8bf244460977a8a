/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The witness is a process that shares this process's memory and descriptors, so starting and ending it copies and
 * frees nothing: a host has one for each rank. It ends with this process, or when this process says so. Until then it
 * only makes calls that change neither errno nor anything else that belongs to this process's thread: it reads its
 * signals, which the kernel keeps for each process, by a signalfd, and stores their times in `witnessed`.
 */
#include "signal_forward.h"

#include "lib/base/deadline.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_NS (HVD_SIGNAL_ROUND_MS * INT64_C(1000000))
/* Bytes of the witness's stack: it calls little. */
#define STACK_SIZE 16384

struct hvd_signal_forward {
	_Alignas(16) char stack[STACK_SIZE];
	sigset_t set;
	pid_t self, witness;
	int own, its;         /* signalfds: this process's, and the witness's, which waits */
	hvd_time judge[NSIG]; /* when it is decided whether the witness got it, too; 0 = nothing to decide */
	_Atomic hvd_time witnessed[NSIG]; /* 0 = never */
	bool had[NSIG];
	struct hvd_timer *due;
	struct event *on_own;
	void (*alone)(int sig, void *arg);
	void *arg;
};

static int witness(void *arg)
{
	struct hvd_signal_forward *forward = arg;
	struct signalfd_siginfo info;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != forward->self)
		return 0;
	prctl(PR_SET_NAME, "hvd-signals");
	/* read(2) of libc is a point where a thread of this process could be cancelled. */
	while (syscall(SYS_read, forward->its, &info, sizeof(info)) == (long)sizeof(info))
		if (info.ssi_signo < NSIG)
			atomic_store(&forward->witnessed[info.ssi_signo], hvd_now());
	return 0;
}

/* ---- what has come ---- */

static void set_due(struct hvd_signal_forward *forward)
{
	hvd_time first = 0;

	for (int sig = 1; sig < NSIG; sig++)
		if (forward->judge[sig] && (!first || forward->judge[sig] < first))
			first = forward->judge[sig];
	if (!first)
		return;
	hvd_timer_at(forward->due, first);
}

static void on_due(void *arg)
{
	struct hvd_signal_forward *forward = arg;
	hvd_time now = hvd_now();

	for (int sig = 1; sig < NSIG; sig++) {
		hvd_time witnessed = atomic_load(&forward->witnessed[sig]);

		if (!forward->judge[sig] || forward->judge[sig] > now)
			continue;
		forward->judge[sig] = 0;
		if (!witnessed || now - witnessed > 2 * ROUND_NS)
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
	/* SIGCONT cancels stop signals that wait, and they cancel it, as in the kernel. */
	if (info.ssi_signo == SIGCONT)
		forward->judge[SIGTSTP] = 0;
	else if (info.ssi_signo == SIGTSTP)
		forward->judge[SIGCONT] = 0;
	if (!forward->judge[info.ssi_signo])
		forward->judge[info.ssi_signo] = hvd_now() + ROUND_NS;
	set_due(forward);
}

/* ---- begin and end ---- */

static int open_signalfds(struct hvd_signal_forward *forward, struct hvd_err *err)
{
	forward->own = signalfd(-1, &forward->set, SFD_CLOEXEC | SFD_NONBLOCK);
	forward->its = signalfd(-1, &forward->set, SFD_CLOEXEC);
	return forward->own < 0 || forward->its < 0 ? hvd_err_sys(err, "cannot wait for signals") : 0;
}

static int start_witness(struct hvd_signal_forward *forward, struct hvd_err *err)
{
	sigset_t all, mask;

	forward->self = getpid();
	/* No handler of this process may run in the witness, which has its memory. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	forward->witness = clone(witness, forward->stack + STACK_SIZE, CLONE_VM | CLONE_FILES | SIGCHLD, forward);
	if (forward->witness < 0)
		hvd_err_sys(err, "cannot start a process");
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return forward->witness < 0 ? -1 : 0;
}

struct hvd_signal_forward *hvd_signal_forward_create(struct event_base *base, const sigset_t *set,
						     void (*alone)(int sig, void *arg), void *arg, struct hvd_err *err)
{
	struct hvd_signal_forward *forward = hvd_xcalloc(1, sizeof(*forward));

	forward->set = *set;
	forward->own = forward->its = -1;
	forward->alone = alone;
	forward->arg = arg;
	if (open_signalfds(forward, err) != 0 || start_witness(forward, err) != 0) {
		hvd_signal_forward_destroy(forward);
		return NULL;
	}
	forward->due = hvd_timer_new(base, on_due, forward);
	forward->on_own = hvd_event_watch(base, forward->own, EV_READ | EV_PERSIST, on_own, forward);
	return forward;
}

bool hvd_signal_forward_had(const struct hvd_signal_forward *forward, int sig)
{
	sigset_t pending;

	return forward->had[sig] || (sigpending(&pending) == 0 && sigismember(&pending, sig) == 1);
}

void hvd_signal_forward_destroy(struct hvd_signal_forward *forward)
{
	if (!forward)
		return;
	hvd_timer_free(forward->due);
	hvd_event_unwatch(&forward->on_own);
	/* While it was not waited for, its id is its own. */
	if (forward->witness > 0 && waitpid(forward->witness, NULL, WNOHANG) == 0) {
		kill(forward->witness, SIGKILL);
		waitpid(forward->witness, NULL, 0);
	}
	if (forward->own >= 0)
		close(forward->own);
	if (forward->its >= 0)
		close(forward->its);
	for (int sig = 1; sig < NSIG; sig++)
		if (forward->had[sig] && sig != SIGCONT)
			raise(sig);
	free(forward);
}
