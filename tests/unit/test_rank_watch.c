/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rank_watch.h"

#include "agent/stacks.h"
#include "unit.h"

#include <sys/wait.h>

struct told {
	struct event_base *base;
	struct hvd_rank_watch *watch;
	json_t *last;
};

static void take(json_t *msg, void *arg)
{
	struct told *t = arg;

	json_decref(t->last);
	t->last = msg;
	event_base_loopbreak(t->base);
}

static int set_up(void **state)
{
	static struct told t;

	t = (struct told){.base = event_base_new()};
	t.watch = hvd_rank_watch_create(t.base, take, &t, NULL);
	*state = &t;
	return 0;
}

static int tear_down(void **state)
{
	struct told *t = *state;

	hvd_rank_watch_destroy(t->watch);
	json_decref(t->last);
	event_base_free(t->base);
	return 0;
}

static void tell(struct told *t, const char *text, bool known)
{
	json_t *msg = json_loads(text, 0, NULL);
	const char *type = json_string_value(json_object_get(msg, "t"));
	const struct hvd_agent_message *at;

	assert_non_null(msg);
	for (at = hvd_rank_watch_feature.messages; at->type; at++)
		if (type && strcmp(at->type, type) == 0)
			break;
	assert_int_equal(at->type != NULL, known);
	if (known)
		at->read(t->watch, msg);
	json_decref(msg);
}

TEST(strangers_messages_are_left)
{
	tell(*state, "{\"t\":\"end\"}", false);
	tell(*state, "{}", false);
	tell(*state, "{\"t\":\"stacks\"}", true);
	assert_null(((struct told *)*state)->last);
}

TEST_IN(no_ranks_have_no_stacks, struct told *t)
{
	hvd_rank_watch_add(t->watch, 3, getpid());
	hvd_rank_watch_remove(t->watch, 3);
	hvd_rank_watch_remove(t->watch, 4);
	tell(t, "{\"t\":\"stacks\",\"id\":7,\"seconds\":5}", true);
	if (!t->last)
		event_base_dispatch(t->base);
	assert_int_equal(json_integer_value(json_object_get(t->last, "id")), 7);
	assert_int_equal(json_array_size(json_object_get(t->last, "ranks")), 0);
}

/* A child that sleeps in a function of this program; stopped if that is wanted. */
static pid_t sleeper(bool stopped)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	if (stopped) {
		kill(pid, SIGSTOP);
		waitpid(pid, NULL, WUNTRACED);
	}
	return pid;
}

static json_t *rank_of(const struct told *t, int rank)
{
	json_t *list = json_object_get(t->last, "ranks"), *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (json_integer_value(json_object_get(one, "rank")) == rank)
			return one;
	}
	fail_msg("rank %d is not there", rank);
	return NULL;
}

static char state_of(pid_t pid)
{
	char path[64], c = '?';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &c), 1);
	fclose(f);
	return c;
}

TEST_IN(ranks_are_looked_at_and_stay_as_they_are, struct told *t)
{
	pid_t sleeping = sleeper(false), stopped = sleeper(true);

	hvd_rank_watch_add(t->watch, 0, sleeping);
	hvd_rank_watch_add(t->watch, 5, stopped);
	tell(t, "{\"t\":\"stacks\",\"id\":1,\"seconds\":20}", true);
	tell(t, "{\"t\":\"stacks\",\"id\":2,\"seconds\":20}", true);
	assert_true(json_is_true(json_object_get(t->last, "busy")));
	event_base_dispatch(t->base);
	assert_int_equal(json_integer_value(json_object_get(t->last, "id")), 1);
	assert_int_equal(json_array_size(json_object_get(t->last, "ranks")), 2);
	assert_int_equal(json_integer_value(json_object_get(rank_of(t, 0), "pid")), sleeping);
	assert_false(json_is_true(json_object_get(rank_of(t, 0), "stopped")));
	assert_true(json_is_true(json_object_get(rank_of(t, 5), "stopped")));
	assert_int_equal(state_of(sleeping), 'S');
	assert_int_equal(state_of(stopped), 'T');
	kill(sleeping, SIGKILL);
	kill(stopped, SIGKILL);
	waitpid(sleeping, NULL, 0);
	waitpid(stopped, NULL, 0);
}

/* The watch starts its own program as hvd-agent inspect WHICH. */
int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "inspect") == 0)
		return hvd_stacks_run(argv[2], NULL);
	return run_unit_tests((struct test_hooks){.setup = set_up, .teardown = tear_down});
}
