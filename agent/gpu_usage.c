/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_usage.h"

#include "gpu_look.h"
#include "lib/base/deadline.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_SECONDS 60 /* after the first failure; twice as long after each further one, up to … */
#define MOST_PAUSE    3600
#define END_SECONDS   0.5
#define MOST_USED     100000000 /* of all processes of a rank (lib/host/rank_usage.h) */

struct hvd_gpu_usage {
	struct event_base *base;
	char *root;
	double seconds; /* that an answer has */
	int fd;         /* of the process that looks; -1: there is none */
	pid_t pid;      /* 0: there is none */
	struct event *readable;
	struct hvd_timer *late;
	bool asked;
	pid_t killed; /* it was, and may not have ended; 0: there is none */
	int pause;    /* seconds of the last one; 0: all is well */
	hvd_time not_before;
	struct hvd_gpu_processes last;
};

/* Others in this process may reap any child, so it may be gone. */
static void reap_killed(struct hvd_gpu_usage *gpu)
{
	if (gpu->killed && waitpid(gpu->killed, NULL, WNOHANG) != 0)
		gpu->killed = 0;
}

/* The process that looks is given up. A driver may keep it from dying, so nobody waits for it. If the socket has ended, so
 * has the process, and its number may be another's. */
static void give_up(struct hvd_gpu_usage *gpu, bool ended)
{
	if (!ended)
		kill(gpu->pid, SIGKILL);
	gpu->killed = gpu->pid;
	gpu->pid = 0;
	hvd_event_unwatch(&gpu->readable);
	close(gpu->fd);
	gpu->fd = -1;
	hvd_timer_stop(gpu->late);
	gpu->asked = false;
	gpu->last.n = 0;
	gpu->pause = gpu->pause ? 2 * gpu->pause : PAUSE_SECONDS;
	gpu->pause = gpu->pause < MOST_PAUSE ? gpu->pause : MOST_PAUSE;
	gpu->not_before = hvd_deadline_in(gpu->pause);
	reap_killed(gpu);
}

/* ---- answers ---- */

static void take(struct hvd_gpu_usage *gpu, const struct hvd_gpu_answer *answer)
{
	gpu->last.n = 0;
	for (size_t i = 0; i < answer->n; i++)
		hvd_gpu_process_add(&gpu->last, answer->processes[i].pid, answer->processes[i].used,
				    answer->processes[i].memory);
	gpu->asked = false;
	gpu->pause = 0;
	hvd_timer_stop(gpu->late);
}

static bool is_whole(const struct hvd_gpu_answer *answer, size_t len)
{
	const size_t head = offsetof(struct hvd_gpu_answer, processes);

	return len >= head && answer->n <= HVD_GPU_PROCESSES && len == head + answer->n * sizeof(answer->processes[0]);
}

/* Read the answer if it is there. False: it is not. */
static bool read_answer(struct hvd_gpu_usage *gpu)
{
	struct hvd_gpu_answer *answer = hvd_xcalloc(1, sizeof(*answer));
	ssize_t n = recv(gpu->fd, answer, sizeof(*answer), MSG_DONTWAIT);
	bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);

	if (n > 0 && is_whole(answer, (size_t)n))
		take(gpu, answer);
	else if (!waits)
		give_up(gpu, n == 0 || (n < 0 && errno == ECONNRESET));
	free(answer);
	return !waits;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_answer(arg);
}

/* This process may have been stopped together with the one that looks, as when Slurm suspends the job. */
static void on_late(void *arg)
{
	struct hvd_gpu_usage *gpu = arg;

	if (!read_answer(gpu))
		give_up(gpu, false);
}

/* ---- questions ---- */

static int start(struct hvd_gpu_usage *gpu)
{
	char *argv[] = {(char *)"hvd-agent", (char *)"gpus", *gpu->root ? gpu->root : NULL, NULL};
	struct hvd_spawn sp = {.path = "/proc/self/exe", .argv = argv, .new_group = 1, .parent_death_signal = SIGKILL};
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -1;
	hvd_spawn_fd(&sp, fds[1], STDIN_FILENO);
	hvd_spawn_fd(&sp, -1, STDOUT_FILENO);
	hvd_spawn_fd(&sp, -1, STDERR_FILENO);
	gpu->pid = hvd_spawn(&sp, NULL);
	close(fds[1]);
	if (gpu->pid < 0) {
		close(fds[0]);
		gpu->pid = 0;
		return -1;
	}
	gpu->fd = fds[0];
	gpu->readable = hvd_event_watch(gpu->base, gpu->fd, EV_READ | EV_PERSIST, on_readable, gpu);
	return 0;
}

void hvd_gpu_usage_look(struct hvd_gpu_usage *gpu, const pid_t *pids, size_t n)
{
	struct hvd_gpu_question *question;
	size_t len;

	if (!gpu || gpu->asked)
		return;
	reap_killed(gpu);
	if (!gpu->pid && (gpu->killed || hvd_left(gpu->not_before) > 0 || start(gpu) != 0))
		return;
	question = hvd_xcalloc(1, sizeof(*question));
	for (; question->n < n && question->n < HVD_GPU_PIDS; question->n++)
		question->pids[question->n] = (int32_t)pids[question->n];
	len = offsetof(struct hvd_gpu_question, pids) + question->n * sizeof(question->pids[0]);
	gpu->asked = true;
	hvd_timer_at(gpu->late, hvd_deadline_in(gpu->seconds));
	if (send(gpu->fd, question, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		give_up(gpu, errno == EPIPE);
	free(question);
}

pid_t hvd_gpu_usage_pid(const struct hvd_gpu_usage *gpu)
{
	if (!gpu)
		return 0;
	return gpu->pid ? gpu->pid : gpu->killed;
}

void hvd_gpu_usage_add(const struct hvd_gpu_usage *gpu, pid_t pid, int64_t *used, int64_t *memory)
{
	for (size_t i = 0; gpu && i < gpu->last.n; i++)
		if (gpu->last.v[i].pid == pid) {
			*used = hvd_gpu_sum(*used, gpu->last.v[i].used);
			*used = *used < MOST_USED ? *used : MOST_USED;
			*memory = hvd_gpu_sum(*memory, gpu->last.v[i].memory);
		}
}

/* ---- life ---- */

struct hvd_gpu_usage *hvd_gpu_usage_create(struct event_base *base, const char *root, double seconds)
{
	struct hvd_gpu_usage *gpu;

	if (!hvd_gpu_look_has_gpus(root))
		return NULL;
	gpu = hvd_xcalloc(1, sizeof(*gpu));
	gpu->base = base;
	gpu->root = hvd_xstrdup(root);
	gpu->seconds = seconds;
	gpu->fd = -1;
	gpu->late = hvd_timer_new(base, on_late, gpu);
	return gpu;
}

void hvd_gpu_usage_destroy(struct hvd_gpu_usage *gpu)
{
	if (!gpu)
		return;
	if (gpu->pid)
		give_up(gpu, recv(gpu->fd, &(char){0}, 1, MSG_DONTWAIT | MSG_PEEK) == 0);
	if (gpu->killed)
		hvd_wait(gpu->killed, hvd_deadline_in(END_SECONDS), NULL, NULL);
	hvd_timer_free(gpu->late);
	free(gpu->last.v);
	free(gpu->root);
	free(gpu);
}
