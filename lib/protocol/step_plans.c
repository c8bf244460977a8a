/* SPDX-License-Identifier: Apache-2.0 */
#include "step_plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int hvd_step_plans_write(int fd, pid_t agent, const struct hvd_strv *tasks, uint32_t n)
{
	FILE *out = fdopen(fd, "w");
	int failed;

	if (!out) {
		close(fd);
		return -1;
	}
	fprintf(out, "%d%c", (int)agent, '\0');
	for (uint32_t i = 0; i < n; i++) {
		for (size_t k = 0; k < tasks[i].n; k++)
			fwrite(tasks[i].v[k], strlen(tasks[i].v[k]) + 1, 1, out);
		putc('\0', out);
	}
	failed = ferror(out);
	return fclose(out) == 0 && !failed ? 0 : -1;
}

/* The byte behind the string at `at`; NULL if its end is not before `end`. */
static char *skip_string(char *at, const char *end)
{
	char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

	return nul ? nul + 1 : NULL;
}

/* The byte behind the variables at `at` and their empty string. */
static char *skip_task(char *at, const char *end)
{
	char *next = skip_string(at, end);

	while (next && next > at + 1) {
		at = next;
		next = skip_string(at, end);
	}
	return next;
}

char *hvd_step_plans_nth(char *memory, size_t size, uint32_t n, pid_t *agent)
{
	const char *end = memory + size;
	char *task = skip_string(memory, end);

	if (task)
		*agent = atoi(memory);
	for (; task && n > 0; n--)
		task = skip_task(task, end);
	return task && skip_task(task, end) ? task : NULL;
}
