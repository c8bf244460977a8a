/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_events.c - reports a host's tasks and their ends to the node agent (step_event.h).
 *
 * slurmstepd makes the sockets before it forks the tasks, which inherit them; the first task passes the agent's ends on
 * to its hvd-agent. Each task sends its event when it has its plan, and closes all ends. slurmstepd keeps one end, and
 * sends an event when it has reaped a task. Then it waits for a moment until the agent has delivered the task's output,
 * because after the last task slurmstepd kills all other processes of the step, also the agent. The agent runs as the
 * user, so slurmstepd takes nothing from it except the acknowledgement.
 */
#include "plugin.h"

#include "lib/protocol/step_event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void close_all(struct hvd_plugin *pl)
{
	hvd_step_close(&pl->events.ours);
	hvd_step_close(&pl->events.agents);
	hvd_step_close(&pl->events.backup);
	hvd_step_close(&pl->events.watchdogs);
	hvd_step_close(&pl->events.seen);
	hvd_step_close(&pl->events.answers);
}

static int watch(int answers, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.fd = fd};

	return epoll_ctl(answers, EPOLL_CTL_ADD, fd, &ev);
}

/* How slurmstepd learns that an event was acknowledged, or that the agent has gone. */
static bool make_answers(struct hvd_plugin *pl)
{
	int seen = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), answers = epoll_create1(EPOLL_CLOEXEC);

	pl->events.seen = seen >= 0 ? seen : 0;
	pl->events.answers = answers >= 0 ? answers : 0;
	return seen >= 0 && answers >= 0 && watch(answers, seen, EPOLLIN | EPOLLET) == 0 &&
	       watch(answers, pl->events.ours, 0) == 0;
}

void hvd_step_events_prepare(struct hvd_plugin *pl, spank_t sp)
{
	char boot[HVD_BOOT_MAX];
	int ends[2];

	if (!hvd_step_wanted(sp, boot))
		return;
	if (hvd_step_events_pair(ends) == 0) {
		pl->events.ours = ends[0];
		pl->events.agents = ends[1];
	}
	if (hvd_step_events_pair(ends) == 0) {
		pl->events.backup = ends[0];
		pl->events.watchdogs = ends[1];
	}
	if (!pl->events.ours || !pl->events.backup || !make_answers(pl))
		close_all(pl);
}

bool hvd_step_events_hand_over(const struct hvd_plugin *pl, struct hvd_spawn *spawn)
{
	if (!pl->events.agents)
		return false;
	hvd_spawn_fd(spawn, pl->events.agents, HVD_STEP_EVENTS_FD);
	hvd_spawn_fd(spawn, pl->events.watchdogs, HVD_STEP_BACKUP_FD);
	hvd_spawn_fd(spawn, pl->events.seen, HVD_STEP_SEEN_FD);
	return true;
}

void hvd_step_events_forked(struct hvd_plugin *pl)
{
	hvd_step_close(&pl->events.agents);
	hvd_step_close(&pl->events.backup);
	hvd_step_close(&pl->events.watchdogs);
}

/* A pipe for standard error: fds[0] is what the agent reads, fds[1] what standard error is now; returns the pipe's
 * writing end, or -1. */
static int make_pipe(int fds[2])
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the writing end has flags of its own */
	fds[0] = ends[0];
	fds[1] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fds[1] >= 0)
		return ends[1];
	close(ends[0]);
	close(ends[1]);
	return -1;
}

/* The agent reads the end of it if the task fails. */
static void send_file(const struct hvd_plugin *pl, const struct hvd_step_event *task, int64_t size)
{
	const struct hvd_step_event event = {
		.kind = HVD_STEP_FILE, .local_id = task->local_id, .pid = task->pid, .at = size};

	hvd_step_event_send(pl->events.ours, &event, (int[2]){STDERR_FILENO, STDERR_FILENO});
}

/* A terminal and a file stay: a program writes differently to a terminal, and may read back what it has written to a
 * file. A socket also stays: splice(2) of the agent would block on it, and hold up the output of all other ranks. */
static void send_event(struct hvd_plugin *pl, spank_t sp, bool look)
{
	struct hvd_step_event event = {.kind = HVD_STEP_TASK, .local_id = hvd_step_local_id(sp), .pid = getpid()};
	struct stat st = {0};
	int fds[2] = {-1, -1}, in = -1;
	bool kept;

	if (look && fstat(STDERR_FILENO, &st) == 0 && S_ISFIFO(st.st_mode))
		in = make_pipe(fds);
	if (S_ISREG(st.st_mode))
		send_file(pl, &event, st.st_size);
	/* The one that keeps the descriptors comes first: with it the agent may be killed at any time. */
	kept = hvd_step_event_send(pl->events.backup, &event, in >= 0 ? fds : NULL) == 0;

	if (in >= 0 && kept && hvd_step_event_send(pl->events.ours, &event, fds) == 0)
		dup2(in, STDERR_FILENO);
	else
		hvd_step_event_send(pl->events.ours, &event, NULL);
	if (in < 0)
		return;
	close(in);
	close(fds[0]);
	close(fds[1]);
}

void hvd_step_events_task(struct hvd_plugin *pl, spank_t sp, const struct hvd_boot *boot)
{
	if (pl->events.agent > 0 && pl->events.ours > 0)
		send_event(pl, sp, boot->keeps_stderr);
#ifdef PR_SET_PTRACER
	/* If only a parent may look at a process (Yama's ptrace_scope 1), let the agent, too. */
	if (pl->events.agent > 0)
		prctl(PR_SET_PTRACER, (unsigned long)pl->events.agent, 0UL, 0UL, 0UL);
#endif
	close_all(pl);
}

/* Wait until the agent has acknowledged the end of a task. False if it has not, or has ended, as it does with the last
 * task. A process that ends closes its descriptors just before it leaves its control group, and slurmstepd, which would
 * look there next, may have its CPU in between. */
static bool await_seen(struct hvd_plugin *pl)
{
	hvd_time began = hvd_now(), deadline = hvd_deadline_in(HVD_STEP_SEEN_MS / 1e3);
	struct epoll_event ev;
	int n;

	do
		n = epoll_wait(pl->events.answers, &ev, 1, hvd_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	if (n == 1 && ev.data.fd != pl->events.seen)
		poll(NULL, 0, HVD_STEP_ENDS_MS);
	pl->events.waited += hvd_now() - began;
	return n == 1 && ev.data.fd == pl->events.seen && pl->events.waited < HVD_STEP_SEEN_ALL_MS * (hvd_time)1000000;
}

void hvd_step_events_exit(struct hvd_plugin *pl, spank_t sp)
{
	struct hvd_step_event event = {.kind = HVD_STEP_EXIT, .local_id = hvd_step_local_id(sp)};
	int status = 0;
	pid_t pid = 0;

	if (pl->events.ours <= 0 || spank_get_item(sp, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS)
		return;
	spank_get_item(sp, S_TASK_PID, &pid);
	event.pid = pid;
	event.status = status;
	event.at = hvd_now();
	if (hvd_step_event_send(pl->events.ours, &event, NULL) != 0 ? errno != EAGAIN : !await_seen(pl))
		close_all(pl);
}
