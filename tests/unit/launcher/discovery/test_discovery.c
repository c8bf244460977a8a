/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of hosts that need no scheduler, with real scripts; and what all sources share. */
#include "launcher/discovery/discovery_kind.h"
#include "lib/base/xalloc.h"
#include "tests/standins/old_kernel.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <fcntl.h>

extern char **environ;

/* A folder for a script and its files, and a record of what was told. */
struct world {
	struct event_base *base;
	struct hvd_discovery *source;
	char dir[64], script[128];
	char told[1024]; /* "hosts a:1|leaving b 3|…" */
	struct hvd_err failure;
	int stop_after; /* so many calls; 0 = never */
	bool destroy;   /* from within the callback */
	int fds;
	struct hvd_log log;
	int log_fd;
};

static void note(struct world *w, const char *text)
{
	size_t len = strlen(w->told);

	snprintf(w->told + len, sizeof(w->told) - len, "%s%s", len ? "|" : "", text);
	if (w->destroy) {
		hvd_discovery_destroy(w->source);
		w->source = NULL;
	}
	if (w->stop_after && --w->stop_after == 0)
		event_base_loopbreak(w->base);
}

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	char text[256] = "hosts";
	size_t at = strlen(text);

	for (int i = 0; i < hosts->n_hosts; i++) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, " %s:%d", hosts->hosts[i].name,
				       hosts->hosts[i].slots);
		if (hosts->hosts[i].slurm_job)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "@%u", hosts->hosts[i].slurm_job);
	}
	note(arg, text);
}

static void on_leaving(const char *host, double seconds, void *arg)
{
	char text[256];

	snprintf(text, sizeof(text), "leaving %s %.0f", host, seconds);
	note(arg, text);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct world *w = arg;

	w->failure = *why;
	note(w, "failed");
}

static const struct hvd_discovery_ops ops = {on_hosts, on_leaving, on_failed};

SETUP(begin, struct world, w)
{
	char path[128];

	w->fds = open_fds();
	snprintf(w->dir, sizeof(w->dir), "/tmp/hvd-source-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->script, sizeof(w->script), "%s/script", w->dir);
	snprintf(path, sizeof(path), "%s/log", w->dir);
	w->log_fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	w->log = hvd_log_make("test", HVD_LOG_INFO);
	w->log.fd = w->log_fd;
	w->base = event_base_new();
}

TEARDOWN(end, struct world, w)
{
	hvd_discovery_destroy(w->source);
	event_base_free(w->base);
	close(w->log_fd);
	assert_int_equal(open_fds(), w->fds);
	assert_int_equal(remove_tree(w->dir), 0);
}

/* What was logged. */
static const char *logged(struct world *w)
{
	static char text[4096];
	ssize_t n = pread(w->log_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* $D is the folder. */
static void write_script(struct world *w, const char *body)
{
	FILE *f = fopen(w->script, "w");

	assert_non_null(f);
	fprintf(f, "#!/bin/sh\nD=%s\n%s\n", w->dir, body);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(w->script, 0700), 0);
}

/* Until the callback breaks the loop. Scripts need real time, in which ten times as much passes here. */
static void dispatch(struct world *w)
{
	const time_t begun = time(NULL);

	do {
		usleep(1000);
		test_clock_pass(w->base, 0.01);
		assert_true(time(NULL) - begun < 40);
	} while (!event_base_got_break(w->base));
	assert_int_equal(w->stop_after, 0);
}

static void run_script(struct world *w, const char *command, int slots, int calls)
{
	struct hvd_discovery_opts opts = {
		.from = HVD_DISCOVER_SCRIPT, .script = hvd_xstrdup(command), .slots_per_host = slots, .envp = environ};

	w->stop_after = calls;
	w->source = hvd_discovery_create(w->base, &opts, &ops, w, &w->log, NULL);
	assert_non_null(w->source);
	assert_string_equal(w->told, "");
	hvd_discovery_opts_clear(&opts);
	dispatch(w);
}

TEST_IN(fixed_hosts_are_told_once, struct world *w)
{
	struct hvd_discovery_opts opts = {.from = HVD_DISCOVER_HOSTS};

	hvd_alloc_add(&opts.hosts, "a", 2, NULL);
	hvd_alloc_add(&opts.hosts, "b", 1, NULL);
	w->source = hvd_discovery_create(w->base, &opts, &ops, w, &w->log, NULL);
	hvd_discovery_opts_clear(&opts);
	event_base_dispatch(w->base); /* ends: nothing is waited for */
	assert_string_equal(w->told, "hosts a:2 b:1");
	hvd_discovery_nudge(w->source);
}

TEST_IN(script_tells_changes_only, struct world *w)
{
	write_script(w, "echo x >>$D/runs\n"
			"case $(wc -l <$D/runs) in\n"
			"1|2) printf 'a:2\\n\\n b \\r\\n' ;;\n" /* blank line, spaces, and slots from the option */
			"3) printf 'b:3\\na:2\\n' ;;\n"         /* order is kept */
			"*) printf 'c\\nb:0\\na:2\\na:4\\n' ;;\n"
			"esac");
	run_script(w, w->script, 3, 2);
	assert_string_equal(w->told, "hosts a:2 b:3|hosts a:4 c:3");
}

/* As often as asked for, though a heavy script would run more seldom by itself. The clock of tests runs fast, and a script's
 * time limit with it. */
TEST_IN(script_runs_as_often_as_asked, struct world *w)
{
	struct hvd_discovery_opts opts = {
		.from = HVD_DISCOVER_SCRIPT, .envp = environ, .interval = 0.1, .time_limit = 1000};
	hvd_time before = hvd_now();

	write_script(w, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done\n"
			"echo x >>$D/runs; echo a:$(wc -l <$D/runs)");
	opts.script = w->script;
	w->stop_after = 4;
	w->source = hvd_discovery_create(w->base, &opts, &ops, w, &w->log, NULL);
	dispatch(w);
	assert_string_equal(w->told, "hosts a:1|hosts a:2|hosts a:3|hosts a:4");
	assert_true(hvd_now() - before >= INT64_C(300000000));
}

TEST_IN(first_failure_is_fatal, struct world *w)
{
	write_script(w, "echo a; exit 3");
	run_script(w, w->script, 0, 1);
	assert_string_equal(w->told, "failed");
	assert_in(w->failure.msg, w->script);
	assert_in(w->failure.msg, "exit code 3");
	assert_in(w->failure.hint, "host:slots");
}

TEST_IN(bad_line_is_named, struct world *w)
{
	write_script(w, "echo a:2; echo; echo 'b: c'");
	run_script(w, w->script, 0, 1);
	assert_string_equal(w->told, "failed");
	assert_in(w->failure.msg, "line 3 of its output");
}

TEST_IN(later_failures_are_retried, struct world *w)
{
	write_script(w, "echo x >>$D/runs\n"
			"case $(wc -l <$D/runs) in\n"
			"1) echo a ;;\n"
			"2|3) exit 1 ;;\n"
			"*) echo b ;;\n"
			"esac");
	run_script(w, w->script, 0, 2);
	assert_string_equal(w->told, "hosts a:1|hosts b:1");
	assert_in(logged(w), "keeping the hosts known so far");
	assert_in(logged(w), "exit code 1");
	assert_in(logged(w), "discovery works again");
	/* Said once. */
	assert_null(strstr(strstr(logged(w), "exit code 1") + 1, "exit code 1"));
}

TEST_IN(a_command_line_goes_through_the_shell, struct world *w)
{
	run_script(w, "echo a:1 && echo b:2 | cat", 0, 1);
	assert_string_equal(w->told, "hosts a:1 b:2");
}

TEST_IN(a_script_without_a_program_is_told, struct world *w)
{
	run_script(w, w->script, 0, 1);
	assert_string_equal(w->told, "failed");
	assert_in(w->failure.msg, "exit code 127");
}

/* Its child holds its stdout for a minute; that is not waited for, and the child is gone when the source is told of. */
TEST_IN(what_a_script_leaves_is_killed, struct world *w)
{
	char path[128], text[32] = "";
	int fd;

	write_script(w, "sleep 60 & echo $! >$D/pid; echo a");
	run_script(w, w->script, 0, 1);
	assert_string_equal(w->told, "hosts a:1");
	snprintf(path, sizeof(path), "%s/pid", w->dir);
	fd = open(path, O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	/* Killed, and at most a zombie that init has not reaped yet. */
	for (int i = 0; i < 200 && kill((pid_t)strtol(text, NULL, 10), 0) == 0; i++)
		usleep(10000);
	snprintf(path, sizeof(path), "/proc/%ld/cmdline", strtol(text, NULL, 10));
	fd = open(path, O_RDONLY);
	assert_true(fd < 0 || read(fd, text, 1) == 0);
	if (fd >= 0)
		close(fd);
}

TEST_IN(a_flood_is_cut, struct world *w)
{
	run_script(w, "yes hosthosthosthost", 0, 1);
	assert_string_equal(w->told, "failed");
	assert_in(w->failure.msg, "more than a megabyte");
}

TEST_IN(a_script_that_hangs_is_killed, struct world *w)
{
	struct hvd_discovery_opts opts = {.from = HVD_DISCOVER_SCRIPT, .envp = environ, .time_limit = 0.2};

	write_script(w, "trap '' TERM; sleep 60; echo a");
	opts.script = w->script;
	w->stop_after = 1;
	w->source = hvd_discovery_create(w->base, &opts, &ops, w, &w->log, NULL);
	dispatch(w);
	assert_string_equal(w->told, "failed");
	assert_in(w->failure.msg, "did not end in time");
}

/* One that hangs goes with the source. */
TEST_IN(ends_with_a_script_under_way, struct world *w)
{
	struct hvd_discovery_opts opts = {
		.from = HVD_DISCOVER_SCRIPT, .script = hvd_xstrdup("sleep 60"), .envp = environ};
	const time_t begun = time(NULL);

	w->source = hvd_discovery_create(w->base, &opts, &ops, w, &w->log, NULL);
	hvd_discovery_opts_clear(&opts);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	hvd_discovery_destroy(w->source);
	w->source = NULL;
	assert_true(time(NULL) - begun < 40);
	assert_string_equal(w->told, "");
}

TEST_IN(may_be_destroyed_from_within, struct world *w)
{
	w->destroy = true;
	run_script(w, "echo a", 0, 1);
	assert_string_equal(w->told, "hosts a:1");
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

/* ---- what all share: views put in by hand ---- */

static struct hvd_discovery_opts none = {.from = HVD_DISCOVER_HOSTS};

static void look(struct world *w, const char *hosts, const uint32_t *jobs, const char *leaving)
{
	struct hvd_slurm_hosts_leaving going = {(char *)leaving, 5};
	struct hvd_slurm_hosts found = {.leaving = &going, .n_leaving = leaving != NULL};

	if (*hosts)
		assert_int_equal(hvd_alloc_from_hosts(&found.hosts, hosts, 1, NULL), 0);
	for (int i = 0; i < found.hosts.n_hosts; i++)
		found.hosts.hosts[i].slurm_job = jobs[i];
	w->told[0] = '\0';
	hvd_discovery_found(w->source, &found);
	hvd_alloc_clear(&found.hosts);
}

TEST_IN(order_jobs_and_leaving, struct world *w)
{
	static const uint32_t one[] = {1, 1, 2}, moved[] = {1, 3, 3};

	w->source = hvd_discovery_create(w->base, &none, &ops, w, &w->log, NULL);
	look(w, "", NULL, NULL);
	assert_string_equal(w->told, "hosts");
	look(w, "", NULL, NULL);
	assert_string_equal(w->told, "");
	look(w, "a:1,b:2,c:1", one, NULL);
	assert_string_equal(w->told, "hosts a:1@1 b:2@1 c:1@2");
	/* Another order is no change. */
	look(w, "b:2,a:1,c:1", one, NULL);
	assert_string_equal(w->told, "");
	/* c's job ended, and another has got it: c goes and comes. */
	look(w, "a:1,c:1,d:1", moved, NULL);
	assert_string_equal(w->told, "hosts a:1@1 d:1@3|hosts a:1@1 d:1@3 c:1@3");
	/* Said once, and only of hosts in use. */
	look(w, "a:1,c:1", moved, "d");
	assert_string_equal(w->told, "leaving d 5|hosts a:1@1 c:1@3");
	look(w, "a:1,c:1", moved, "d");
	assert_string_equal(w->told, "");
	look(w, "a:1,c:1", moved, "x");
	assert_string_equal(w->told, "");
}

/* The last test: there is no way back. */
TEST_IN(on_an_old_kernel_a_script_ends_too, struct world *w)
{
	assert_int_equal(old_kernel_begin(), 0);
	what_a_script_leaves_is_killed_in(w);
}

RUN_TESTS(.setup = begin, .teardown = end)
