/* SPDX-License-Identifier: Apache-2.0 */
#include "stopped_child.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

static void on_child(int sig)
{
	(void)sig; /* it interrupts ppoll(2) */
}

void hvd_stopped_child_begin(struct hvd_stopped_child *child, pid_t pid)
{
	struct sigaction sa = {.sa_handler = on_child};
	sigset_t set;

	*child = (struct hvd_stopped_child){.pid = pid};
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGCHLD, &sa, NULL);
}

/* Find out whether the child has been stopped, or has gone on. */
static void look(struct hvd_stopped_child *child)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 || info.si_pid == 0)
		return;
	child->since = info.si_code == CLD_STOPPED ? hvd_now() : 0;
}

void hvd_stopped_child_poll(struct hvd_stopped_child *child, struct pollfd *fds, nfds_t n)
{
	struct timespec left = {0};
	sigset_t set;

	look(child);
	if (child->since) {
		hvd_time end = child->since + (hvd_time)HVD_STOPPED_SECONDS * 1000000000;

		left.tv_sec = hvd_left_ms(end) / 1000;
		left.tv_nsec = hvd_left_ms(end) % 1000 * 1000000;
		if (hvd_left(end) <= 0) {
			kill(child->pid, SIGCONT);
			child->since = 0;
			return;
		}
	}
	sigprocmask(SIG_SETMASK, NULL, &set);
	sigdelset(&set, SIGCHLD);
	ppoll(fds, n, child->since ? &left : NULL, &set);
}
