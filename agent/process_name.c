/* SPDX-License-Identifier: Apache-2.0 */
#include "process_name.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

void hvd_process_name(const char *name)
{
	prctl(PR_SET_NAME, name);
}

/* How many bytes of the arguments are overwritten at most. */
#define MOST_ARGUMENTS 65536

/* The arguments are in one piece of memory, which begins with the name of the program. */
void hvd_process_describe(const char *name, const char *fmt, ...)
{
	char piece[1024], text[256];
	FILE *f = fopen("/proc/self/cmdline", "re");
	size_t room = 0, more;
	int n = snprintf(text, sizeof(text), "%s: ", name);
	va_list ap;

	while (f && room < MOST_ARGUMENTS && (more = fread(piece, 1, sizeof(piece), f)) > 0)
		room += more;
	if (f)
		fclose(f);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	hvd_process_name(name);
	if (room == 0)
		return;
	memset(program_invocation_name, 0, room);
	memcpy(program_invocation_name, text, strnlen(text, room - 1));
}
