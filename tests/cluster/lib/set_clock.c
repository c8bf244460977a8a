/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set_clock.c - to be preloaded: CLOCK_REALTIME is ahead by as many seconds as the file /run/clock says.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long ahead(void)
{
	FILE *file = fopen("/run/clock", "re");
	long seconds = 0;

	if (file && fscanf(file, "%ld", &seconds) != 1)
		seconds = 0;
	if (file)
		fclose(file);
	return seconds;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
	const int rc = (int)syscall(SYS_clock_gettime, id, ts);

	if (rc == 0 && id == CLOCK_REALTIME)
		ts->tv_sec += ahead();
	return rc;
}
