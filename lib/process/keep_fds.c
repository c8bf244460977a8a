/* SPDX-License-Identifier: Apache-2.0 */
#include "keep_fds.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool listed(int fd, const int *keep, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (keep[i] == fd)
			return true;
	return false;
}

static void close_from(int first, int last)
{
	if (first > last)
		return;
	if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0U) == 0)
		return;
	for (int fd = first; fd <= last && fd < (int)sysconf(_SC_OPEN_MAX); fd++)
		close(fd);
}

void hvd_keep_fds(const int *keep, size_t n, int a, int b)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), top = a > b ? a : b, from = 3;

	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	top = top > 2 ? top : 2;
	for (size_t i = 0; i < n; i++)
		top = keep[i] > top ? keep[i] : top;
	for (int fd = 3; fd <= top; fd++)
		if (fd == a || fd == b || listed(fd, keep, n)) {
			close_from(from, fd - 1);
			from = fd + 1;
		}
	close_from(from, ~0U >> 1);
}
