/* SPDX-License-Identifier: Apache-2.0 */
#include "rlimits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The lowest limit of processes that is known so far. */
struct lowest {
	long room; /* how many more processes it allows */
	long limit;
	char what[PATH_MAX + 64];
	const char *todo; /* what the user can do */
};

/* The number in a file; -1 if there is no number ("max") or no file. */
static long read_number(const char *root, const char *folder, const char *name)
{
	char path[PATH_MAX];
	long n = -1;
	FILE *f;

	if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", root, folder, name) >= sizeof(path) ||
	    !(f = fopen(path, "re")))
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static void consider(struct lowest *low, long room, long limit, const char *what, const char *todo)
{
	if (limit < 0 || room >= low->room)
		return;
	low->room = room > 0 ? room : 0;
	low->limit = limit;
	low->todo = todo;
	snprintf(low->what, sizeof(low->what), "%s", what);
}

/* The limits of a control group and of all groups above it, up to `mount`. */
static void consider_groups(struct lowest *low, const char *root, const char *mount, const char *group)
{
	char folder[PATH_MAX], what[PATH_MAX + 16];
	size_t top = strlen(mount);

	if ((size_t)snprintf(folder, sizeof(folder), "%s%s", mount, group) >= sizeof(folder))
		return;
	for (;;) {
		long max = read_number(root, folder, "pids.max"), now = read_number(root, folder, "pids.current");
		char *slash;

		snprintf(what, sizeof(what), "%s/pids.max", folder);
		consider(low, max - (now > 0 ? now : 0), max, what,
			 "raise the limit of this login or job (systemd's TasksMax=), or start fewer ranks on this "
			 "host");
		slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < top)
			return;
		*slash = '\0';
	}
}

/* The control groups of this process. /proc/self/cgroup has lines ID:CONTROLLERS:GROUP; in version 2 there are no
 * controllers. */
static void consider_cgroups(struct lowest *low, const char *root)
{
	char path[PATH_MAX], line[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group)
			continue;
		*controllers++ = *group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (!*controllers)
			consider_groups(low, root, "/sys/fs/cgroup", group);
		else if (strcmp(controllers, "pids") == 0)
			consider_groups(low, root, "/sys/fs/cgroup/pids", group);
	}
	if (f)
		fclose(f);
}

static void find_lowest(struct lowest *low, const char *root)
{
	struct rlimit rl;
	long n;

	*low = (struct lowest){.room = LONG_MAX};
	if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &rl) == 0 && rl.rlim_cur < LONG_MAX)
		consider(low, (long)rl.rlim_cur, (long)rl.rlim_cur, "ulimit -u",
			 "raise it (ulimit -u, limits.conf(5)), or start fewer ranks on this host");
	n = read_number(root, "/proc/sys/kernel", "threads-max");
	consider(low, n, n, "kernel.threads-max", "start fewer ranks on this host");
	n = read_number(root, "/proc/sys/kernel", "pid_max");
	consider(low, n, n, "kernel.pid_max", "start fewer ranks on this host");
	consider_cgroups(low, root);
}

int hvd_limits_ranks(const char *root, long n, struct hvd_err *err)
{
	struct lowest low;

	find_lowest(&low, root);
	if (n <= low.room)
		return 0;
	hvd_err_set(err, HVD_E_LIMIT,
		    "%ld ranks on one host need as many processes, but only %ld more are allowed: %s is %ld", n,
		    low.room, low.what, low.limit);
	return hvd_err_hint(err, "%s", low.todo);
}

int hvd_limits_files(unsigned long n, const char *what, struct hvd_err *err)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0 || n <= rl.rlim_cur)
		return 0;
	hvd_err_set(err, HVD_E_LIMIT, "%s need %lu open files, but ulimit -n is %lu", what, n,
		    (unsigned long)rl.rlim_cur);
	return hvd_err_hint(err, "raise it (ulimit -n, ulimit -Hn, limits.conf(5)), or start fewer ranks on this host");
}

void hvd_limits_explain(int error, struct hvd_err *err)
{
	struct lowest low;
	struct rlimit rl;

	if (!err)
		return;
	if (error == EAGAIN) {
		find_lowest(&low, "");
		hvd_err_hint(
			err,
			"cannot start more processes: %s is %ld, and all processes of the user on this host count; %s",
			low.what, low.limit, low.todo ? low.todo : "start fewer");
	} else if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		hvd_err_hint(err, "ulimit -n is %lu: raise it (limits.conf(5)), or start fewer ranks on this host",
			     (unsigned long)rl.rlim_cur);
	} else if (error == ENFILE) {
		hvd_err_hint(err,
			     "this host has reached its limit of open files (fs.file-max): start fewer ranks on it");
	} else if (error == ENOMEM) {
		hvd_err_hint(err, "the host or this job has no more memory: start fewer ranks on it");
	} else {
		return;
	}
	err->code = HVD_E_LIMIT;
}

unsigned long hvd_nofile(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) == 0 ? rl.rlim_cur : 1024;
}

unsigned long hvd_nofile_most(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) == 0 ? rl.rlim_max : 1024;
}

unsigned long hvd_raise_nofile(void)
{
	struct rlimit rl;
	unsigned long before;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
		return 0;
	before = rl.rlim_cur;
	rl.rlim_cur = rl.rlim_max;
	if (before < rl.rlim_max)
		setrlimit(RLIMIT_NOFILE, &rl);
	return before;
}
