/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_marks.h"

#include "emitted.h"
#include "lib/base/hash.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_MAX 96 /* bytes of "NAME:HASH ", with a longest name of the table */

/* It only has to tell a value from another one that a user sets. Another process compares it, so it has no random seed. */
static unsigned long long hash(const char *text)
{
	return hvd_hash(0, text, strlen(text));
}

char *hvd_launch_marks_list(const struct hvd_strv *env)
{
	char *list = hvd_xstrdup("");

	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++) {
		const char *value = e->slurm ? NULL : hvd_env_get(env, e->name);

		if (value)
			hvd_xappendf(&list, "%s%s:%016llx", *list ? " " : "", e->name, hash(value));
	}
	return list;
}

void hvd_launch_marks_set(struct hvd_strv *env)
{
	char *list = hvd_launch_marks_list(env);

	if (*list)
		hvd_env_set(env, HVD_LAUNCH_MARKS_ENV, list);
	free(list);
}

bool hvd_launch_marks_has(const char *list, const char *name, const char *value)
{
	char entry[ENTRY_MAX];
	int n = snprintf(entry, sizeof(entry), "%s:%016llx", name, hash(value));

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
