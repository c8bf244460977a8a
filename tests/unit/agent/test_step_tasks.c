/* SPDX-License-Identifier: Apache-2.0 */
/* Which tasks of a step still run: this process stands for slurmstepd. */
#include "agent/step_tasks.h"

#include "lib/process/process_watch.h"
#include "tests/standins/old_kernel.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum where {
	BESIDE,
	OWN_GROUP,
	OWN_SESSION
};

/* A process that runs until it is killed. */
static pid_t begin(enum where where)
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (where == OWN_GROUP)
			setpgid(0, 0);
		if (where == OWN_SESSION)
			setsid();
		close(ready[0]);
		close(ready[1]);
		for (;;)
			pause();
	}
	await_child(ready);
	return pid;
}

static bool has_ended(const struct hvd_step_tasks *tasks)
{
	struct pollfd pfd = {.fd = tasks->fd, .events = POLLIN};

	return poll(&pfd, 1, 1000) == 1;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(the_last_task_counts)
{
	pid_t first = begin(BESIDE), second = begin(OWN_GROUP), third = begin(BESIDE), other = begin(OWN_SESSION), late;
	struct hvd_step_tasks tasks;

	hvd_step_tasks_init(&tasks, first);
	/* The third ends before it is looked at, and is a zombie then. */
	kill(third, SIGKILL);
	waitid(P_PID, (id_t)third, &(siginfo_t){0}, WEXITED | WNOWAIT);
	assert_int_equal(hvd_step_tasks_open(&tasks, NULL), 0);
	assert_int_equal(poll(&(struct pollfd){.fd = tasks.fd, .events = POLLIN}, 1, 0), 0);
	assert_int_equal(hvd_step_tasks_first(&tasks), first);
	end(first);
	assert_true(has_ended(&tasks));
	assert_true(hvd_step_tasks_left(&tasks));
	assert_int_equal(hvd_step_tasks_first(&tasks), second);
	/* One that was started since is found when the others have ended. */
	late = begin(BESIDE);
	end(second);
	assert_true(has_ended(&tasks));
	assert_true(hvd_step_tasks_left(&tasks));
	assert_int_equal(hvd_step_tasks_first(&tasks), late);
	end(late);
	assert_true(has_ended(&tasks));
	assert_false(hvd_step_tasks_left(&tasks)); /* `other` is in another session */
	assert_int_equal(hvd_step_tasks_first(&tasks), 0);
	hvd_step_tasks_clear(&tasks);
	hvd_step_tasks_clear(&tasks);
	/* A task that has ended before anybody looks: nothing is known of the others. */
	hvd_step_tasks_init(&tasks, third);
	assert_int_equal(hvd_step_tasks_open(&tasks, NULL), 0);
	assert_false(hvd_step_tasks_left(&tasks));
	hvd_step_tasks_clear(&tasks);
	waitpid(third, NULL, 0);
	end(other);
}

TEST(a_task_that_ends_before_it_is_watched_leaves_the_others)
{
	pid_t first = begin(BESIDE), second = begin(BESIDE);
	struct hvd_step_tasks tasks;

	hvd_step_tasks_init(&tasks, first);
	end(first);
	assert_int_equal(hvd_step_tasks_open(&tasks, NULL), 0);
	assert_true(hvd_step_tasks_left(&tasks));
	assert_int_equal(hvd_step_tasks_first(&tasks), second);
	end(second);
	assert_false(hvd_step_tasks_left(&tasks));
	hvd_step_tasks_clear(&tasks);
}

TEST(many_tasks_are_told_as_they_end)
{
	enum {
		MANY = 200
	};
	pid_t all[MANY];
	struct hvd_step_tasks tasks;

	for (int i = 0; i < MANY; i++)
		all[i] = begin(BESIDE);
	hvd_step_tasks_init(&tasks, all[0]);
	assert_int_equal(hvd_step_tasks_open(&tasks, NULL), 0);
	for (int i = 0; i < MANY; i++) {
		assert_true(hvd_step_tasks_left(&tasks));
		end(all[i]);
		assert_true(has_ended(&tasks));
	}
	assert_false(hvd_step_tasks_left(&tasks));
	hvd_step_tasks_clear(&tasks);
}

/* A process that stands for slurmstepd starts a task, which says its pid, and is killed. */
/* The parent's own parent takes its time to reap it. The task goes on, as a child of another process. */
TEST(tasks_whose_parent_has_ended_count_no_longer)
{
	struct hvd_step_tasks tasks;
	siginfo_t info;
	pid_t stepd, task;
	int said[2];

	assert_int_equal(pipe(said), 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	stepd = fork();
	assert_true(stepd >= 0);
	if (stepd == 0) {
		task = fork();
		alarm(60);
		if (task != 0 && write(said[1], &task, sizeof(task)) != sizeof(task))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(said[0], &task, sizeof(task)), sizeof(task));
	hvd_step_tasks_init(&tasks, task);
	assert_int_equal(hvd_step_tasks_open(&tasks, NULL), 0);
	assert_true(hvd_step_tasks_left(&tasks));
	kill(stepd, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)stepd, &info, WEXITED | WNOWAIT), 0);
	assert_true(has_ended(&tasks));
	assert_false(hvd_step_tasks_left(&tasks));
	assert_true(tasks.orphaned);
	hvd_step_tasks_kill(&tasks); /* it is still known */
	assert_int_equal(waitpid(task, NULL, 0), task);
	assert_int_equal(waitpid(stepd, NULL, 0), stepd);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	hvd_step_tasks_clear(&tasks);
	close(said[0]);
	close(said[1]);
}

/* The last test: there is no way back. */
TEST(without_pidfds_the_same_is_seen_later)
{
	assert_int_equal(old_kernel_begin(), 0);
	assert_int_equal(syscall(SYS_pidfd_open, getpid(), 0), -1);
	the_last_task_counts(state);
	a_task_that_ends_before_it_is_watched_leaves_the_others(state);
	tasks_whose_parent_has_ended_count_no_longer(state);
}

RUN_TESTS()
