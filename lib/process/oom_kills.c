/* SPDX-License-Identifier: Apache-2.0 */
#include "oom_kills.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A limit of version 1 that is none: the largest number of whole pages. */
#define NO_LIMIT (INT64_C(1) << 60)

#define ROOT "/sys/fs/cgroup"
#define V1   ROOT "/memory"

/* The number behind `name` and a blank, at the beginning of a line of the file; -1 if there is none. */
static int64_t count_in(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	char line[256];
	size_t len = strlen(name);
	int64_t count = -1;

	while (f && count < 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			count = strtoll(line + len, NULL, 10);
	if (f)
		fclose(f);
	return count;
}

/* Has the file a limit? "max" is none. */
static bool has_limit(const char *path)
{
	FILE *f = fopen(path, "re");
	int64_t limit;
	bool has = f && fscanf(f, "%" SCNd64, &limit) == 1 && limit < NO_LIMIT;

	if (f)
		fclose(f);
	return has;
}

/* With version 1 the path is that of the controller of memory. */
char *hvd_oom_cgroup(pid_t pid)
{
	char file[64], line[PATH_MAX], *found = NULL;
	bool v1 = false;
	FILE *f;

	snprintf(file, sizeof(file), pid ? "/proc/%d/cgroup" : "/proc/self/cgroup", (int)pid);
	f = fopen(file, "re");
	while (f && !v1 && fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':'), *at = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!at)
			continue;
		*at++ = '\0';
		at[strcspn(at, "\n")] = '\0';
		v1 = strcmp(controllers, ":memory") == 0 || strstr(controllers, ":memory,") ||
		     strstr(controllers, ",memory");
		if (!v1 && strncmp(line, "0:", 2) != 0)
			continue;
		free(found);
		/* What is outside of this process's view of the cgroups cannot be read. */
		if (strstr(at, "/..") || asprintf(&found, "%s%s", v1 ? V1 : ROOT, at) < 0)
			found = NULL;
	}
	if (f)
		fclose(f);
	return found;
}

static int64_t of_host(void)
{
	return count_in("/proc/vmstat", "oom_kill");
}

/* All but the host's. */
static struct hvd_oom_kills of_cgroup(const char *cgroup)
{
	struct hvd_oom_kills kills = {.cgroup = -1, .host = -1};
	bool v1 = cgroup && strncmp(cgroup, V1, strlen(V1)) == 0;
	char path[PATH_MAX], file[PATH_MAX + 64], *end;

	if (!cgroup)
		return kills;
	snprintf(path, sizeof(path), "%s", cgroup);
	while (!kills.limited && strlen(path) > strlen(ROOT) && (end = strrchr(path, '/'))) {
		/* Version 2: where the controller is not enabled below, the cgroup above counts. */
		snprintf(file, sizeof(file), "%s/%s", path, v1 ? "memory.oom_control" : "memory.events");
		if (kills.cgroup < 0)
			kills.cgroup = count_in(file, "oom_kill");
		snprintf(file, sizeof(file), "%s/%s", path, v1 ? "memory.limit_in_bytes" : "memory.max");
		kills.limited = has_limit(file);
		*end = '\0';
	}
	return kills;
}

struct hvd_oom_kills hvd_oom_kills_in(const char *cgroup)
{
	struct hvd_oom_kills kills = of_cgroup(cgroup);

	kills.host = of_host();
	return kills;
}

struct hvd_oom_kills hvd_oom_kills_soon_after(const struct hvd_oom_kills *before, const char *cgroup)
{
	struct hvd_oom_kills kills = of_cgroup(cgroup);

	kills.host = kills.cgroup >= 0 ? before->host : of_host();
	return kills;
}

struct hvd_oom_kills hvd_oom_kills(pid_t pid)
{
	char *cgroup = hvd_oom_cgroup(pid);
	struct hvd_oom_kills kills = hvd_oom_kills_in(cgroup);

	free(cgroup);
	return kills;
}

enum hvd_oom hvd_oom_between(const struct hvd_oom_kills *before, const struct hvd_oom_kills *after)
{
	if (before->cgroup >= 0 && after->cgroup >= 0) {
		if (after->cgroup <= before->cgroup)
			return HVD_OOM_NO;
		return after->limited ? HVD_OOM_CGROUP : HVD_OOM_HOST;
	}
	return before->host >= 0 && after->host > before->host ? HVD_OOM_HOST : HVD_OOM_NO;
}
