/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_marks.h"

#include "emitted.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_MAX 96 /* bytes of "NAME:HASH ", with a longest name of the table */

/* FNV-1a. It only has to tell a value from another one that a user sets. */
static unsigned hash(const char *text)
{
	uint32_t h = 2166136261U;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619U;
	return h;
}

char *hvd_launch_marks_list(const struct hvd_strv *env)
{
	size_t room = 1, len = 0;
	char *list;

	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		room += strlen(e->name) + sizeof(":01234567 ");
	list = malloc(room);
	if (!list)
		return NULL;
	list[0] = '\0';
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++) {
		const char *value = hvd_env_get(env, e->name);

		if (value)
			len += (size_t)snprintf(list + len, room - len, "%s%s:%08x", len ? " " : "", e->name,
						hash(value));
	}
	return list;
}

void hvd_launch_marks_set(struct hvd_strv *env)
{
	char *list = hvd_launch_marks_list(env);

	if (list && *list)
		hvd_env_set(env, HVD_LAUNCH_MARKS_ENV, list);
	free(list);
}

bool hvd_launch_marks_has(const char *list, const char *name, const char *value)
{
	char entry[ENTRY_MAX];
	int n = snprintf(entry, sizeof(entry), "%s:%08x", name, hash(value));

	if (n < 0 || (size_t)n >= sizeof(entry))
		return false;
	for (const char *at = list; (at = strstr(at, entry)); at++)
		if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
			return true;
	return false;
}

void hvd_launch_marks_drop(void)
{
	const char *list = getenv(HVD_LAUNCH_MARKS_ENV), *error_file;

	if (!list)
		return;
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++) {
		const char *value = getenv(e->name);

		if (value && hvd_launch_marks_has(list, e->name, value))
			unsetenv(e->name);
	}
	/* The process that starts a rank sets this one by itself (agent/crash_info.h): a descriptor of its own. */
	error_file = getenv("TORCHELASTIC_ERROR_FILE");
	if (error_file && strncmp(error_file, "/proc/", 6) == 0)
		unsetenv("TORCHELASTIC_ERROR_FILE");
	unsetenv(HVD_LAUNCH_MARKS_ENV);
}
