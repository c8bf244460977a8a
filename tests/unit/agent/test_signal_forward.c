/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/signal_forward.h"

#include "tests/unit/unit.h"

#include <event2/event.h>
#include <sys/wait.h>

struct world {
	struct event_base *base;
	struct hvd_signal_forward *forward;
	sigset_t set, mask;
	int alone[NSIG];
};

static void on_alone(int sig, void *arg)
{
	struct world *w = arg;

	w->alone[sig]++;
}

/* A process group of its own, so that nobody else gets what is sent to it. */
static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct hvd_err err = {0};

	setpgid(0, 0);
	sigemptyset(&w->set);
	sigaddset(&w->set, SIGUSR1);
	sigaddset(&w->set, SIGTERM);
	sigaddset(&w->set, SIGTSTP);
	sigaddset(&w->set, SIGCONT);
	sigaddset(&w->set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &w->set, &w->mask);
	w->base = event_base_new();
	w->forward = hvd_signal_forward_create(w->base, &w->set, on_alone, w, &err);
	*state = w;
	return w->forward ? 0 : -1;
}

TEARDOWN(teardown, struct world, w)
{
	hvd_signal_forward_destroy(w->forward);
	while (sigtimedwait(&w->set, NULL, &(struct timespec){0}) > 0)
		;
	sigprocmask(SIG_SETMASK, &w->mask, NULL);
	event_base_free(w->base);
}

static void loop(struct world *w, int ms)
{
	event_base_loopexit(w->base, &(struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000});
	event_base_dispatch(w->base);
}

TEST_IN(what_comes_to_this_process_alone_is_passed_on, struct world *w)
{
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGRTMIN + 3);
	loop(w, 20);
	assert_int_equal(w->alone[SIGUSR1], 0); /* it may still come to the other */
	loop(w, 4 * HVD_SIGNAL_ROUND_MS);
	assert_int_equal(w->alone[SIGUSR1], 1);
	assert_int_equal(w->alone[SIGRTMIN + 3], 1);
	assert_int_equal(w->alone[SIGTERM], 0);
	assert_true(hvd_signal_forward_had(w->forward, SIGUSR1));
	assert_false(hvd_signal_forward_had(w->forward, SIGTERM));
	kill(getpid(), SIGUSR1);
	loop(w, 4 * HVD_SIGNAL_ROUND_MS);
	assert_int_equal(w->alone[SIGUSR1], 2);
}

TEST_IN(what_comes_to_the_group_is_not, struct world *w)
{
	kill(0, SIGTERM);
	loop(w, 4 * HVD_SIGNAL_ROUND_MS);
	assert_int_equal(w->alone[SIGTERM], 0);
	assert_true(hvd_signal_forward_had(w->forward, SIGTERM));
	/* Nor does that hold for ever. */
	kill(getpid(), SIGTERM);
	loop(w, 4 * HVD_SIGNAL_ROUND_MS);
	assert_int_equal(w->alone[SIGTERM], 1);
}

/* In that order, or it would stop for good. */
TEST_IN(a_process_that_is_to_go_on_is_not_stopped, struct world *w)
{
	kill(getpid(), SIGTSTP);
	loop(w, HVD_SIGNAL_ROUND_MS / 4);
	kill(getpid(), SIGCONT);
	loop(w, 4 * HVD_SIGNAL_ROUND_MS);
	assert_int_equal(w->alone[SIGTSTP], 0);
	assert_int_equal(w->alone[SIGCONT], 1);
}

TEST_IN(what_has_come_is_pending_in_the_end, struct world *w)
{
	sigset_t pending;

	kill(getpid(), SIGUSR1);
	assert_true(hvd_signal_forward_had(w->forward, SIGUSR1));
	loop(w, 4 * HVD_SIGNAL_ROUND_MS);
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGUSR1));
	hvd_signal_forward_destroy(w->forward);
	w->forward = NULL;
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGUSR1));
	/* Nothing is left of the other process. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
