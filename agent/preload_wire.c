/* SPDX-License-Identifier: Apache-2.0 */
#include "preload_wire.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Read a pid, and the blank or zero byte behind it. */
static const char *read_pid(const char *text, char end, pid_t *pid)
{
	long n = 0;

	if (*text < '1' || *text > '9')
		return NULL;
	for (; *text >= '0' && *text <= '9' && n < INT_MAX / 10; text++)
		n = 10 * n + (*text - '0');
	*pid = (pid_t)n;
	return *text == end && n > 1 ? text + (end != '\0') : NULL;
}

int hvd_preload_answer_parse(const char *text, struct hvd_preload_answer *answer, struct hvd_err *err)
{
	static const char refused[] = "refused ", started[] = "started ", failed[] = "failed ";
	const char *rest;

	memset(answer, 0, sizeof(*answer));
	if (strcmp(text, "ready") == 0) {
		answer->word = HVD_PRELOAD_READY;
		return 0;
	}
	if (strncmp(text, refused, strlen(refused)) == 0) {
		answer->word = HVD_PRELOAD_REFUSED;
		answer->why = text + strlen(refused);
		return 0;
	}
	if (strncmp(text, failed, strlen(failed)) == 0) {
		answer->word = HVD_PRELOAD_FAILED;
		answer->why = text + strlen(failed);
		return 0;
	}
	if (strncmp(text, started, strlen(started)) == 0 &&
	    (rest = read_pid(text + strlen(started), ' ', &answer->pid)) && read_pid(rest, '\0', &answer->group)) {
		answer->word = HVD_PRELOAD_STARTED;
		return 0;
	}
	return hvd_err_set(err, HVD_E_PROTO, "it has sent \"%.100s\"", text);
}

static char *list_cpus(const cpu_set_t *cpus)
{
	struct hvd_strv numbers = {0};
	char *list;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, cpus))
			hvd_strv_addf(&numbers, "%d", cpu);
	list = hvd_strv_join(&numbers, ",");
	hvd_strv_free(&numbers);
	return list;
}

static int write_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t written = write(fd, bytes, n);

		if (written < 0 && errno != EINTR)
			return -1;
		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		}
	}
	return 0;
}

int hvd_preload_environ(char *const *envp, struct hvd_err *err)
{
	hvd_cleanup_close int fd = memfd_create("hvd-preload", MFD_CLOEXEC);
	int rc = fd < 0 ? -1 : 0;

	for (; rc == 0 && *envp; envp++)
		rc = write_all(fd, *envp, strlen(*envp) + 1);
	if (rc != 0)
		return hvd_err_sys(err, "cannot write a memory file");
	return hvd_take_fd(&fd);
}

int hvd_preload_request(const cpu_set_t *cpus, char *const *envp, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv block = {0};
	hvd_cleanup_free char *list = cpus ? list_cpus(cpus) : hvd_xstrdup("");

	hvd_strv_add(&block, list);
	hvd_strv_add_all(&block, envp);
	return hvd_preload_environ(block.v, err);
}

int hvd_preload_send(int socket, const int fds[HVD_PRELOAD_FDS])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(HVD_PRELOAD_FDS * sizeof(int))];
	} control = {.room = {0}};
	char byte = 'f';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(HVD_PRELOAD_FDS * sizeof(int));
	memcpy(CMSG_DATA(head), fds, HVD_PRELOAD_FDS * sizeof(int));
	return sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : -1;
}
