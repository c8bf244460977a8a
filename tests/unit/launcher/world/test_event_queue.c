/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened, on its way to the state machine of an elastic job: when it is told, in which order, and its
 * clock. */
#include "launcher/world/event_queue.h"
#include "launcher/world/machine_internal.h"

#include "tests/unit/unit.h"

struct world {
	struct event_base *base;
	struct hvd_machine *machine;
	struct hvd_event_queue *events;
	int begun, ended, prepared, generations, started, answers, notices, cuts, finished;
	struct hvd_err why;
	int status;
};

static void do_host_begin(uint32_t host, void *arg)
{
	struct world *w = arg;

	w->begun++;
	/* The machine must not be called from here; its events must wait. */
	hvd_event_queue_add(w->events, HVD_EVENT_HOST_HERE, host, 0);
}

static void do_host_end(uint32_t host, void *arg)
{
	((struct world *)arg)->ended++;
}

static void do_prepare(void *arg)
{
	((struct world *)arg)->prepared++;
}

static void do_generation(bool prepared, void *arg)
{
	((struct world *)arg)->generations++;
}

static void do_start(const struct hvd_worker *worker, void *arg)
{
	((struct world *)arg)->started++;
}

static void do_end(const struct hvd_worker *worker, bool at_once, void *arg)
{
}

static void do_answer(void *arg)
{
	((struct world *)arg)->answers++;
}

static void do_notify(uint32_t worker, void *arg)
{
	((struct world *)arg)->notices++;
}

static void do_cut(void *arg)
{
	((struct world *)arg)->cuts++;
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	struct world *w = arg;

	w->finished++;
	w->why = *why;
	w->status = status;
}

static void begin_with(struct world *w, double elastic_timeout)
{
	static const struct hvd_machine_ops ops = {do_host_begin, do_host_end, do_host_end, do_prepare, do_generation,
						   do_start,      do_end,      do_answer,   do_notify,  do_cut,
						   do_finish,     NULL,        NULL,        NULL,       NULL};
	const struct hvd_machine_opts opts = {
		.np = 2, .min_np = 2, .reset_limit = -1, .elastic_timeout = elastic_timeout, .patience = 60};

	w->machine = hvd_machine_create(&opts, hvd_now(), &ops, w, NULL);
	w->events = hvd_event_queue_create(w->base, w->machine);
}

SETUP(begin, struct world, w)
{
	w->base = event_base_new();
}

TEARDOWN(end, struct world, w)
{
	hvd_event_queue_destroy(w->events);
	hvd_machine_destroy(w->machine);
	event_base_free(w->base);
}

/* One turn of the event loop, which does not wait. */
static void turn(struct world *w)
{
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

static void add_hosts(struct world *w, const char *text, const uint32_t *jobs)
{
	struct hvd_alloc hosts = {0};

	if (*text)
		assert_int_equal(hvd_alloc_from_hosts(&hosts, text, 1, NULL), 0);
	for (int i = 0; i < hosts.n_hosts; i++)
		hosts.hosts[i].slurm_job = jobs[i];
	hvd_event_queue_add_hosts(w->events, &hosts);
	hvd_alloc_clear(&hosts); /* copied */
}

/* Two workers that train, on one host. */
static void running(struct world *w)
{
	begin_with(w, 60);
	add_hosts(w, "a:2", (const uint32_t[]){7});
	turn(w);
	turn(w);
	hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, 0, 0);
	hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, 1, 0);
	turn(w);
	assert_int_equal(w->answers, 1);
	hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, 0, 0);
	hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, 1, 0);
	hvd_event_queue_add(w->events, HVD_EVENT_CONNECTED, 0, 0);
	turn(w);
}

TEST_IN(news_are_told_from_the_event_loop, struct world *w)
{
	begin_with(w, 60);
	add_hosts(w, "a:2", (const uint32_t[]){7});
	assert_int_equal(w->begun, 0);
	turn(w);
	assert_int_equal(w->begun, 1); /* and what was added while the machine was at work */
	assert_int_equal(w->started, 2);
	assert_int_equal(w->generations, 1);
}

/* Three lists of hosts and what followed from the first of them. */
TEST_IN(news_keep_their_order, struct world *w)
{
	begin_with(w, 60);
	add_hosts(w, "a:1,b:1", (const uint32_t[]){7, 7});
	add_hosts(w, "a:1", (const uint32_t[]){7});
	add_hosts(w, "a:1,c:1", (const uint32_t[]){7, 7});
	turn(w);
	assert_int_equal(w->begun, 3);
	assert_int_equal(w->ended, 1); /* b, which is in the first list only */
	turn(w);
	assert_int_equal(w->machine->now.n, 2);
	assert_int_equal(hvd_machine_member(w->machine, 1)->host, 2);
}

TEST_IN(each_kind_reaches_the_machine, struct world *w)
{
	running(w);
	/* More slots: a worker is started beside, and rank 0 is told when it has come. */
	add_hosts(w, "a:3", (const uint32_t[]){7});
	turn(w);
	assert_int_equal(w->started, 3);
	hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, 2, 0);
	turn(w);
	assert_int_equal(w->notices, 1);
	hvd_event_queue_add(w->events, HVD_EVENT_NOTIFIED, 0, 1);
	hvd_event_queue_add(w->events, HVD_EVENT_READY, 0, 0);
	hvd_event_queue_add(w->events, HVD_EVENT_READY, 1, 0);
	turn(w);
	assert_int_equal(w->answers, 2);
	assert_int_equal(w->machine->now.n, 3);
	for (uint32_t id = 0; id < 3; id++)
		hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, id, 0);
	hvd_event_queue_add(w->events, HVD_EVENT_CONNECTED, 0, 0);
	/* One fails, one knows: the third's connections are cut. */
	hvd_event_queue_add(w->events, HVD_EVENT_EXITED, 2, SIGKILL);
	hvd_event_queue_add(w->events, HVD_EVENT_READY, 0, 0);
	turn(w);
	assert_int_equal(w->cuts, 1);
	hvd_event_queue_add(w->events, HVD_EVENT_KILL_FAILED, 0, 0);
	hvd_event_queue_add(w->events, HVD_EVENT_HOST_LOST, 0, 0);
	turn(w);
	assert_int_equal(w->finished, 1); /* with it went all that there was of the training */
	assert_int_equal(w->status, 128 + SIGKILL);
}

TEST_IN(a_notice_that_was_not_heard_is_given_again, struct world *w)
{
	hvd_time until = hvd_deadline_in(20);

	running(w);
	add_hosts(w, "a:1,b:1", (const uint32_t[]){7, 7});
	turn(w);
	turn(w);
	hvd_event_queue_add(w->events, HVD_EVENT_ARRIVED, 2, 0);
	turn(w);
	assert_int_equal(w->notices, 1);
	hvd_event_queue_add(w->events, HVD_EVENT_NOTIFIED, 0, 0);
	turn(w);
	assert_int_equal(w->notices, 1);
	while (w->notices < 2 && hvd_left(until) > 0)
		event_base_loop(w->base, EVLOOP_ONCE); /* the machine's clock */
	assert_int_equal(w->notices, 2);
}

TEST_IN(unfit_hosts_are_not_tried_again, struct world *w)
{
	begin_with(w, 60);
	add_hosts(w, "a:1,b:1", (const uint32_t[]){7, 7});
	hvd_event_queue_add(w->events, HVD_EVENT_HOST_UNFIT, 1, 0);
	turn(w);
	add_hosts(w, "a:1", (const uint32_t[]){7});
	add_hosts(w, "a:1,b:1", (const uint32_t[]){7, 7});
	turn(w);
	assert_int_equal(w->begun, 2);
}

TEST_IN(the_clock_runs, struct world *w)
{
	hvd_time began = hvd_now(), until = hvd_deadline_in(20);

	begin_with(w, 0.2);
	add_hosts(w, "a:1", (const uint32_t[]){7});
	while (!w->finished && hvd_left(until) > 0)
		event_base_loop(w->base, EVLOOP_ONCE);
	assert_int_equal(w->finished, 1);
	assert_int_equal(w->why.code, HVD_E_TIMEOUT);
	assert_true(hvd_now() - began >= 200000000);
}

TEST_IN(jobs_of_hosts, struct world *w)
{
	begin_with(w, 60);
	add_hosts(w, "a:1,b:1", (const uint32_t[]){7, 8});
	assert_int_equal(hvd_machine_slurm_job(w->machine, 1), 0); /* as the machine was told last */
	turn(w);
	assert_int_equal(hvd_machine_slurm_job(w->machine, 0), 7);
	assert_int_equal(hvd_machine_slurm_job(w->machine, 1), 8);
	assert_int_equal(hvd_machine_slurm_job(w->machine, 2), 0);
	add_hosts(w, "b:1", (const uint32_t[]){9});
	turn(w);
	assert_int_equal(hvd_machine_slurm_job(w->machine, 1), 9);
}

TEST_IN(nothing_is_told_after_the_end, struct world *w)
{
	begin_with(w, 0.1);
	add_hosts(w, "a:2", (const uint32_t[]){7});
	hvd_event_queue_stop(w->events);
	hvd_event_queue_add(w->events, HVD_EVENT_HOST_HERE, 0, 0);
	turn(w);
	assert_int_equal(w->begun, 0);
	event_base_loopexit(w->base, &(struct timeval){.tv_usec = 300000});
	event_base_dispatch(w->base);
	assert_int_equal(w->finished, 0);
}

/* Some are left when the job ends. */
TEST_IN(news_that_nobody_hears, struct world *w)
{
	begin_with(w, 60);
	add_hosts(w, "a:2", (const uint32_t[]){7});
	hvd_event_queue_add(w->events, HVD_EVENT_HOST_HERE, 0, 0);
	hvd_event_queue_destroy(w->events);
	w->events = NULL;
	turn(w);
	assert_int_equal(w->begun, 0);
	hvd_event_queue_destroy(NULL);
}

RUN_TESTS(.setup = begin, .teardown = end)
