/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect_hold ADDRESS PORT RATE SECONDS OPEN - take the places of a server with silent connections, as any process on
 * a host could.
 *
 * Makes RATE connections a second (0: as many as possible), and sends nothing. The newest OPEN of them stay open; an
 * older one is reset. Ends after SECONDS, on SIGINT, or when its parent has ended. Prints how many connections were
 * begun, and on how many of them the server has sent at least a byte.
 */
#include "connect.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static unsigned long begun, answered, failed;

static void end_one(int fd)
{
	char byte;

	if (fd < 0)
		return;
	answered += recv(fd, &byte, 1, MSG_DONTWAIT) == 1;
	break_off(fd);
}

static int begin_one(const struct sockaddr_storage *to, socklen_t len)
{
	int fd = open_socket(to);

	begun++;
	if (fd >= 0 && begin_connect(fd, to, len) != 0) {
		failed++;
		return -1;
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct rlimit files = {0};
	struct sockaddr_storage to;
	double rate, seconds;
	size_t open, at = 0;
	hvd_time began = hvd_now();
	socklen_t len = argc != 6 ? 0 : parse_target(argv, &to);
	int *fds;

	if (len == 0 || atoi(argv[5]) < 1) {
		fputs("usage: connect_hold ADDRESS PORT RATE SECONDS OPEN\n", stderr);
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGINT, on_end);
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
	while (!ended && seconds_since(began) < seconds) {
		double due = rate > 0 ? seconds_since(began) * rate : 1e18;

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
	       (double)begun / seconds_since(began));
	return 0;
}
