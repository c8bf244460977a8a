/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_wire - either end of the notification of an elastic worker, to be put against Horovod's own.
 *
 * usage: worker_wire send PUT TIMESTAMP CHANGE   notify the worker that has PUT this; exit status 0 when it
 *                                                acknowledges
 *        worker_wire listen                      be a worker on 127.0.0.1: print what it would PUT, then a line for
 *                                                each request, and end after a notification
 */
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/frameworks/worker_client.h"
#include "tests/unit/fake_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define PATIENCE 30.0 /* seconds for all of it */

struct sending {
	struct event_base *base;
	struct hvd_err why;
};

static void on_done(const struct hvd_err *why, void *arg)
{
	struct sending *s = arg;

	s->why = *why;
	event_base_loopbreak(s->base);
}

static int send_one(const char *put, int64_t timestamp, int change, struct hvd_err *err)
{
	struct sending s = {.base = event_base_new()};
	struct hvd_worker_addrs to;

	if (hvd_worker_addrs_parse(put, strlen(put), &to, err) != 0)
		return -1;
	hvd_notify_send(s.base, &to, timestamp, (enum hvd_hosts_change)change, hvd_deadline_in(PATIENCE), on_done, &s);
	event_base_dispatch(s.base);
	hvd_worker_addrs_clear(&to);
	event_base_free(s.base);
	*err = s.why;
	return s.why.code == HVD_OK ? 0 : -1;
}

static void on_told(struct fake_worker *fw, void *arg)
{
	if (fw->last.kind == HVD_MESSAGE_PING) {
		printf("ping\n");
	} else if (fw->last.kind == HVD_MESSAGE_HOSTS_UPDATED) {
		const struct timeval moment = {0, 200000}; /* for the answer to go out */

		printf("hosts_updated %" PRId64 " %" PRId64 "\n", fw->last.timestamp, fw->last.change);
		event_base_loopexit(fw->base, &moment);
	}
	fflush(stdout);
	(void)arg;
}

static int listen_once(struct hvd_err *err)
{
	struct fake_worker worker = {.told = on_told};
	struct event_base *base = event_base_new();
	const struct timeval patience = {(time_t)PATIENCE, 0};
	char *put;
	int rc;

	if (hvd_random(worker.key.b, HVD_KEY_LEN, err) != 0 || fake_worker_open(&worker, base, err) != 0)
		return -1;
	put = fake_worker_put(&worker);
	printf("%s\n", put);
	fflush(stdout);
	free(put);
	event_base_loopexit(base, &patience);
	event_base_dispatch(base);
	fake_worker_close(&worker);
	event_base_free(base);
	rc = worker.last.kind == HVD_MESSAGE_HOSTS_UPDATED ? 0 : -1;
	if (rc != 0 && worker.err.code != HVD_OK)
		*err = worker.err;
	return rc;
}

int main(int argc, char **argv)
{
	const struct hvd_log log = hvd_log_make("worker_wire", HVD_LOG_INFO);
	struct hvd_err err = {0};
	int rc;

	if (argc == 5 && strcmp(argv[1], "send") == 0) {
		rc = send_one(argv[2], strtoll(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10), &err);
	} else if (argc == 2 && strcmp(argv[1], "listen") == 0) {
		rc = listen_once(&err);
	} else {
		fprintf(stderr, "usage: worker_wire send PUT TIMESTAMP CHANGE | listen\n");
		return 2;
	}
	if (rc != 0)
		hvd_log_err(&log, &err);
	return rc != 0;
}
