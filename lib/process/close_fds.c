/* SPDX-License-Identifier: Apache-2.0 */
#include "close_fds.h"

#include "lib/base/digits.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9; newer than the headers of glibc 2.28, and the same on all architectures */
#endif

#define CLOSE_AT_EXEC 4U /* CLOSE_RANGE_CLOEXEC, Linux 5.11 */

/* Where neither the kernel closes a range nor /proc names the descriptors, higher ones are taken for not open. The limit
 * says nothing of them: it may be a thousand million, or less than it was when they were opened. */
#define COUNTED 65536U

/* An entry of a folder, as getdents64(2) returns it. */
struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static void close_one(int fd, bool at_exec)
{
	if (at_exec)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	else
		close(fd);
}

/* readdir(3) may allocate memory, so it cannot be used here. Returns -1 if the descriptors cannot be listed. */
static int close_listed(unsigned first, unsigned last, bool at_exec)
{
	_Alignas(struct entry) char text[2048];
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n = -1;

	if (dir < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, dir, text, sizeof(text))) > 0)
		for (long at = 0; at < n; at += ((const struct entry *)(text + at))->len) {
			const char *name = ((const struct entry *)(text + at))->name;
			int fd = (int)hvd_digits(name, strlen(name), INT_MAX);

			if (fd >= 0 && fd != dir && (unsigned)fd >= first && (unsigned)fd <= last)
				close_one(fd, at_exec);
		}
	close(dir);
	return n < 0 ? -1 : 0;
}

void hvd_close_fds(unsigned first, unsigned last, bool at_exec)
{
	if (last < first || syscall(SYS_close_range, first, last, at_exec ? CLOSE_AT_EXEC : 0) == 0 ||
	    close_listed(first, last, at_exec) == 0)
		return;
	for (unsigned fd = first; fd <= last && fd < COUNTED; fd++)
		close_one((int)fd, at_exec);
}
