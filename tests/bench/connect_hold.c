/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect_hold - connect to a port as often as can be, and say nothing.
 *
 *   connect_hold ADDRESS PORT RATE SECONDS OPEN
 *
 * RATE connections a second (0: as many as there can be), of which the newest
 * OPEN stay open; each is broken off (RST) when its place is needed. What no
 * client of a launch does, but anybody may who has a process on a host. Ends
 * after SECONDS, or when its parent has ended. Prints how many connections were
 * begun, and how many of them the other side has answered with at least a byte.
 */
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/net/addr.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned long begun, answered, failed;
static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	stopped = sig;
}

static void end_one(int fd)
{
	struct linger now = {.l_onoff = 1};
	char byte;

	if (fd < 0)
		return;
	answered += recv(fd, &byte, 1, MSG_DONTWAIT) == 1;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

static int begin_one(const struct sockaddr_storage *to, socklen_t len)
{
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	begun++;
	if (fd >= 0 && connect(fd, (const struct sockaddr *)to, len) != 0 && errno != EINPROGRESS) {
		failed++;
		close(fd);
		return -1;
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct rlimit files = {0};
	struct sockaddr_storage to;
	struct hvd_addr addr;
	double rate, seconds;
	size_t open, at = 0;
	hvd_time began, now;
	socklen_t len;
	int *fds;

	if (argc != 6 || hvd_addr_parse(argv[1], &addr) != 0 || atoi(argv[2]) < 1 || atoi(argv[5]) < 1) {
		fputs("usage: connect_hold ADDRESS PORT RATE SECONDS OPEN\n", stderr);
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGINT, on_signal);
	rate = atof(argv[3]);
	seconds = atof(argv[4]);
	open = (size_t)atoi(argv[5]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (open > files.rlim_cur - 16)
		open = files.rlim_cur - 16;
	fds = hvd_xcalloc(open, sizeof(*fds));
	for (size_t i = 0; i < open; i++)
		fds[i] = -1;
	len = hvd_addr_to_sockaddr(&addr, (in_port_t)atoi(argv[2]), &to);
	for (began = now = hvd_now(); !stopped && now - began < (hvd_time)(seconds * 1e9); now = hvd_now()) {
		double due = rate > 0 ? (double)(now - began) / 1e9 * rate : 1e18;

		for (int i = 0; i < 64 && (double)begun < due; i++, at = (at + 1) % open) {
			end_one(fds[at]);
			fds[at] = begin_one(&to, len);
		}
		if ((double)begun >= due)
			usleep(500);
	}
	for (size_t i = 0; i < open; i++)
		end_one(fds[i]);
	free(fds);
	printf("{\"begun\":%lu,\"answered\":%lu,\"failed\":%lu,\"rate\":%.0f}\n", begun, answered, failed,
	       (double)begun * 1e9 / (double)(now - began));
	return 0;
}
