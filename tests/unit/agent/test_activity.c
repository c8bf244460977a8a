/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks make progress: this process stands for the node agent, and its children are the ranks. */
#include "agent/agent.h"
#include "lib/base/deadline.h"
#include "lib/process/procfs.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EVERY 0.15

struct world {
	struct hvd_agent agent;
	struct hvd_agent **activity, **scan; /* the features' states, which begin so */
	json_t *last;                        /* what was told */
	int told, told_as_idle;
};

/* In place of the agent's own. */
void hvd_driver_client_send(struct hvd_driver_client *driver, json_t *msg)
{
	struct world *w = (struct world *)driver;

	json_decref(w->last);
	w->last = msg;
	w->told++;
	w->told_as_idle += json_number_value(json_object_get(msg, "idle")) > 0;
}

static double told_idle(const struct world *w)
{
	return json_number_value(json_object_get(w->last, "idle"));
}

static double told_quiet(const struct world *w)
{
	return json_number_value(json_object_get(w->last, "quiet"));
}

static void run(struct world *w, double seconds)
{
	hvd_time end = hvd_deadline_in(seconds);

	while (hvd_left(end) > 0) {
		struct timeval tv = hvd_left_tv(end);

		event_base_loopexit(w->agent.base, &tv);
		event_base_dispatch(w->agent.base);
	}
}

/* Until idle or not is told. False: it was not within some seconds. */
static bool comes(struct world *w, bool idle)
{
	for (int i = 0; i < 100; i++) {
		if (w->last && (told_idle(w) > 0) == idle)
			return true;
		run(w, 0.1);
	}
	return false;
}

static struct hvd_agent **begin_feature(struct world *w, const struct hvd_feature *feature)
{
	struct hvd_agent **state = calloc(1, feature->size);

	assert_non_null(state);
	*state = &w->agent;
	feature->begin(state);
	return state;
}

static void begin(struct world *w)
{
	*w = (struct world){.agent = {.base = event_base_new(), .driver = (struct hvd_driver_client *)w}};
	w->scan = begin_feature(w, &hvd_rank_scan_feature);
	w->activity = begin_feature(w, &hvd_activity_feature);
}

static void rank_began(struct world *w, uint32_t number, pid_t pid)
{
	hvd_rank_scan_feature.rank_began(w->scan, (struct hvd_world_rank){0, number}, pid);
	hvd_activity_feature.rank_began(w->activity, (struct hvd_world_rank){0, number}, pid);
}

static void rank_ended(struct world *w, uint32_t number)
{
	hvd_rank_scan_feature.rank_ended(w->scan, (struct hvd_world_rank){0, number});
	hvd_activity_feature.rank_ended(w->activity, (struct hvd_world_rank){0, number});
}

static void ask(struct world *w, double every)
{
	json_auto_t *msg = json_pack("{s:s, s:f}", "t", "watch", "every", every);

	hvd_activity_feature.messages[0].read(w->activity, msg);
}

static void end(struct world *w)
{
	hvd_rank_scan_feature.end(w->scan);
	hvd_activity_feature.end(w->activity);
	free(w->scan);
	free(w->activity);
	json_decref(w->last);
	event_base_free(w->agent.base);
}

static pid_t ranks[8]; /* of this test; 0: has been ended */
static size_t n_ranks;

static void end_rank(size_t i)
{
	if (ranks[i]) {
		kill(-ranks[i], SIGKILL); /* what it has started, too */
		waitpid(ranks[i], NULL, 0);
	}
	ranks[i] = 0;
}

static int end_ranks(void **state)
{
	while (n_ranks > 0)
		end_rank(--n_ranks);
	return 0;
}

/* A rank that runs a shell's command, and is a group of its own. It ends with the test. What it leaves behind when this
 * program is killed must not keep a processor busy for ever. */
static pid_t rank(const char *command, int in)
{
	const struct rlimit processor = {.rlim_cur = 30, .rlim_max = 30};
	pid_t pid;

	assert_true(n_ranks < sizeof(ranks) / sizeof(ranks[0]));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		setrlimit(RLIMIT_CPU, &processor);
		if (in >= 0)
			dup2(in, 0);
		execl("/bin/bash", "bash", "-c", command, (char *)NULL);
		_exit(127);
	}
	setpgid(pid, pid);
	ranks[n_ranks++] = pid;
	return pid;
}

static void one_rank(struct world *w, pid_t pid)
{
	begin(w);
	rank_began(w, 0, pid);
	ask(w, EVERY);
	assert_int_equal(w->told, 1); /* at once */
	assert_true(told_idle(w) == 0.0);
}

TEST(test_a_sleeping_rank_is_idle)
{
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	one_rank(&w, pid);
	assert_true(comes(&w, true));
	assert_true(told_idle(&w) < 5);
	assert_int_equal(json_integer_value(json_object_get(w.last, "ranks")), 1);
	assert_true(json_is_false(json_object_get(w.last, "input")));
	run(&w, 8 * EVERY);
	assert_int_equal(w.told, 2); /* not again */
	ask(&w, EVERY);
	assert_int_equal(w.told, 3); /* but when it is asked again, and it has lasted since */
	assert_true(told_idle(&w) >= 8 * EVERY);
	end(&w);
}

/* For so long that two looks without progress would have been told, and four with nothing but processor time. */
TEST(test_progress)
{
	static const struct {
		const char *what, *command;
		bool quiet;
	} rows[] = {
		{"computes", "while :; do :; done", true},
		{"has a child that computes", "(while :; do :; done) & sleep 60; wait", true},
		{"has left a process behind that computes", "( (while :; do :; done) & ) ; exec sleep 60", true},
		/* 100 kB/s, with next to no processor time: a file system that is slow. */
		{"reads slowly", "{ while :; do head -c 5000 /dev/zero; sleep 0.05; done; } | cat >/dev/null", false},
		{"prints now and then",
		 "while :; do echo a step is done >/dev/null; read -t 0.1 </dev/fd/9; done 9<> <(:)", false},
	};
	struct world w[sizeof(rows) / sizeof(rows[0])];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		one_rank(&w[i], rank(rows[i].command, -1));
	for (int look = 0; look < 24; look++)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			run(&w[i], EVERY / 10);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int more = 0; rows[i].quiet && !(told_quiet(&w[i]) > 0) && more < 100; more++)
			run(&w[i], EVERY);
		if (w[i].told_as_idle)
			fail_msg("a rank that %s was told as idle", rows[i].what);
		if ((told_quiet(&w[i]) > 0) != rows[i].quiet)
			fail_msg("a rank that %s was told as %s", rows[i].what, rows[i].quiet ? "not quiet" : "quiet");
		end(&w[i]);
	}
}

TEST(test_what_a_rank_prints_is_progress)
{
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	one_rank(&w, pid);
	assert_true(comes(&w, true));
	hvd_activity_feature.rank_output(w.activity, (struct hvd_world_rank){0, 0}, 1);
	assert_true(comes(&w, false));
	assert_true(comes(&w, true));
	end(&w);
}

TEST(test_what_a_busy_rank_prints_ends_its_quiet)
{
	pid_t pid = rank("while :; do :; done", -1);
	struct world w;

	one_rank(&w, pid);
	for (int i = 0; i < 100 && !(told_quiet(&w) > 0); i++)
		run(&w, EVERY);
	assert_true(told_quiet(&w) >= 4 * EVERY);
	hvd_activity_feature.rank_output(w.activity, (struct hvd_world_rank){0, 0}, 1);
	for (int i = 0; i < 100 && told_quiet(&w) > 0; i++)
		run(&w, EVERY);
	assert_true(told_quiet(&w) == 0);
	assert_int_equal(w.told_as_idle, 0);
	end(&w);
}

TEST(test_a_stopped_rank_is_not_idle)
{
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	one_rank(&w, pid);
	assert_true(comes(&w, true));
	kill(pid, SIGSTOP);
	assert_true(comes(&w, false));
	run(&w, 6 * EVERY);
	assert_int_equal(w.told, 3);
	kill(pid, SIGCONT);
	assert_true(comes(&w, true));
	end(&w);
}

/* As by gdb, or left behind by it. */
TEST(test_a_rank_that_is_stopped_for_its_stacks_is_idle)
{
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	one_rank(&w, pid);
	assert_true(comes(&w, true));
	w.agent.inspections++;
	w.agent.inspecting++;
	kill(pid, SIGSTOP);
	run(&w, 6 * EVERY);
	w.agent.inspections++;
	w.agent.inspecting--;
	run(&w, 6 * EVERY);
	assert_int_equal(w.told, 2);
	kill(pid, SIGCONT);
	run(&w, 6 * EVERY);
	assert_int_equal(w.told, 2);
	kill(pid, SIGSTOP);
	assert_true(comes(&w, false));
	w.agent.inspections++;
	w.agent.inspecting++;
	run(&w, 6 * EVERY);
	assert_int_equal(w.told, 3); /* it was stopped before */
	end(&w);
}

/* As an agent of a job that is suspended. */
TEST(test_time_in_which_this_process_was_stopped)
{
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	one_rank(&w, pid);
	assert_true(comes(&w, true));
	usleep(2500000);
	assert_true(comes(&w, false));
	assert_true(comes(&w, true));
	assert_true(told_idle(&w) < 2);
	end(&w);
}

TEST(test_one_active_rank_is_enough)
{
	pid_t busy = rank("while :; do :; done", -1);
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	one_rank(&w, pid);
	rank_began(&w, 1, busy);
	run(&w, 10 * EVERY);
	assert_int_equal(w.told_as_idle, 0);
	end_rank(0);
	rank_ended(&w, 1);
	assert_true(comes(&w, true));
	assert_int_equal(json_integer_value(json_object_get(w.last, "ranks")), 1);
	rank_ended(&w, 0);
	run(&w, 4 * EVERY);
	assert_int_equal(json_integer_value(json_object_get(w.last, "ranks")), 0);
	end(&w);
}

TEST(test_nothing_is_looked_at_unasked)
{
	pid_t pid = rank("exec sleep 60", -1);
	struct world w;

	begin(&w);
	rank_began(&w, 0, pid);
	run(&w, 2 * EVERY);
	assert_int_equal(w.told, 0);
	ask(&w, EVERY);
	assert_true(comes(&w, true));
	ask(&w, 0);
	w.told = 0;
	hvd_activity_feature.rank_output(w.activity, (struct hvd_world_rank){0, 0}, 1);
	run(&w, 6 * EVERY);
	assert_int_equal(w.told, 0);
	end(&w);
}

static bool told_input(const struct world *w)
{
	return json_is_true(json_object_get(w->last, "input"));
}

TEST(test_a_rank_that_waits_for_input_is_told)
{
	int fds[2];
	pid_t pid;
	struct world w;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = rank("read line; sleep 60; :", fds[0]);
	one_rank(&w, pid);
	assert_true(comes(&w, true));
	assert_true(told_input(&w));
	assert_int_equal(write(fds[1], "x\n", 2), 2);
	for (int i = 0; i < 50 && told_input(&w); i++)
		run(&w, EVERY);
	assert_false(told_input(&w));
	assert_true(comes(&w, true)); /* it sleeps now */
	assert_false(told_input(&w));
	end(&w);
	close(fds[0]);
	close(fds[1]);
}

/* It is asked about in that world. */
TEST(test_a_rank_of_another_world_that_waits_for_input)
{
	int fds[2];
	struct world w;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	one_rank(&w, rank("exec sleep 60", -1));
	hvd_rank_scan_feature.rank_began(w.scan, (struct hvd_world_rank){1, 0}, rank("read line", fds[0]));
	assert_true(comes(&w, true));
	assert_false(told_input(&w));
	assert_int_equal(json_integer_value(json_object_get(w.last, "ranks")), 1);
	end(&w);
	close(fds[0]);
	close(fds[1]);
}

/* A reader within the rank waits for another process of the rank, which may hang. */
TEST(test_a_pipe_within_a_rank_is_no_input)
{
	int fds[2];
	pid_t pid;
	struct world w;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = rank("sleep 60 | cat", fds[0]);
	one_rank(&w, pid);
	assert_true(comes(&w, true));
	assert_false(told_input(&w));
	end(&w);
	close(fds[0]);
	close(fds[1]);
}

TEST(test_stat_with_brackets_in_the_name)
{
	struct hvd_process p;

	assert_int_equal(
		hvd_process_parse("17 (a) R 1 (b) D 3 4 5 0 -1 64 7 0 9 0 10 20 30 40 20 0 3 0 900 4096 5 0", &p), 0);
	assert_int_equal(p.pid, 17);
	assert_int_equal(p.state, 'D');
	assert_int_equal(p.parent, 3);
	assert_int_equal(p.group, 4);
	assert_int_equal(p.session, 5);
	assert_int_equal(p.faults, 9);
	assert_int_equal(p.cpu_ns, 100 * (1000000000 / sysconf(_SC_CLK_TCK)));
	assert_int_equal(p.threads, 3);
	assert_int_equal(p.memory, 5 * sysconf(_SC_PAGESIZE));
	assert_false(p.ending);
	assert_int_equal(hvd_process_parse("17 (a) R 3 4 5 0 -1 68 7 0 9 0 10 20 30 40 20 0 3 0 900 4096 5 0", &p), 0);
	assert_true(p.ending);
	assert_int_equal(hvd_process_parse("17 (a) Z 3 4 5 0 -1 64 7 0 9 0 10 20 30 40 20 0 3 0 900 4096 5 0", &p), 0);
	assert_true(p.ending);
	assert_int_equal(hvd_process_parse("17 (a) R 1 2", &p), -1);
	assert_int_equal(hvd_process_parse("", &p), -1);
}

TEST(test_processes_are_read_in_parts)
{
	struct hvd_kernel_threads kernel = {0};
	struct hvd_processes ps = {.kernel = &kernel};
	struct hvd_process p;
	int parts = 1;
	size_t n;

	while (!hvd_processes_read(&ps, 10))
		parts++;
	assert_true(parts > 1);
	assert_non_null(hvd_processes_find(&ps, getpid()));
	assert_int_equal(hvd_processes_find(&ps, getpid())->parent, getppid());
	assert_null(hvd_processes_find(&ps, -1));
	hvd_processes_clear(&ps);
	assert_null(hvd_processes_find(&ps, getpid()));
	/* Threads of the kernel are known from the first scan; in a container there are none. */
	n = kernel.n;
	for (size_t i = 0; i < n; i++)
		assert_true(hvd_process_read(kernel.v[i].pid, &p) != 0 || p.kernel);
	assert_true(hvd_process_read(2, &p) != 0 || !p.kernel || n > 0);
	while (!hvd_processes_read(&ps, 10))
		;
	assert_non_null(hvd_processes_find(&ps, getpid()));
	assert_true(n == 0 || kernel.n > 0);
	for (size_t i = 0; i < kernel.n; i++)
		assert_null(hvd_processes_find(&ps, kernel.v[i].pid));
	/* Another process with the number of one of them is read. */
	hvd_processes_clear(&ps);
	hvd_kernel_threads_clear(&kernel);
	kernel.v = calloc(1, sizeof(*kernel.v));
	assert_non_null(kernel.v);
	kernel.v[0] = (struct hvd_kernel_thread){.pid = getpid(), .inode = 1};
	kernel.n = kernel.room = 1;
	while (!hvd_processes_read(&ps, 10))
		;
	assert_non_null(hvd_processes_find(&ps, getpid()));
	hvd_processes_clear(&ps);
	hvd_kernel_threads_clear(&kernel);
}

RUN_TESTS(.teardown = end_ranks)
