/* SPDX-License-Identifier: Apache-2.0 */
/* The page of --report and --report-of: what is kept, that no text leaves its place, and that launch and file agree. */
#include "launcher/report/html_report.h"

#include "launcher/report/event_store.h"
#include "launcher/report/html_page.h"
#include "launcher/report/report_command.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/printable.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/wait.h>

#define HOSTILE                                                                                                        \
	"</script><script>alert(1)</script> <!-- --> &lt; ' \" \\ \x01\x1b[1m \xe2\x80\xa8 \xe2\x80\xa9 \xc3\xa9 \xff"

static char folder[64], said[1024];

static void on_message(enum hvd_log_level level, const char *text, void *arg)
{
	snprintf(said, sizeof(said), "%s", text);
}

static const struct hvd_log warnings = {.level = HVD_LOG_WARN, .sink = on_message};

static int set_up(void **state)
{
	said[0] = '\0';
	snprintf(folder, sizeof(folder), "/tmp/hvd-report-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	return remove_tree(folder);
}

static const char *in(const char *name)
{
	static char paths[4][128];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
	return paths[turn];
}

static char *contents(const char *path)
{
	struct hvd_err err = {0};
	size_t len;
	char *text = hvd_read_file(path, 128 << 20, "the page", &len, &err);

	if (!text)
		fail_msg("%s", err.msg);
	return text;
}

/* The events in a page, as its script gets them, once nothing in them can be anything but text. The caller frees it. */
static json_t *events_of(const char *page)
{
	static const char begin[] = "<script type=\"application/json\" id=\"events\">";
	const char *from = strstr(page, begin), *to;
	json_t *data;

	assert_non_null(from);
	from += strlen(begin);
	to = strchr(from, '<');
	assert_non_null(to);
	assert_int_equal(strncmp(to, "</script>", 9), 0);
	for (const char *p = from; p < to; p++)
		assert_true(*p == '\n' || (*p >= 0x20 && *p < 0x7f && *p != '>' && *p != '&'));
	data = json_loadb(from, (size_t)(to - from), 0, NULL);
	assert_non_null(data);
	return data;
}

static json_t *launch(const json_t *data, size_t i)
{
	return json_array_get(json_object_get(data, "launches"), i);
}

static const char *text_at(const json_t *of, size_t i, const char *field)
{
	const json_t *event = json_array_get(json_object_get(of, "events"), i);

	return json_string_value(json_object_get(json_array_get(event, 2), field));
}

static json_t *stored(const struct hvd_event_store *store)
{
	size_t len;
	hvd_cleanup_free char *page = hvd_html_page(store, &len);

	assert_int_equal(len, strlen(page));
	return events_of(page);
}

static bool add(struct hvd_event_store *store, const char *line)
{
	return hvd_event_store_add(store, line, strlen(line));
}

static size_t add_numbered(struct hvd_event_store *store, const char *name, int time, int number)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "{\"timestamp\":%d.25,\"name\":\"%s\",\"context\":{\"launch\":\"x\",\"rank\":%d}}\n", time, name,
		 number);
	return add(store, line);
}

/* ---- the launch, and its file ---- */

static void a_launch(const char *name, const char *events_file, const char *page)
{
	struct hvd_event_log *events = hvd_event_log_create(name, events_file, &warnings, NULL);
	struct hvd_html_report *report = hvd_html_report_create(events, page, &warnings);

	hvd_event(events, LAUNCH_BEGAN, .version = "1", .backend = "ssh", .command = "hvdrun " HOSTILE, .job = 17);
	for (uint32_t h = 0; h < 3; h++)
		hvd_event(events, HOST_HERE, .index = h, .host = HOSTILE);
	hvd_event(events, GENERATION_BEGAN, .generation = 1, .ranks = 8, .hosts = "n[1-3]");
	hvd_event(events, INIT_DONE, .index = 0);
	hvd_event(events, HOST_USAGE, .host = "n1", .ranks = 8, .cpu = 7900, .memory = INT64_C(1) << 40, .gpu = -1);
	for (int r = 0; r < 8; r++)
		hvd_event(events, RANK_ENDED, .rank = r, .host = "n1", .status = 1, .how = HOSTILE, .error = HOSTILE);
	hvd_event(events, FIRST_FAILURE, .host = "n1", .why = HOSTILE, .lines = "Traceback\n  " HOSTILE);
	hvd_event(events, LAUNCH_ENDED, .status = 1);
	hvd_event_log_destroy(events);
	hvd_html_report_destroy(report);
	assert_string_equal(said, "");
}

TEST(a_launch_and_its_file_have_the_same_page)
{
	hvd_cleanup_free char *page = NULL, *again = NULL;
	char shown[4 * sizeof(HOSTILE)];
	struct hvd_err err = {0};
	struct stat st;
	json_t *data;

	a_launch("x" HOSTILE, in("events"), in("page.html"));
	assert_int_equal(hvd_report_command(in("events"), in("again.html"), NULL, &err), 0);
	page = contents(in("page.html"));
	again = contents(in("again.html"));
	assert_string_equal(page, again);
	assert_int_equal(stat(in("page.html"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	data = events_of(page);
	assert_int_equal(json_array_size(json_object_get(launch(data, 0), "events")), 17);
	hvd_printable("Traceback\n  " HOSTILE, shown, sizeof(shown));
	assert_string_equal(text_at(launch(data, 0), 15, "lines"), shown);
	hvd_printable(HOSTILE, shown, sizeof(shown));
	assert_string_equal(text_at(launch(data, 0), 15, "why"), shown);
	json_decref(data);
}

static void write_text(const char *path, const char *text)
{
	assert_int_equal(hvd_write_file(path, "it", text, strlen(text), 0, 0600, NULL), 0);
}

static size_t n_launches(const json_t *data)
{
	return json_array_size(json_object_get(data, "launches"));
}

/* As a file of events does; what is there is kept by the page's text alone. */
TEST(launches_that_share_a_page_are_all_in_it)
{
	static const char *const names[] = {("x" HOSTILE), "y:1", "z:1"};
	hvd_cleanup_free char *page = NULL, *again = NULL;
	struct hvd_err err = {0};

	write_text(in("page.html"), "this is no page\n");
	for (size_t i = 0; i < 3; i++)
		a_launch(names[i], in("events"), in("page.html"));
	assert_int_equal(hvd_report_command(in("events"), in("again.html"), NULL, &err), 0);
	page = contents(in("page.html"));
	again = contents(in("again.html"));
	assert_string_equal(page, again);
	assert_int_equal(access(in("page.html.lock"), F_OK), -1);
}

/* Two processes of a host may have one number, and launches are called by it. */
TEST(launches_of_one_name_are_kept_apart)
{
	hvd_cleanup_free char *page = NULL;
	json_t *data;

	a_launch("h:17", NULL, in("page.html"));
	a_launch("h:17", NULL, in("page.html"));
	page = contents(in("page.html"));
	data = events_of(page);
	assert_int_equal(n_launches(data), 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(json_array_size(json_object_get(launch(data, i), "events")), 17);
	json_decref(data);
}

/* In a process: the page of a launch with so many events is made, and added to the others. */
static int add_in_child(int n)
{
	struct hvd_event_store *store = hvd_event_store_create();
	char line[128];
	int rc;

	snprintf(line, sizeof(line), "{\"timestamp\":1,\"name\":\"a\",\"context\":{\"launch\":\"%d\"}}", n);
	for (int i = 0; i < 200; i++)
		add(store, line);
	rc = hvd_html_page_add(store, in("page.html"), NULL);
	hvd_event_store_destroy(store);
	return rc;
}

TEST(launches_that_end_at_the_same_time_are_all_in_the_page)
{
	hvd_cleanup_free char *page = NULL;
	pid_t children[12];
	int status;
	json_t *data;

	for (int i = 0; i < 12; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0)
			_exit(add_in_child(i) != 0);
	}
	for (int i = 0; i < 12; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	page = contents(in("page.html"));
	data = events_of(page);
	assert_int_equal(n_launches(data), 12);
	json_decref(data);
	assert_int_equal(access(in("page.html.lock"), F_OK), -1);
}

/* A page may be anybody's text, when it is read to be added to. */
TEST(a_text_that_is_none_adds_nothing)
{
	static const char text[] =
		"[1,\"early\",{}]\n{\"launch\":7,\"events\":[\n{\"launch\":\"a\",\"left_out\":-3,\"events\":[\n"
		"[1,\"b\",{\"host\":\"</script>\"}]\n,[1,\"b\"]\n[]\n[[[[\n,[\"1\",\"b\",{}]\n]}\n,\n\n],\"older\":\n"
		"],\"older\":2,\"malformed\":3}\n{\"launch\":\"cut";
	struct hvd_event_store *store = hvd_event_store_create();
	json_t *data;

	hvd_event_store_add_text(store, text, sizeof(text) - 1);
	data = stored(store);
	assert_int_equal(n_launches(data), 1);
	assert_int_equal(json_array_size(json_object_get(launch(data, 0), "events")), 1);
	assert_string_equal(text_at(launch(data, 0), 0, "host"), "</script>");
	assert_int_equal(json_integer_value(json_object_get(launch(data, 0), "left_out")), 0);
	assert_int_equal(json_integer_value(json_object_get(data, "older")), 2);
	assert_int_equal(json_integer_value(json_object_get(data, "malformed")), 3);
	json_decref(data);
	hvd_event_store_destroy(store);
}

/* Nothing is asked of the network, and only the page's own script runs. */
TEST(the_policy_of_the_page)
{
	struct hvd_event_store *store = hvd_event_store_create();
	size_t len;
	hvd_cleanup_free char *page = hvd_html_page(store, &len);
	const char *script;

	assert_in(page,
		  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-");
	assert_null(strstr(page, "@SCRIPT@"));
	assert_null(strstr(page, "@EVENTS@"));
	assert_null(strstr(page, "innerHTML"));
	assert_null(strstr(page, "src="));
	assert_null(strstr(page, "href="));
	assert_null(strstr(page, "url("));
	script = strstr(page, "<script>");
	assert_non_null(script);
	assert_null(strstr(script + 1, "<script>"));
	hvd_event_store_destroy(store);
}

TEST(a_page_that_cannot_be_written_is_a_warning)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, &warnings, NULL);
	struct hvd_html_report *report = hvd_html_report_create(events, "/nowhere/page.html", &warnings);

	hvd_event(events, LAUNCH_ENDED, .status = 0);
	assert_string_equal(said, "cannot write the report /nowhere/page.html: No such file or directory (--report)");
	hvd_event_log_destroy(events);
	hvd_html_report_destroy(report);
}

/* It is there while the launch goes on, whole. */
TEST(a_hang_has_its_page_at_once)
{
	struct hvd_event_log *events = hvd_event_log_create("x", NULL, &warnings, NULL);
	struct hvd_html_report *report = hvd_html_report_create(events, in("page.html"), &warnings);
	hvd_cleanup_free char *page = NULL;
	json_t *data;

	hvd_event(events, HANG, .seconds = 600, .why = "no rank has made progress for 600 s");
	hvd_event(events, STACK_GROUP, .count = 1, .members = "7", .where = "read (loader.py:88)", .stack = "a\nb");
	assert_int_equal(access(in("page.html"), F_OK), -1);
	hvd_event(events, HANG_ACTION, .why = "the job goes on");
	for (int tries = 0; tries < 2000 && access(in("page.html"), F_OK) != 0; tries++)
		usleep(10000);
	page = contents(in("page.html"));
	data = events_of(page);
	assert_string_equal(text_at(launch(data, 0), 1, "stack"), "a\nb");
	assert_int_equal(json_array_size(json_object_get(launch(data, 0), "events")), 3);
	json_decref(data);
	free(page);
	hvd_event(events, LAUNCH_ENDED, .status = 1);
	page = contents(in("page.html"));
	data = events_of(page);
	assert_int_equal(n_launches(data), 1);
	assert_int_equal(json_array_size(json_object_get(launch(data, 0), "events")), 4);
	json_decref(data);
	hvd_event_log_destroy(events);
	hvd_html_report_destroy(report);
}

/* ---- a file of others ---- */

TEST(lines_that_are_no_events_are_counted)
{
	static const char *const bad[] = {
		"",
		"x",
		"[]",
		"{}",
		"{\"timestamp\":1,\"name\":\"a\"}",
		"{\"timestamp\":-1,\"name\":\"a\",\"context\":{}}",
		"{\"timestamp\":1e300,\"name\":\"a\",\"context\":{}}",
		"{\"timestamp\":\"1\",\"name\":\"a\",\"context\":{}}",
		"{\"timestamp\":1,\"name\":7,\"context\":{}}",
		"{\"timestamp\":1,\"name\":\"a\",\"context\":[]}",
		"{\"timestamp\":1,\"name\":\"a\",\"context\":{\"host\":\"\\u0000\"}}",
		"{\"timestamp\":1,\"name\":\"a\",\"context\":{\"host\":\"\\ud800\"}}",
		"{\"timestamp\":1,\"timestamp\":2,\"name\":\"a\",\"context\":{}}",
		"{\"timestamp\":1,\"name\":\"a\",\"context\":{\"host\":\"cut",
	};
	struct hvd_event_store *store = hvd_event_store_create();
	json_t *data;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(add(store, bad[i]));
	assert_int_equal(hvd_event_store_count(store), 0);
	/* A later release may know more: what is no text, number or truth is left out. */
	assert_true(
		add(store,
		    "{\"timestamp\":1,\"name\":\"later\",\"more\":1,\"context\":{\"launch\":\"x\",\"a\":[1],\"b\":{},"
		    "\"c\":null,\"__proto__\":\"p\",\"d\":true,\"e\":1.5}}"));
	data = stored(store);
	assert_int_equal(json_integer_value(json_object_get(data, "malformed")), sizeof(bad) / sizeof(bad[0]));
	assert_int_equal(
		json_object_size(json_array_get(json_array_get(json_object_get(launch(data, 0), "events"), 0), 2)), 2);
	json_decref(data);
	hvd_event_store_destroy(store);
}

TEST(a_file_that_is_none_is_refused)
{
	struct hvd_err err = {0};

	write_text(in("other"), "this\nis\nsomething else\n");
	assert_fails_with(hvd_report_command(in("other"), in("page"), NULL, &err), err, HVD_E_USAGE,
			  "has no events of a launch");
	write_text(in("empty"), "");
	assert_fails_with(hvd_report_command(in("empty"), in("page"), NULL, &err), err, HVD_E_USAGE,
			  "has no events of a launch");
	assert_fails_with(hvd_report_command(in("nothing"), in("page"), NULL, &err), err, HVD_E_USAGE,
			  "cannot be read: No such file or directory");
	assert_fails_with(hvd_report_command(folder, in("page"), NULL, &err), err, HVD_E_USAGE,
			  "cannot be read: Is a directory");
	assert_int_equal(access(in("page"), F_OK), -1);
}

/* Lines of any length, and one without its end: a launch may be writing it. */
TEST(long_lines_are_skipped)
{
	hvd_cleanup_free char *text = calloc(1, 200000), *page = NULL;
	struct hvd_err err = {0};
	json_t *data;

	strcpy(text, "{\"timestamp\":1,\"name\":\"a\",\"context\":{\"host\":\"");
	memset(text + strlen(text), 'h', 100000);
	strcat(text, "\"}}\n\n{\"timestamp\":2,\"name\":\"b\",\"context\":{}}\n{\"timestamp\":3,\"name\":\"c\","
		     "\"context\":{}}\n{\"timest");
	write_text(in("events"), text);
	assert_int_equal(hvd_report_command(in("events"), in("page"), NULL, &err), 0);
	page = contents(in("page"));
	data = events_of(page);
	assert_int_equal(json_array_size(json_object_get(launch(data, 0), "events")), 2);
	assert_int_equal(json_integer_value(json_object_get(data, "malformed")), 2);
	json_decref(data);
}

/* ---- bounds ---- */

static size_t count_of(const json_t *of, const char *name, json_int_t *first, json_int_t *last)
{
	size_t i, n = 0;
	json_t *event;

	json_array_foreach(json_object_get(of, "events"), i, event)
	{
		if (strcmp(json_string_value(json_array_get(event, 1)), name) != 0)
			continue;
		*last = json_integer_value(json_object_get(json_array_get(event, 2), "rank"));
		if (n++ == 0)
			*first = *last;
	}
	return n;
}

TEST(of_very_many_events_the_first_and_the_last_are_kept)
{
	enum {
		ENDS = 100000,
		RESTARTS = 20000
	};

	struct hvd_event_store *store = hvd_event_store_create();
	json_int_t first, last;
	json_t *data;

	for (int i = 0; i < ENDS; i++) {
		assert_true(add_numbered(store, "rank-ended", 1000 + i, i));
		if (i < RESTARTS)
			assert_true(add_numbered(store, "restart", 1000 + i, i));
	}
	data = stored(store);
	assert_int_equal(count_of(launch(data, 0), "rank-ended", &first, &last), 32768);
	assert_int_equal(first, 0);
	assert_int_equal(last, ENDS - 1);
	assert_int_equal(count_of(launch(data, 0), "restart", &first, &last), 8192);
	assert_int_equal(last, RESTARTS - 1);
	assert_int_equal(json_integer_value(json_object_get(launch(data, 0), "left_out")),
			 ENDS - 32768 + RESTARTS - 8192);
	json_decref(data);
	hvd_event_store_destroy(store);
}

/* Usage is kept over the whole time, and less often; so much of one minute that none of it can go is left out. */
TEST(usage_is_thinned_over_time)
{
	struct hvd_event_store *store = hvd_event_store_create();
	json_int_t first, last;
	json_t *data;
	size_t n;

	for (int minute = 0; minute < 1000; minute++)
		for (int host = 0; host < 100; host++)
			assert_true(add_numbered(store, "host-usage", 60 * minute, minute));
	data = stored(store);
	n = count_of(launch(data, 0), "host-usage", &first, &last);
	assert_int_in_range(n, 8192, 32768);
	assert_int_equal(n % 100, 0);
	assert_int_equal(first, 0);
	assert_int_in_range(last, 990, 999);
	json_decref(data);
	for (int i = 0; i < 40000; i++)
		assert_true(add_numbered(store, "host-usage", 0, 1));
	data = stored(store);
	assert_int_in_range(count_of(launch(data, 0), "host-usage", &first, &last), 1, 32768);
	json_decref(data);
	hvd_event_store_destroy(store);
}

TEST(of_many_launches_the_last_ones_are_kept)
{
	struct hvd_event_store *store = hvd_event_store_create();
	char line[128];
	json_t *data;

	for (int i = 0; i < 100; i++) {
		snprintf(line, sizeof(line),
			 "{\"timestamp\":%d,\"name\":\"launch-began\",\"context\":{\"launch\":\"17.%d\"}}", i, i);
		assert_true(add(store, line));
	}
	data = stored(store);
	assert_int_equal(n_launches(data), 64);
	assert_string_equal(json_string_value(json_object_get(launch(data, 63), "launch")), "17.99");
	assert_int_equal(json_integer_value(json_object_get(data, "older")), 36);
	json_decref(data);
	hvd_event_store_destroy(store);
}

RUN_TESTS(.setup = set_up, .teardown = tear_down, .no_sigpipe = true)
