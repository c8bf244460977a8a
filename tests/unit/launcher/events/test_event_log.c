/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a launch, as listeners and readers of the file get them; and files that cannot be written. */
#include "launcher/events/event_log.h"

#include "launcher/events/event_file.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <sys/wait.h>

static char folder[64], file[128], said[1024];

static void on_message(enum hvd_log_level level, const char *text, void *arg)
{
	snprintf(said, sizeof(said), "%s", text);
}

static const struct hvd_log warnings = {.level = HVD_LOG_WARN, .sink = on_message};

static int set_up(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/hvd-events-XXXXXX");
	said[0] = '\0';
	if (!mkdtemp(folder))
		return -1;
	snprintf(file, sizeof(file), "%s/events", folder);
	return 0;
}

static int tear_down(void **state)
{
	return remove_tree(folder);
}

/* Each line of the file, which is whole, in an array. The caller frees it. */
static json_t *lines_of(const char *path)
{
	json_t *all = json_array(), *one;
	char line[HVD_EVENT_LINE + 2];
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(line[strlen(line) - 1], '\n');
		one = json_loads(line, 0, NULL);
		assert_non_null(one);
		json_array_append_new(all, one);
	}
	fclose(f);
	return all;
}

static const char *name_of(const json_t *lines, size_t i)
{
	return json_string_value(json_object_get(json_array_get(lines, i), "name"));
}

static const json_t *field(const json_t *lines, size_t i, const char *key)
{
	return json_object_get(json_object_get(json_array_get(lines, i), "context"), key);
}

/* docs/events.md has a row for each event, with its fields as the code writes them. */
TEST(documented)
{
	char line[1024], want[1024];

	for (int e = 0; e < HVD_N_EVENTS; e++) {
		FILE *doc = fopen("docs/events.md", "r");
		char *fields = hvd_event_fields((enum hvd_event_name)e);
		bool found = false;

		if (!doc)
			skip_because("not run from the top of the repository");
		snprintf(want, sizeof(want), "| `%s` | ", hvd_event_name((enum hvd_event_name)e));
		while (!found && fgets(line, sizeof(line), doc)) {
			const char *last = strrchr(line, '|') ? strrchr(line, '|') : line;

			found = strncmp(line, want, strlen(want)) == 0;
			if (found) {
				snprintf(want, sizeof(want), "| %s |\n", fields);
				assert_true((size_t)(last - line) + 2 >= strlen(want));
				assert_string_equal(last + 2 - strlen(want), want);
			}
		}
		fclose(doc);
		free(fields);
		if (!found)
			fail_msg("docs/events.md lacks %s", hvd_event_name((enum hvd_event_name)e));
	}
}

/* Whatever others write: one line, valid JSON, short enough for one write into a pipe. */
TEST(texts_of_others)
{
	char line[HVD_EVENT_LINE + 1], text[5000];
	const struct hvd_event event = {.name = HVD_EV_RANK_ENDED,
					.at = hvd_now(),
					.host = text,
					.how = text,
					.cause = text,
					.error = text,
					.rank = INT64_MIN,
					.status = INT64_MIN,
					.generation = INT64_MIN};
	json_t *json;
	size_t n;

	for (int c = 1; c < 256; c++) {
		memset(text, c, sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		n = hvd_event_line(text, &event, line);
		assert_int_equal(n, strlen(line));
		assert_true(n <= PIPE_BUF);
		assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
		assert_null(strchr(line, '\x1b'));
		json = json_loads(line, 0, NULL);
		assert_non_null(json);
		json_decref(json);
	}
}

static void note_role(const struct hvd_event *event, void *arg)
{
	char line[HVD_EVENT_LINE + 1];
	const char **expected = arg;
	json_t *json;

	hvd_event_line("x", event, line);
	json = json_loads(line, 0, NULL);
	if (*expected)
		assert_string_equal(json_string_value(json_object_get(json_object_get(json, "context"), "role")),
				    *expected);
	else
		assert_null(json_object_get(json_object_get(json, "context"), "role"));
	json_decref(json);
}

/* What is about ranks has it, if their world has a name. */
TEST(the_role_of_ranks)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	const char *expected = "rollout/1";

	hvd_event_log_listen(events, note_role, &expected);
	hvd_event_log_world(events, 2, expected);
	hvd_event(events, GENERATION_BEGAN, .world = 2, .generation = 1);
	hvd_event(events, RANK_ENDED, .world = 2, .host = "n1");
	expected = NULL;
	hvd_event(events, RANK_ENDED, .host = "n1");
	hvd_event(events, HOST_LOST, .world = 2, .host = "n1");
	hvd_event_log_destroy(events);
}

static void count(const struct hvd_event *event, void *arg)
{
	int *seen = arg;

	seen[event->name]++;
	if (event->name == HVD_EV_INIT_BEGAN)
		assert_int_equal(event->generation, seen[HVD_EV_GENERATION_BEGAN]);
}

TEST(a_generation_has_some_events_once)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, NULL, NULL);
	int seen[HVD_N_EVENTS] = {0};

	hvd_event_log_listen(events, count, seen);
	for (int g = 1; g <= 2; g++) {
		hvd_event(events, GENERATION_BEGAN, .generation = g);
		for (int i = 0; i < 3; i++) {
			hvd_event(events, INIT_BEGAN, .index = 0);
			hvd_event(events, GENERATION_FAILED, .rank = i);
			hvd_event(events, GENERATION_ENDING, .why = "hosts have changed");
			hvd_event(events, RANK_ENDED, .rank = i);
		}
	}
	hvd_event(events, GENERATION_BEGAN, .generation = 3);
	hvd_event(events, GENERATION_ENDING, .why = "hosts have changed");
	hvd_event_log_destroy(events);
	assert_int_equal(seen[HVD_EV_INIT_BEGAN], 2);
	assert_int_equal(seen[HVD_EV_GENERATION_FAILED], 2);
	assert_int_equal(seen[HVD_EV_GENERATION_ENDING], 1);
	assert_int_equal(seen[HVD_EV_RANK_ENDED], 6);
	hvd_event(NULL, RANK_ENDED, .rank = 1); /* no log, no harm */
}

/* Two launches share a file, each line of which is whole. */
TEST(launches_share_a_file)
{
	struct hvd_event_log *a = hvd_event_log_create("a", file, &warnings, NULL);
	struct hvd_event_log *b = hvd_event_log_create("b", file, &warnings, NULL);
	json_t *lines;
	size_t of_a = 0;

	for (int i = 0; i < 1000; i++) {
		hvd_event(a, RANK_ENDED, .rank = i, .host = "n1", .how = "exit code 0");
		hvd_event(b, HOST_LOST, .host = "n\x1b[1m", .why = "a \"reason\"\n");
	}
	hvd_event_log_destroy(a);
	hvd_event_log_destroy(b);
	assert_string_equal(said, "");
	lines = lines_of(file);
	assert_int_equal(json_array_size(lines), 2000);
	for (size_t i = 0; i < 2000; i++) {
		bool is_a = strcmp(json_string_value(field(lines, i, "launch")), "a") == 0;

		if (is_a)
			assert_int_equal(json_integer_value(field(lines, i, "rank")), of_a++);
		else
			assert_string_equal(json_string_value(field(lines, i, "host")), "n\\x1b[1m");
	}
	json_decref(lines);
}

TEST(a_full_disk_loses_events_and_counts_them)
{
	struct hvd_event_log *events = hvd_event_log_create("x", "/dev/full", &warnings, NULL);

	for (int i = 0; i < 5; i++)
		hvd_event(events, HOST_HERE, .host = "n1");
	hvd_event_log_destroy(events);
	assert_in(said, "5 events could not be written to /dev/full (--events): No space left on device");
}

TEST(a_folder_that_is_not_there_is_an_error)
{
	struct hvd_err err = {0};

	assert_null(hvd_event_log_create("x", "/nowhere/events", &warnings, &err));
	assert_string_equal(err.msg, "--events /nowhere/events cannot be written: No such file or directory");
	assert_int_equal(err.code, HVD_E_USAGE);
}

/* A file that is as long as it may be gets one line more, which says how many are missing. */
TEST(a_file_is_bounded)
{
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	struct hvd_event_log *events;
	char tail[256] = "";

	assert_int_equal(ftruncate(fd, HVD_EVENT_FILE_MAX - 10), 0);
	close(fd);
	events = hvd_event_log_create("x", file, &warnings, NULL);
	for (int i = 0; i < 7; i++)
		hvd_event(events, HOST_HERE, .host = "n1");
	hvd_event_log_destroy(events);
	assert_in(said, "7 events could not be written");
	assert_in(said, "File too large");
	fd = open(file, O_RDONLY);
	assert_true(pread(fd, tail, sizeof(tail) - 1, HVD_EVENT_FILE_MAX - 10) > 0);
	close(fd);
	assert_in(tail, "\"events-lost\"");
	assert_in(tail, "\"count\":7");
}

/* A FIFO that nobody reads at first, and then somebody who takes nothing: the launch goes on, and what was read says how
 * much is missing. */
TEST(a_fifo_holds_nobody_up)
{
	struct hvd_event_log *events;
	const hvd_time began = hvd_now();
	unsigned long long lost = 0, n = 0;
	char line[HVD_EVENT_LINE + 2];
	json_t *one;
	FILE *f;
	int fd;

	assert_int_equal(mkfifo(file, 0600), 0);
	events = hvd_event_log_create("x", file, &warnings, NULL);
	hvd_event(events, HOST_HERE, .host = "n1");
	fd = open(file, O_RDONLY | O_NONBLOCK);
	for (int i = 0; i < 100000; i++)
		hvd_event(events, RANK_ENDED, .rank = i, .host = "n1", .how = "exit code 0");
	assert_true(hvd_now() - began < 20 * INT64_C(1000000000));
	f = fdopen(fd, "r");
	while (fgets(line, sizeof(line), f)) {
		one = json_loads(line, 0, NULL);
		assert_non_null(one);
		if (strcmp(json_string_value(json_object_get(one, "name")), "events-lost") == 0)
			lost += (unsigned long long)json_integer_value(
				json_object_get(json_object_get(one, "context"), "count"));
		else
			n++;
		json_decref(one);
	}
	assert_true(n > 0 && n + lost <= 100001);
	hvd_event_log_destroy(events);
	assert_in(said, "events");
	fclose(f);
}

/* SIGKILL of the launch: what it has added is written, and no line is cut. */
TEST(a_killed_launch_leaves_whole_lines)
{
	json_t *lines;
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct hvd_event_log *events = hvd_event_log_create("x", file, &warnings, NULL);

		for (int i = 0; i < 2000; i++)
			hvd_event(events, RANK_ENDED, .rank = i, .host = "n1");
		close(ready[0]);
		raise(SIGKILL);
	}
	close(ready[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	for (int tries = 0; tries < 1000; tries++) {
		lines = access(file, R_OK) == 0 ? lines_of(file) : json_array();
		if (json_array_size(lines) == 2000)
			break;
		json_decref(lines);
		usleep(10000);
	}
	assert_int_equal(json_array_size(lines), 2000);
	assert_string_equal(name_of(lines, 1999), "rank-ended");
	json_decref(lines);
}

RUN_TESTS(.setup = set_up, .teardown = tear_down, .no_sigpipe = true)
