/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_watch - show what an elastic job would be told of its hosts.
 *
 * usage: discovery_watch [OPTION OF hvdrun…] SECONDS
 *
 * Follows the source that the options choose for so many seconds, and prints a line for everything that it tells:
 *     hosts n1:2@7 n2:2@7      slots, and the Slurm job (0 = none)
 *     leaving n2 5             seconds
 *     failed MESSAGE
 * and at the end "cpu SHARE", the share of a core that the process took, in percent, without what it started.
 */
#include "launcher/discovery/discovery.h"
#include "launcher/options/options.h"
#include "lib/base/deadline.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	(void)arg;
	printf("hosts");
	for (int i = 0; i < hosts->n_hosts; i++)
		printf(" %s:%d@%u", hosts->hosts[i].name, hosts->hosts[i].slots, hosts->hosts[i].slurm_job);
	printf("\n");
	fflush(stdout);
}

static void on_leaving(const char *host, double seconds, void *arg)
{
	(void)arg;
	printf("leaving %s %.0f\n", host, seconds);
	fflush(stdout);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	printf("failed %s\n", why->msg);
	fflush(stdout);
	event_base_loopbreak(arg);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int follow(const struct hvd_discovery_opts *opts, double seconds, const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_discovery_ops ops = {on_hosts, on_leaving, on_failed};
	struct event_base *base = event_base_new();
	struct hvd_discovery *source = hvd_discovery_create(base, opts, &ops, base, log, err);
	struct event *end = evtimer_new(base, on_end, base);
	struct event *term = evsignal_new(base, SIGTERM, on_end, base);
	const struct timeval tv = hvd_left_tv(hvd_deadline_in(seconds));
	double before = cpu();
	hvd_time began = hvd_now();

	if (source) {
		evtimer_add(end, &tv);
		event_add(term, NULL);
		event_base_dispatch(base);
		printf("cpu %.3f\n", (cpu() - before) / ((double)(hvd_now() - began) / 1e9) * 100);
	}
	hvd_discovery_destroy(source);
	event_free(end);
	event_free(term);
	event_base_free(base);
	return source ? 0 : -1;
}

int main(int argc, char **argv)
{
	const struct hvd_log log = hvd_log_make("discovery_watch", HVD_LOG_INFO);
	struct hvd_discovery_opts opts = {0};
	struct hvd_options options;
	struct hvd_launch_spec spec = {0};
	struct hvd_launch launch = {.spec = &spec, .envp = environ, .log = &log};
	struct hvd_err err = {0};
	int rc = hvd_options_load(&options, argc, argv, environ, &err);

	if (rc == 0) {
		hvd_launch_spec_make(&spec, &options, environ);
		rc = hvd_discovery_choose(&launch, &opts, &err);
	}
	if (rc == 0)
		rc = follow(&opts, strtod(options.command.v[0], NULL), &log, &err);
	if (rc != 0)
		hvd_log_err(&log, &err);
	hvd_discovery_opts_clear(&opts);
	hvd_launch_spec_clear(&spec);
	hvd_options_free(&options);
	return rc == 0 ? 0 : hvd_err_status(&err);
}
