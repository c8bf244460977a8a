/* SPDX-License-Identifier: Apache-2.0 */
/* Which tasks of a step still run: this process stands for slurmstepd. */
#include "task/step_tasks.h"

#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
	char c;

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
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 0);
	close(ready[0]);
	return pid;
}

static bool ended(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void the_last_task_counts(void **state)
{
	pid_t first = begin(BESIDE), second = begin(OWN_GROUP), third = begin(BESIDE), other = begin(OWN_SESSION);
	struct hvd_step_tasks tasks;
	int fd, again;

	(void)state;
	if ((fd = (int)syscall(SYS_pidfd_open, first, 0)) < 0)
		skip_because("this kernel has no pidfds");
	close(fd);
	hvd_step_tasks_init(&tasks, first);
	fd = hvd_step_tasks_next(&tasks);
	assert_true(fd >= 0 && !ended(fd));
	/* The third ends before it is looked at, and is a zombie then. */
	kill(third, SIGKILL);
	waitid(P_PID, (id_t)third, &(siginfo_t){0}, WEXITED | WNOWAIT);
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
	assert_true(ended(fd));
	close(fd);
	fd = hvd_step_tasks_next(&tasks);
	assert_true(fd >= 0 && !ended(fd));
	kill(second, SIGKILL);
	waitpid(second, NULL, 0);
	assert_true(ended(fd));
	close(fd);
	assert_int_equal(hvd_step_tasks_next(&tasks), -1); /* `other` is in another session */
	assert_int_equal(hvd_step_tasks_next(&tasks), -1);
	hvd_step_tasks_clear(&tasks);
	hvd_step_tasks_clear(&tasks);
	/* A task that has ended before anybody looks: nothing is known of the others. */
	hvd_step_tasks_init(&tasks, third);
	again = hvd_step_tasks_next(&tasks);
	assert_int_equal(again, -1);
	hvd_step_tasks_clear(&tasks);
	kill(other, SIGKILL);
	waitpid(third, NULL, 0);
	waitpid(other, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_task_counts)};

	return cmocka_run_group_tests_name("step tasks", tests, NULL, NULL);
}
