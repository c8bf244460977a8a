/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show.c - the command of tests in containers, linked statically: the image needs nothing else.
 *
 *   show NAME…   prints the values of variables as NAME=VALUE, NAME! when it is not set, and then what else a command
 *                may see: uid=, host=yes when the host's folder /usr is there, fds= the descriptors besides 0, 1 and 2
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char line[8192];
	size_t at = 0;
	int fds = 0;

	for (int i = 1; i < argc && at < sizeof(line) - 512; i++) {
		const char *value = getenv(argv[i]);

		at += (size_t)snprintf(line + at, 512, "%s%s%.400s ", argv[i], value ? "=" : "!", value ? value : "");
	}
	for (int fd = 3; fd < 1024; fd++)
		fds += fcntl(fd, F_GETFD) != -1;
	snprintf(line + at, sizeof(line) - at, "uid=%d host=%s fds=%d", (int)getuid(),
		 access("/usr", F_OK) == 0 ? "yes" : "no", fds);
	puts(line);
	return 0;
}
