/* SPDX-License-Identifier: Apache-2.0 */
#include "startclock.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* A start that takes longer than this says what it waits for, and again in this rhythm. */
#define PROGRESS_SECONDS 1

struct hvd_startclock {
	const struct hvd_driver_opts *opts;
	const struct hvd_node_table *table;
	void (*late)(const struct hvd_err *why, void *arg);
	void *arg;
	const struct hvd_log *log;
	struct event *deadline, *progress;
	hvd_time deadline_at; /* 0: it does not run yet */
	const char *host;
	in_port_t port;
};

static void on_progress(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_startclock *clock = arg;
	char *missing;

	(void)fd;
	(void)what;
	if (!clock->deadline_at)
		return;
	missing = hvd_node_table_missing(clock->table);
	hvd_info(clock->log, "still starting, %.0f s left: %s", hvd_left(clock->deadline_at),
		 *missing ? missing : "probing");
	free(missing);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_startclock *clock = arg;
	struct hvd_err why = {0};
	char *missing = hvd_node_table_missing(clock->table);

	(void)fd;
	(void)what;
	hvd_err_set(&why, HVD_E_TIMEOUT, "the start took longer than %g seconds: %s",
		    clock->opts->spec->deadlines.start, *missing ? missing : "the rendezvous server did not start");
	hvd_err_hint(&why, "are these hosts up, %sdoes a firewall block port %u of %s? --start-timeout gives more time",
		     strcmp(clock->opts->id_text, "munge") == 0 ? "is munged running there, " : "", clock->port,
		     clock->host);
	free(missing);
	clock->late(&why, clock->arg);
}

struct hvd_startclock *hvd_startclock_create(struct event_base *base, const struct hvd_driver_opts *opts,
					     const struct hvd_node_table *table,
					     void (*late)(const struct hvd_err *why, void *arg), void *arg,
					     const struct hvd_log *log)
{
	struct timeval every = {.tv_sec = PROGRESS_SECONDS};
	struct hvd_startclock *clock = hvd_xcalloc(1, sizeof(*clock));

	clock->opts = opts;
	clock->table = table;
	clock->late = late;
	clock->arg = arg;
	clock->log = log;
	clock->deadline = evtimer_new(base, on_deadline, clock);
	clock->progress = event_new(base, -1, EV_PERSIST, on_progress, clock);
	if (opts->spec->output.progress)
		event_add(clock->progress, &every);
	return clock;
}

void hvd_startclock_run(struct hvd_startclock *clock, const char *host, in_port_t port)
{
	struct timeval tv;

	if (clock->deadline_at)
		return;
	clock->host = host;
	clock->port = port;
	clock->deadline_at = hvd_deadline_in(clock->opts->spec->deadlines.start);
	tv = hvd_left_tv(clock->deadline_at);
	evtimer_add(clock->deadline, &tv);
}

int hvd_startclock_left_ms(const struct hvd_startclock *clock)
{
	return hvd_left_ms(clock->deadline_at);
}

void hvd_startclock_stop(struct hvd_startclock *clock)
{
	event_del(clock->deadline);
	event_del(clock->progress);
}

void hvd_startclock_destroy(struct hvd_startclock *clock)
{
	if (!clock)
		return;
	event_free(clock->deadline);
	event_free(clock->progress);
	free(clock);
}
