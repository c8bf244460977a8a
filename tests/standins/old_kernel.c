/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_kernel.c - runs a command as on Linux 4.18 (old_kernel.h).
 *
 *   old_kernel COMMAND…
 */
#include "old_kernel.h"

#include <err.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2)
		errx(2, "usage: old_kernel COMMAND...");
	if (old_kernel_begin() != 0)
		err(125, "seccomp");
	execvp(argv[1], argv + 1);
	err(errno == ENOENT ? 127 : 126, "%s", argv[1]);
}
