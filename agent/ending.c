/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
#define N_CAUGHT (sizeof(caught) / sizeof(caught[0]))

struct hvd_ending {
	struct hvd_signal_watch *signals[N_CAUGHT];
	struct event *starter; /* NULL: it does not matter */
	void (*fn)(int sig, void *arg);
	void *arg;
};

static void on_signal(int sig, void *arg)
{
	struct hvd_ending *ending = arg;

	ending->fn(sig, ending->arg);
}

static void on_starter(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_ending *ending = arg;
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	event_del(ending->starter);
	ending->fn(HVD_ENDING_STARTER, ending->arg);
}

struct hvd_ending *hvd_ending_watch(struct event_base *base, int starter, void (*fn)(int sig, void *arg), void *arg)
{
	struct hvd_ending *ending = hvd_xcalloc(1, sizeof(*ending));

	ending->fn = fn;
	ending->arg = arg;
	for (size_t i = 0; i < N_CAUGHT; i++)
		ending->signals[i] = hvd_signal_watch(base, caught[i], on_signal, ending);
	if (starter >= 0)
		ending->starter = hvd_event_watch(base, starter, EV_READ | EV_PERSIST, on_starter, ending);
	return ending;
}

void hvd_ending_hand_over(struct hvd_ending *ending, void (*fn)(int sig, void *arg), void *arg)
{
	ending->fn = fn;
	ending->arg = arg;
}

void hvd_ending_unwatch(struct hvd_ending *ending)
{
	if (!ending)
		return;
	for (size_t i = 0; i < N_CAUGHT; i++)
		hvd_signal_unwatch(ending->signals[i]);
	hvd_event_unwatch(&ending->starter);
	free(ending);
}
