/* SPDX-License-Identifier: Apache-2.0 */
#include "process_state.h"

#include "lib/base/cleanup.h"
#include "lib/base/readfile.h"
#include "lib/base/xalloc.h"
#include "process_usage.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define STAT_MAX 4096
/* Entries of a folder that are read. */
#define MOST_THREADS 65536
#define MOST_FILES   65536

/* Call `fn` for each entry of the folder until it returns true. */
static bool any_entry(const char *folder, int most, bool (*fn)(const char *folder, const char *name, void *arg),
		      void *arg)
{
	DIR *dir = opendir(folder);
	struct dirent *de;
	bool found = false;

	while (dir && !found && most-- > 0 && (de = readdir(dir)))
		found = de->d_name[0] != '.' && fn(folder, de->d_name, arg);
	if (dir)
		closedir(dir);
	return found;
}

static bool is_waiting(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s/stat", folder, name);
	hvd_cleanup_free char *text = NULL;
	struct hvd_process thread;
	char *state = arg;
	size_t len;

	text = hvd_read_file(path, STAT_MAX, "stat", &len, NULL);
	if (!text || hvd_process_parse(text, &thread) != 0)
		return false;
	if (!*state || *state == 'Z' || *state == 'X' || thread.state == 'D')
		*state = thread.state;
	return thread.state == 'D';
}

char hvd_process_state(pid_t pid, const char *proc)
{
	hvd_cleanup_free char *folder = hvd_xasprintf("%s/%d/task", proc, (int)pid);
	char state = 0;

	any_entry(folder, MOST_THREADS, is_waiting, &state);
	return state;
}

static bool begins(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s", folder, name);
	const char *prefix = arg;
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	return strncmp(target, prefix, strlen(prefix)) == 0;
}

/* The main thread has no descriptors left once it has ended. */
static bool thread_has_open(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *files = hvd_xasprintf("%s/%s/fd", folder, name);

	return any_entry(files, MOST_FILES, begins, arg);
}

bool hvd_process_has_open(pid_t pid, const char *proc, const char *prefix)
{
	hvd_cleanup_free char *folder = hvd_xasprintf("%s/%d/task", proc, (int)pid);

	return any_entry(folder, MOST_THREADS, thread_has_open, (void *)prefix);
}
