/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a host that ask the node agent for plans are told, and what it hears of them. */
#include "agent/shims.h"

#include "tests/unit/unit.h"

#include <sys/mman.h>
#include <sys/socket.h>

struct world {
	struct event_base *base;
	struct hvd_shims *shims;
	int events, left, none_left;
	struct hvd_step_event last;
	uint32_t last_left;
	int fds_before;
};

static void on_event(const struct hvd_step_event *event, int fds[2], void *arg)
{
	struct world *w = arg;

	w->events++;
	w->last = *event;
	hvd_step_event_close(fds);
}

static void on_left(uint32_t local_id, void *arg)
{
	struct world *w = arg;

	w->left++;
	w->last_left = local_id;
}

static void on_none_left(void *arg)
{
	((struct world *)arg)->none_left++;
}

SETUP(setup, struct world, w)
{
	static const struct hvd_shims_ops ops = {on_event, on_left, on_none_left};

	w->fds_before = open_fds();
	w->base = event_base_new();
	w->shims = hvd_shims_create(w->base, 3, -1, &ops, w);
}

static int teardown(void **state)
{
	struct world *w = *state;
	int leaked;

	hvd_shims_destroy(w->shims);
	event_base_free(w->base);
	leaked = open_fds() - w->fds_before;
	free(w);
	if (leaked)
		print_error("%d descriptors were not closed\n", leaked);
	return leaked ? -1 : 0;
}

static void turn(const struct world *w)
{
	for (int i = 0; i < 3; i++)
		event_base_loop(w->base, EVLOOP_NONBLOCK);
}

/* A process connects, and asks. */
static int ask(struct world *w, uint32_t local_id)
{
	struct hvd_step_event event = {.kind = HVD_STEP_ASK, .local_id = local_id};
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	hvd_shims_add(w->shims, ends[0]);
	assert_int_equal(hvd_step_event_send(ends[1], &event, NULL), 0);
	turn(w);
	return ends[1];
}

static bool answered(int fd, struct hvd_step_event *event, int fds[2])
{
	return hvd_step_event_take(fd, event, fds) == 1;
}

static bool silent(int fd)
{
	struct hvd_step_event event;
	int fds[2];

	return hvd_step_event_take(fd, &event, fds) == 0;
}

/* The plan that a process was sent; the other descriptor's content goes into `key`. */
static json_t *plan_of(int fd, char key[8])
{
	struct hvd_step_event event;
	json_t *plan;
	int fds[2];

	assert_true(answered(fd, &event, fds));
	assert_int_equal(event.kind, HVD_STEP_PLAN);
	lseek(fds[0], 0, SEEK_SET);
	plan = json_loadfd(fds[0], 0, NULL);
	assert_non_null(plan);
	memset(key, 0, 8);
	assert_true(pread(fds[1], key, 7, 0) > 0);
	hvd_step_event_close(fds);
	return plan;
}

static json_t *two_ranks(void)
{
	return json_pack("[{s:i}, {s:i}]", "rank", 4, "rank", 5);
}

static json_int_t rank_of(const json_t *plan)
{
	return json_integer_value(json_object_get(plan, "rank"));
}

TEST_IN(each_gets_its_own_part_before_and_after_the_plan, struct world *w)
{
	int first = ask(w, 0), late, spare;
	json_t *plans = two_ranks(), *plan;
	char bytes[8];

	assert_true(silent(first));
	hvd_shims_answer(w->shims, plans, 0);
	plan = plan_of(first, bytes);
	assert_int_equal(rank_of(plan), 4);
	assert_int_equal(bytes[0], '{'); /* without a key it is the plan once more */
	json_decref(plan);
	late = ask(w, 1);
	plan = plan_of(late, bytes);
	assert_int_equal(rank_of(plan), 5);
	json_decref(plan);
	/* A shim for which there is no rank. */
	spare = ask(w, 2);
	plan = plan_of(spare, bytes);
	assert_int_equal(json_object_size(plan), 0);
	json_decref(plan);
	json_decref(plans);
	close(first);
	close(late);
	close(spare);
}

/* Under the plugin, the process that asks finds the plans of all ranks in memory that it shares with the agent. */
TEST_IN(the_plan_of_all_comes_without_descriptors, struct world *w)
{
	int all = ask(w, 0), fds[2];
	struct hvd_step_event event;

	assert_true(silent(all));
	hvd_shims_answer(w->shims, NULL, 0);
	assert_true(answered(all, &event, fds));
	assert_int_equal(event.kind, HVD_STEP_PLAN);
	assert_int_equal(fds[0], -1);
	close(all);
}

TEST_IN(the_key_is_handed_over, struct world *w)
{
	int memory = memfd_create("key", MFD_CLOEXEC), fd = ask(w, 0);
	json_t *plan = two_ranks(), *told;
	char bytes[8];

	assert_int_equal(write(memory, "secret", 6), 6);
	hvd_shims_answer(w->shims, plan, memory);
	told = plan_of(fd, bytes);
	assert_string_equal(bytes, "secret");
	json_decref(told);
	json_decref(plan);
	close(memory);
	close(fd);
}

TEST_IN(a_refused_start_is_told_with_its_status, struct world *w)
{
	int first = ask(w, 0), late, fds[2];
	struct hvd_step_event event;

	hvd_shims_refuse(w->shims, 2);
	late = ask(w, 1);
	assert_true(answered(first, &event, fds));
	assert_int_equal(event.kind, HVD_STEP_REFUSED);
	assert_int_equal(event.status, 2);
	assert_true(answered(late, &event, fds));
	assert_int_equal(event.kind, HVD_STEP_REFUSED);
	close(first);
	close(late);
}

/* Each speaks of the rank that it has asked for, whatever it says. */
TEST_IN(notes_are_of_the_rank_that_has_asked, struct world *w)
{
	struct hvd_step_event event = {.kind = HVD_STEP_EXIT, .local_id = 0, .status = 3};
	int fd = ask(w, 1), mute[2], fds[2];

	assert_int_equal(hvd_step_event_send(fd, &event, NULL), 0);
	turn(w);
	assert_int_equal(w->events, 1);
	assert_int_equal(w->last.kind, HVD_STEP_EXIT);
	assert_int_equal(w->last.local_id, 1);
	assert_int_equal(w->last.status, 3);
	hvd_shims_seen(w->shims, 0);
	assert_true(silent(fd));
	hvd_shims_seen(w->shims, 1);
	assert_true(answered(fd, &event, fds));
	assert_int_equal(event.kind, HVD_STEP_SEEN);
	hvd_shims_tell(w->shims, HVD_STEP_SIGNAL, 10);
	assert_true(answered(fd, &event, fds));
	assert_int_equal(event.kind, HVD_STEP_SIGNAL);
	assert_int_equal(event.status, 10);
	/* One that has not asked is nobody. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, mute), 0);
	hvd_shims_add(w->shims, mute[0]);
	assert_int_equal(hvd_step_event_send(mute[1], &event, NULL), 0);
	turn(w);
	assert_int_equal(w->events, 1);
	close(mute[1]);
	close(fd);
	turn(w);
	assert_int_equal(w->left, 1);
	assert_int_equal(w->last_left, 1);
}

TEST_IN(the_end_comes_when_all_have_come_and_gone, struct world *w)
{
	int fd[3] = {ask(w, 0), ask(w, 1), -1};

	assert_int_equal(hvd_shims_connected(w->shims), 2);
	assert_int_equal(hvd_shims_first(w->shims), getpid());
	close(fd[0]);
	close(fd[1]);
	turn(w);
	assert_int_equal(w->left, 2);
	assert_int_equal(w->none_left, 0); /* the third may come yet */
	fd[2] = ask(w, 2);
	close(fd[2]);
	turn(w);
	assert_int_equal(w->none_left, 1);
	assert_int_equal(hvd_shims_first(w->shims), 0);
}

TEST_IN(the_end_comes_when_no_other_is_expected, struct world *w)
{
	int fd = ask(w, 0);

	hvd_shims_expect_none(w->shims);
	assert_int_equal(w->none_left, 0);
	close(fd);
	turn(w);
	assert_int_equal(w->none_left, 1);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
