/* SPDX-License-Identifier: Apache-2.0 */
#include "overdue.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct hvd_overdue {
	const char *program;
	pid_t pid;
	int seconds, quiet;
	unsigned long long written; /* bytes that the process had written a second ago */
	const struct hvd_strv *without_munge;
	struct hvd_timer *tick;
	void (*overdue)(const struct hvd_err *why, bool certain, void *arg);
	void *arg;
};

static bool writable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};

	return poll(&pfd, 1, 0) != 0; /* also when it is closed or broken: then writing does not block either */
}

/* How many bytes the process has written so far (write(2) and its like); 0 when that cannot be told. */
static unsigned long long written_by(pid_t pid)
{
	unsigned long long n = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "wchar: %llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static void tell(struct hvd_overdue *od)
{
	bool certain = od->without_munge->n > 0;
	struct hvd_err why = {0};
	char *hosts = hvd_strv_join(od->without_munge, ", ");

	if (certain) {
		hvd_err_set(
			&why, HVD_E_FAILED,
			"all ranks ended %d s ago, but %s cannot learn that those on %s did, because munged does not "
			"run there; ending it",
			od->seconds, od->program, hosts);
		hvd_err_hint(&why, "start munged there again; the last output of these ranks may be missing above");
	} else {
		hvd_err_set(&why, HVD_E_TIMEOUT,
			    "all ranks ended %d s ago, but %s is still running, perhaps because of an epilog, or of a "
			    "host that does not answer Slurm; Ctrl-C (SIGINT) ends it",
			    od->seconds, od->program);
	}
	free(hosts);
	od->overdue(&why, certain, od->arg);
}

static void on_tick(void *arg)
{
	struct hvd_overdue *od = arg;
	unsigned long long written = written_by(od->pid);

	od->quiet = written == od->written && writable(STDOUT_FILENO) && writable(STDERR_FILENO) ? od->quiet + 1 : 0;
	od->written = written;
	if (od->quiet < od->seconds)
		return;
	hvd_timer_stop(od->tick);
	tell(od);
}

struct hvd_overdue *hvd_overdue_watch(struct event_base *base, const char *program, pid_t pid, int seconds,
				      const struct hvd_strv *without_munge,
				      void (*overdue)(const struct hvd_err *why, bool certain, void *arg), void *arg)
{
	struct hvd_overdue *od = hvd_xcalloc(1, sizeof(*od));

	od->program = program;
	od->pid = pid;
	od->seconds = seconds;
	od->written = written_by(pid);
	od->without_munge = without_munge;
	od->overdue = overdue;
	od->arg = arg;
	od->tick = hvd_timer_new(base, on_tick, od);
	hvd_timer_every_ms(od->tick, 1000);
	return od;
}

void hvd_overdue_destroy(struct hvd_overdue *od)
{
	if (!od)
		return;
	hvd_timer_free(od->tick);
	free(od);
}
