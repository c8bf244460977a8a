/* SPDX-License-Identifier: Apache-2.0 */
#include "end_timeout.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct hvd_end_timeout {
	const char *program;
	pid_t pid;
	int seconds, quiet;
	unsigned long long written; /* bytes that the process had written a second ago */
	const struct hvd_strv *without_munge;
	struct hvd_timer *tick;
	void (*expired)(const struct hvd_err *why, bool certain, void *arg);
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

static void tell(struct hvd_end_timeout *et)
{
	bool certain = et->without_munge->n > 0;
	struct hvd_err why = {0};
	char *hosts = hvd_strv_join(et->without_munge, ", ");

	if (certain) {
		hvd_err_set(
			&why, HVD_E_FAILED,
			"all ranks ended %d s ago, but %s cannot learn that those on %s did, because munged does not "
			"run there; ending it",
			et->seconds, et->program, hosts);
		hvd_err_hint(&why, "start munged there again; the last output of these ranks may be missing above");
	} else {
		hvd_err_set(&why, HVD_E_TIMEOUT,
			    "all ranks ended %d s ago, but %s is still running, perhaps because of an epilog, or of a "
			    "host that does not answer Slurm; Ctrl-C (SIGINT) ends it",
			    et->seconds, et->program);
	}
	free(hosts);
	et->expired(&why, certain, et->arg);
}

static void on_tick(void *arg)
{
	struct hvd_end_timeout *et = arg;
	unsigned long long written = written_by(et->pid);

	et->quiet = written == et->written && writable(STDOUT_FILENO) && writable(STDERR_FILENO) ? et->quiet + 1 : 0;
	et->written = written;
	if (et->quiet < et->seconds)
		return;
	hvd_timer_stop(et->tick);
	tell(et);
}

struct hvd_end_timeout *hvd_end_timeout_watch(struct event_base *base, const char *program, pid_t pid, int seconds,
					      const struct hvd_strv *without_munge,
					      void (*expired)(const struct hvd_err *why, bool certain, void *arg),
					      void *arg)
{
	struct hvd_end_timeout *et = hvd_xcalloc(1, sizeof(*et));

	et->program = program;
	et->pid = pid;
	et->seconds = seconds;
	et->written = written_by(pid);
	et->without_munge = without_munge;
	et->expired = expired;
	et->arg = arg;
	et->tick = hvd_timer_new(base, on_tick, et);
	hvd_timer_every_ms(et->tick, 1000);
	return et;
}

void hvd_end_timeout_destroy(struct hvd_end_timeout *et)
{
	if (!et)
		return;
	hvd_timer_free(et->tick);
	free(et);
}
