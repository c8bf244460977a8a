/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stack_parse.h"

#include "tests/unit/unit.h"

/* What py-spy 0.4.3 prints of a program that sleeps, with a thread beside it; some frames and members left out. */
static const char pyspy[] =
	"[{\"pid\":18954,\"thread_id\":139762510771904,\"thread_name\":\"bg\",\"os_thread_id\":19244,\"active\":false,"
	"\"owns_gil\":false,\"frames\":[{\"name\":\"<lambda>\",\"filename\":\"/tmp/t.py\",\"module\":null,"
	"\"short_filename\":\"t.py\",\"line\":6,\"locals\":null,\"is_entry\":true,\"is_shim_entry\":false},"
	"{\"name\":\"Thread.run\",\"filename\":\"/usr/lib/python3.11/threading.py\",\"line\":982,\"locals\":null}],"
	"\"process_info\":null},"
	"{\"pid\":18954,\"thread_id\":139762524842880,\"thread_name\":\"MainThread\",\"os_thread_id\":18954,"
	"\"active\":false,\"owns_gil\":false,\"frames\":[{\"name\":\"inner\",\"filename\":\"/tmp/t.py\",\"line\":3},"
	"{\"name\":\"step\",\"filename\":\"/tmp/t.py\",\"line\":5},{\"name\":\"<module>\",\"filename\":\"/tmp/t.py\","
	"\"line\":8}],\"process_info\":null}]";

/* Of eu-stack 0.188. */
static const char eu_stack[] = "PID 18954 - process\n"
			       "TID 18954:\n"
			       "#0  0x00007f1cff2ed545 clock_nanosleep@GLIBC_2.2.5\n"
			       "#1  0x00007f1cff715ada time_sleep\n"
			       "#2  0x0000563cfc65d081\n"
			       "TID 19244:\n"
			       "#0  0x00007f1cff2ed545 clock_nanosleep@GLIBC_2.2.5\n"
			       "#1  0x00007f1cff3278ec __clone3\n";

/* Of gdb 13.1. */
static const char gdb[] =
	"[New LWP 19244]\n"
	"0x00007f1cff2ed545 in __GI___clock_nanosleep (clock_id=1) at ../sysdeps/unix/sysv/linux/clock_nanosleep.c:48\n"
	"\n"
	"Thread 2 (Thread 0x7f1cfe3ff6c0 (LWP 19244) \"python3\"):\n"
	"#0  0x00007f1cff2ed545 in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81\n"
	"\n"
	"Thread 1 (Thread 0x7f1cffa56b80 (LWP 18954) \"python3\"):\n"
	"#0  0x00007f1cff2ed545 in __GI___clock_nanosleep (clock_id=clock_id@entry=1, flags=flags@entry=1) at "
	"../sysdeps/unix/sysv/linux/clock_nanosleep.c:48\n"
	"#1  0x00007f1cff715ada in pysleep (timeout=<optimized out>) at ./Modules/timemodule.c:2159\n"
	"#2  time_sleep (self=<optimized out>, timeout_obj=<optimized out>) at ./Modules/timemodule.c:383\n"
	"#3  0x0000563cfc65d081 in _start ()\n"
	"[Inferior 1 (process 18954) detached]\n";

static json_t *frame_of(json_t *frames, size_t i, const char **name, const char **file, int *line)
{
	json_t *one = json_array_get(frames, i);

	*name = json_string_value(json_array_get(one, 0));
	*file = json_string_value(json_array_get(one, 1));
	*line = (int)json_integer_value(json_array_get(one, 2));
	return one;
}

static void is_frame(json_t *frames, size_t i, const char *name, const char *file, int line)
{
	const char *its_name, *its_file;
	int its_line;

	assert_non_null(frame_of(frames, i, &its_name, &its_file, &its_line));
	assert_string_equal(its_name, name);
	assert_string_equal(its_file, file);
	assert_int_equal(its_line, line);
}

static json_t *other_thread(json_t *stacks, const char *name)
{
	json_t *thread = json_array_get(json_object_get(stacks, "threads"), 0);

	assert_int_equal(json_array_size(json_object_get(stacks, "threads")), 1);
	assert_string_equal(json_string_value(json_object_get(thread, "name")), name);
	return json_object_get(thread, "frames");
}

TEST(output_of_pyspy)
{
	json_t *stacks = hvd_stack_parse_pyspy(pyspy, strlen(pyspy), 18954), *frames;

	assert_non_null(stacks);
	frames = json_object_get(stacks, "frames");
	assert_int_equal(json_array_size(frames), 3);
	is_frame(frames, 0, "inner", "/tmp/t.py", 3);
	is_frame(frames, 2, "<module>", "/tmp/t.py", 8);
	is_frame(other_thread(stacks, "bg"), 0, "<lambda>", "/tmp/t.py", 6);
	assert_true(json_is_false(json_object_get(stacks, "gil")));
	json_decref(stacks);
}

TEST(who_holds_the_interpreter_lock)
{
	/* py-spy 0.4.3 of a program that imports no threads. */
	static const char text[] =
		"[{\"pid\":7,\"thread_name\":null,\"os_thread_id\":7,\"active\":true,\"owns_gil\":true,"
		"\"frames\":[{\"name\":\"spin\",\"filename\":\"/tmp/s.py\",\"line\":2}]}]";
	json_t *stacks = hvd_stack_parse_pyspy(text, strlen(text), 7);

	assert_true(json_is_true(json_object_get(stacks, "gil")));
	is_frame(json_object_get(stacks, "frames"), 0, "spin", "/tmp/s.py", 2);
	json_decref(stacks);
}

TEST(output_of_eu_stack)
{
	json_t *stacks = hvd_stack_parse_native(eu_stack, strlen(eu_stack), 18954), *frames;

	assert_non_null(stacks);
	frames = json_object_get(stacks, "frames");
	assert_int_equal(json_array_size(frames), 3);
	is_frame(frames, 0, "clock_nanosleep@GLIBC_2.2.5", "", 0);
	is_frame(frames, 2, "??", "", 0);
	is_frame(other_thread(stacks, "thread 19244"), 1, "__clone3", "", 0);
	json_decref(stacks);
}

TEST(output_of_gdb)
{
	json_t *stacks = hvd_stack_parse_native(gdb, strlen(gdb), 18954), *frames;

	assert_non_null(stacks);
	frames = json_object_get(stacks, "frames");
	assert_int_equal(json_array_size(frames), 4);
	is_frame(frames, 0, "__GI___clock_nanosleep", "../sysdeps/unix/sysv/linux/clock_nanosleep.c", 48);
	is_frame(frames, 2, "time_sleep", "./Modules/timemodule.c", 383);
	is_frame(frames, 3, "_start", "", 0);
	is_frame(other_thread(stacks, "thread 19244"), 0, "clone3", "../sysdeps/unix/sysv/linux/x86_64/clone3.S", 81);
	json_decref(stacks);
}

TEST(what_is_no_stack)
{
	static const char *const texts[] = {"",     "[]",      "[{\"frames\":[]}]", "{}", "Error: No such process",
					    "#0\n", "TID 5:\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_null(hvd_stack_parse_pyspy(texts[i], strlen(texts[i]), 1));
		assert_null(hvd_stack_parse_native(texts[i], strlen(texts[i]), 1));
	}
}

TEST(much_is_cut_and_escaped)
{
	char *text = NULL, name[2000];
	size_t len;
	FILE *out = open_memstream(&text, &len);
	json_t *stacks, *frames;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memcpy(name, "\033[2J\xff", 5);
	fputs("TID 1:\n", out);
	for (int i = 0; i < 1000; i++)
		fprintf(out, "#%d 0x1 %s\n", i, name);
	for (int i = 2; i < 100; i++)
		fprintf(out, "TID %d:\n#0 0x1 f\n", i);
	fclose(out);
	stacks = hvd_stack_parse_native(text, len, 1);
	free(text);
	assert_non_null(stacks);
	frames = json_object_get(stacks, "frames");
	assert_int_equal(json_array_size(frames), HVD_STACK_FRAMES);
	assert_int_equal(json_array_size(json_object_get(stacks, "threads")), HVD_STACK_THREADS);
	text = (char *)json_string_value(json_array_get(json_array_get(frames, 0), 0));
	assert_true(strlen(text) <= HVD_STACK_TEXT);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "\\x1b"));
	json_decref(stacks);
}

RUN_TESTS()
