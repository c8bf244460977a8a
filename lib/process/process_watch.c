/* SPDX-License-Identifier: Apache-2.0 */
#include "process_watch.h"

#include <stdint.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a child is looked at that has no pidfd. */
#define CHILD_MS 10

int hvd_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int hvd_ticks_open(int ms)
{
	struct itimerspec every = {.it_interval = {ms / 1000, ms % 1000 * 1000000L}, .it_value = {0, 1000000}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0)
		timerfd_settime(fd, 0, &every, NULL);
	return fd;
}

int hvd_child_watch(pid_t pid)
{
	int fd = hvd_pidfd_open(pid);

	return fd >= 0 ? fd : hvd_ticks_open(CHILD_MS);
}

bool hvd_child_ended(int fd, pid_t pid)
{
	siginfo_t info = {0};
	uint64_t times;
	/* The timer is readable until it is read. A pidfd cannot be read, and stays as it is. */
	ssize_t n = read(fd, &times, sizeof(times));

	(void)n;
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}
