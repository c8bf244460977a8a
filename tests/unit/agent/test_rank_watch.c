/* SPDX-License-Identifier: Apache-2.0 */
/* The look at a host's ranks, as a feature of an agent whose driver is this test. */
#include "agent/agent.h"

#include "agent/stacks.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

#include <sys/wait.h>

struct told {
	struct hvd_agent agent;
	struct hvd_of_world *watch; /* the features' states, which begin so */
	struct hvd_agent **scan;
	json_t *last;
};

/* In place of the agent's own. */
void hvd_driver_client_send(struct hvd_driver_client *driver, json_t *msg)
{
	struct told *t = (struct told *)driver;

	json_decref(t->last);
	t->last = msg;
	event_base_loopbreak(t->agent.base);
}

SETUP(set_up, struct told, t)
{
	t->agent.base = event_base_new();
	t->agent.driver = (struct hvd_driver_client *)t;
	t->watch = calloc(1, hvd_rank_watch_feature.size);
	assert_non_null(t->watch);
	*t->watch = (struct hvd_of_world){.agent = &t->agent, .world = 1};
	t->scan = calloc(1, hvd_rank_scan_feature.size);
	assert_non_null(t->scan);
	*t->scan = &t->agent;
	hvd_rank_scan_feature.begin(t->scan);
}

static int tear_down(void **state)
{
	struct told *t = *state;

	hvd_rank_watch_feature.end(t->watch);
	hvd_rank_scan_feature.end(t->scan);
	free(t->watch);
	free(t->scan);
	json_decref(t->last);
	event_base_free(t->agent.base);
	free(t);
	return 0;
}

static void tell(struct told *t, const char *text)
{
	json_t *msg = json_loads(text, 0, NULL);
	const char *type = json_string_value(json_object_get(msg, "t"));
	const struct hvd_agent_message *at = hvd_rank_watch_feature.messages;

	assert_non_null(type);
	while (strcmp(at->type, type) != 0)
		assert_non_null((++at)->type);
	at->read(t->watch, msg);
	json_decref(msg);
}

TEST_IN(malformed_questions_have_no_answer, struct told *t)
{
	tell(t, "{\"t\":\"stacks\"}");
	tell(t, "{\"t\":\"stacks\",\"id\":-1,\"seconds\":5}");
	assert_null(t->last);
}

TEST_IN(no_ranks_have_no_stacks, struct told *t)
{
	hvd_rank_scan_feature.rank_began(t->scan, (struct hvd_world_rank){1, 3}, getpid());
	hvd_rank_scan_feature.rank_ended(t->scan, (struct hvd_world_rank){1, 3});
	hvd_rank_scan_feature.rank_ended(t->scan, (struct hvd_world_rank){1, 4});
	tell(t, "{\"t\":\"stacks\",\"id\":7,\"seconds\":5}");
	if (!t->last)
		event_base_dispatch(t->agent.base);
	assert_int_equal(json_integer_value(json_object_get(t->last, "id")), 7);
	assert_int_equal(json_array_size(json_object_get(t->last, "ranks")), 0);
	assert_int_equal(json_integer_value(json_object_get(t->last, "world")), 1);
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

	hvd_rank_scan_feature.rank_began(t->scan, (struct hvd_world_rank){1, 0}, sleeping);
	hvd_rank_scan_feature.rank_began(t->scan, (struct hvd_world_rank){1, 5}, stopped);
	tell(t, "{\"t\":\"stacks\",\"id\":1,\"seconds\":20}");
	tell(t, "{\"t\":\"stacks\",\"id\":2,\"seconds\":20}");
	assert_true(json_is_true(json_object_get(t->last, "busy")));
	event_base_dispatch(t->agent.base);
	assert_int_equal(json_integer_value(json_object_get(t->last, "id")), 1);
	assert_int_equal(json_array_size(json_object_get(t->last, "ranks")), 2);
	assert_int_equal(json_integer_value(json_object_get(rank_of(t, 0), "pid")), sleeping);
	assert_false(json_is_true(json_object_get(rank_of(t, 0), "stopped")));
	assert_true(json_number_value(json_object_get(rank_of(t, 0), "cpu")) >= 0);
	assert_true(json_is_real(json_object_get(rank_of(t, 0), "cpu")));
	assert_true(json_is_true(json_object_get(rank_of(t, 5), "stopped")));
	assert_int_equal(state_of(sleeping), 'S');
	assert_int_equal(state_of(stopped), 'T');
	tell(t, "{\"t\":\"stacks\",\"id\":3,\"seconds\":20,\"stop\":false}");
	event_base_dispatch(t->agent.base);
	assert_int_equal(json_array_size(json_object_get(t->last, "ranks")), 2);
	assert_true(strcmp(json_string_value(json_object_get(rank_of(t, 0), "how")), "gdb") != 0);
	kill(sleeping, SIGKILL);
	kill(stopped, SIGKILL);
	waitpid(sleeping, NULL, 0);
	waitpid(stopped, NULL, 0);
}

/* A process is part of a rank of this world that is above it; of a rank of another world it is none here. */
TEST_IN(processes_have_owners, struct told *t)
{
	hvd_cleanup_free char *question = NULL;
	pid_t own = sleeper(false), other = sleeper(false);
	json_t *ranks;

	hvd_rank_scan_feature.rank_began(t->scan, (struct hvd_world_rank){1, 4}, own);
	hvd_rank_scan_feature.rank_began(t->scan, (struct hvd_world_rank){0, 6}, other);
	question = hvd_xasprintf("{\"t\":\"owners\",\"id\":9,\"pids\":[%d,%d,%d,1,-1,4294967296,null]}", (int)other,
				 (int)own, (int)getpid());
	tell(t, question);
	assert_int_equal(json_integer_value(json_object_get(t->last, "id")), 9);
	ranks = json_object_get(t->last, "ranks");
	assert_int_equal(json_array_size(ranks), 7);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(json_integer_value(json_array_get(ranks, i)), i == 1 ? 4 : -1);
	hvd_rank_scan_feature.rank_began(t->scan, (struct hvd_world_rank){1, 7}, getpid());
	tell(t, question);
	ranks = json_object_get(t->last, "ranks");
	assert_int_equal(json_integer_value(json_array_get(ranks, 2)), 7);
	kill(own, SIGKILL);
	kill(other, SIGKILL);
	waitpid(own, NULL, 0);
	waitpid(other, NULL, 0);
}

/* The watch starts its own program as hvd-agent inspect WHICH. */
int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "inspect") == 0)
		return hvd_stacks_run(argv[2], NULL);
	return run_unit_tests((struct test_hooks){.setup = set_up, .teardown = tear_down});
}
