/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a process that cannot be killed; the states of its threads are those of a made-up /proc. */
#include "lib/host/unkillable.h"
#include "lib/process/procfs.h"

#include "tests/unit/unit.h"

static char proc[] = "/tmp/hvd-test-proc-XXXXXX";

static void put(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", proc, folder);
	for (char *slash = path + strlen(proc); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", proc, folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void thread(int pid, int tid, char state)
{
	char folder[64], text[256];

	snprintf(folder, sizeof(folder), "%d/task/%d", pid, tid);
	snprintf(text, sizeof(text), "%d (py) (x) %c 1 2 3 4 5 0 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n", tid,
		 state);
	put(folder, "stat", text);
}

static int make_proc(void **state)
{
	return mkdtemp(proc) ? 0 : -1;
}

static int remove_proc(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", proc);
	return system(command);
}

TEST(the_thread_that_keeps_a_process)
{
	thread(10, 10, 'S');
	assert_int_equal(hvd_process_state(10, proc), 'S');
	thread(20, 20, 'Z');
	thread(20, 21, 'D');
	thread(20, 22, 'S');
	assert_int_equal(hvd_process_state(20, proc), 'D');
	thread(30, 30, 'Z');
	thread(30, 31, 'R');
	assert_int_equal(hvd_process_state(30, proc), 'R');
	thread(40, 40, 'Z');
	assert_int_equal(hvd_process_state(40, proc), 'Z');
	assert_int_equal(hvd_process_state(50, proc), 0);
	put("60/task/60", "stat", "nonsense");
	assert_int_equal(hvd_process_state(60, proc), 0);
}

TEST(gpus_are_seen_by_their_devices)
{
	char path[128];

	thread(70, 70, 'Z');
	thread(70, 71, 'D');
	put("70/task/71/fd", "none", "");
	assert_false(hvd_process_has_open(70, proc, "/dev/nvidia"));
	snprintf(path, sizeof(path), "%s/70/task/71/fd/7", proc);
	assert_int_equal(symlink("/dev/nvidia3", path), 0);
	assert_true(hvd_process_has_open(70, proc, "/dev/nvidia"));
	assert_false(hvd_process_has_open(70, proc, "/dev/other"));
	assert_true(hvd_process_has_open(getpid(), "/proc", "/"));
}

TEST(the_message_is_read)
{
	struct hvd_unkillable what = {.pid = 4711, .state = 'D', .gpus = true}, got;
	json_t *msg = hvd_unkillable_json(&what);
	char *text;

	assert_int_equal(hvd_unkillable_parse(msg, &got, NULL), 0);
	text = hvd_unkillable_text(&got, 3);
	assert_string_equal(
		text,
		"rank 3 cannot be killed: process 4711 has not ended 5 s after SIGKILL (state D), and has GPUs open");
	free(text);
	json_object_set_new(msg, "left", json_true());
	json_object_set_new(msg, "gpus", json_string("yes"));
	json_object_set_new(msg, "state", json_string("\n"));
	assert_int_equal(hvd_unkillable_parse(msg, &got, NULL), 0);
	assert_text(hvd_unkillable_text(&got, 3),
		    "a process of rank 3 cannot be killed: process 4711 has not ended 5 s after SIGKILL "
		    "(state ?)");
	json_object_set_new(msg, "state", json_string("DD"));
	assert_int_equal(hvd_unkillable_parse(msg, &got, NULL), -1);
	json_object_set_new(msg, "state", json_string("D"));
	json_object_set_new(msg, "pid", json_integer(0));
	assert_int_equal(hvd_unkillable_parse(msg, &got, NULL), -1);
	json_decref(msg);
	hvd_unkillable_look(&got, getpid());
	assert_int_equal(got.pid, getpid());
	assert_true(got.state == 'R' || got.state == 'S' || got.state == 'D');
	assert_false(got.gpus);
}

RUN_TESTS(.group_setup = make_proc, .group_teardown = remove_proc)
