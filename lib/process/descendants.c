/* SPDX-License-Identifier: Apache-2.0 */
#include "descendants.h"

#include "lib/base/xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_PIDS 65536

static void add_pid(struct hvd_pids *pids, pid_t pid)
{
	if (pids->n == MAX_PIDS)
		return;
	if (pids->n == pids->room) {
		pids->room = pids->room ? 2 * pids->room : 64;
		pids->v = hvd_xrealloc(pids->v, pids->room, sizeof(*pids->v));
	}
	pids->v[pids->n++] = pid;
}

/* /proc lists the children of each thread separately. */
void hvd_pids_add_children(struct hvd_pids *pids, pid_t pid)
{
	char path[64];
	struct dirent *de;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (de = readdir(tasks))) {
		char *line = NULL, *end;
		size_t room = 0;
		FILE *f;
		long child;

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", (int)pid, de->d_name);
		f = fopen(path, "re");
		if (f && getline(&line, &room, f) > 0)
			for (char *p = line; (child = strtol(p, &end, 10)) > 0 && end != p; p = end)
				add_pid(pids, (pid_t)child);
		free(line);
		if (f)
			fclose(f);
	}
	if (tasks)
		closedir(tasks);
}

static bool ignores(pid_t pid, int sig)
{
	char path[64], line[256];
	unsigned long long ignored;
	bool yes = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT;
	while (!yes && fgets(line, sizeof(line), f))
		yes = sscanf(line, "SigIgn: %llx", &ignored) == 1 && (ignored >> (sig - 1) & 1);
	fclose(f);
	return yes;
}

bool hvd_all_ignore(pid_t pid, int sig)
{
	struct hvd_pids pids = {0};
	bool all = ignores(pid, sig);

	/* The list grows while it is worked through: by the children of each process on it. */
	if (all)
		hvd_pids_add_children(&pids, pid);
	for (size_t i = 0; i < pids.n && all; i++) {
		all = ignores(pids.v[i], sig);
		hvd_pids_add_children(&pids, pids.v[i]);
	}
	free(pids.v);
	return all;
}
