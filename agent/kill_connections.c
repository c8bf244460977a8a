/* SPDX-License-Identifier: Apache-2.0 */
#include "kill_connections.h"

#include "lib/process/process_watch.h"
#include "lib/process/procfs.h"
#include "lib/protocol/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long it may take. A thousand ranks take tenths of a second. */
#define KILL_SECONDS 3.0

struct killer {
	const struct hvd_portset *at;
	int broken;
	pid_t closed; /* a process that this one was not allowed to look into; 0 = none */
	int error;    /* the errno of that */
};

static bool is_meant(const struct killer *killer, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct hvd_addr addr;
	in_port_t port;

	return getsockname(fd, (struct sockaddr *)&ss, &len) == 0 &&
	       hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, &port) == 0 &&
	       hvd_portset_has(killer->at, &addr, port) && hvd_addr_of_peer(fd, &addr) == 0;
}

/* A process that ends has no program any longer; what /proc has of it belongs to root. */
static bool ends(pid_t pid)
{
	char path[64], c;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, &c, 1) < 0 && (errno == ENOENT || errno == ESRCH);
}

static void closed_to_us(struct killer *killer, pid_t pid)
{
	int error = errno;

	/* The process or the descriptor has gone in the meantime. */
	if (error == ESRCH || error == ENOENT || error == EBADF || ends(pid))
		return;
	killer->closed = pid;
	killer->error = error;
}

static void kill_in_process(struct killer *killer, pid_t pid)
{
	int pidfd = hvd_pidfd_open(pid);
	char path[64], what[16];
	struct dirent *de;
	DIR *fds;

	if (pidfd < 0) {
		closed_to_us(killer, pid);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	if (!fds)
		closed_to_us(killer, pid);
	while (fds && (de = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), de->d_name, what, sizeof(what));
		int fd;

		/* Only sockets are copied: closing the last copy of a file may take long. */
		if (n < 8 || memcmp(what, "socket:[", 8) != 0)
			continue;
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, atoi(de->d_name), 0);
		if (fd < 0) {
			closed_to_us(killer, pid);
			continue;
		}
		/* shutdown() fails for a socket that another process shares, and that was broken there. */
		if (is_meant(killer, fd) && shutdown(fd, SHUT_RDWR) == 0)
			killer->broken++;
		close(fd);
	}
	if (fds)
		closedir(fds);
	close(pidfd);
}

int hvd_kill_connections(const struct hvd_portset *at, hvd_time deadline, struct hvd_err *err)
{
	struct killer killer = {.at = at};
	struct hvd_pids pids = {0};
	bool late = false;

	/* The list grows while it is worked through: by the children of each process on it. */
	hvd_pids_add_children(&pids, getpid());
	for (size_t i = 0; i < pids.n && !late; i++) {
		kill_in_process(&killer, pids.v[i]);
		hvd_pids_add_children(&pids, pids.v[i]);
		late = i + 1 < pids.n && hvd_left(deadline) <= 0;
	}
	free(pids.v);
	if (late) {
		hvd_err_set(err, HVD_E_TIMEOUT, "there are too many processes to inspect in time");
	} else if (killer.closed && killer.broken == 0) {
		errno = killer.error;
		hvd_err_sys(err,
			    "cannot take over sockets of process %d: this needs Linux 5.6 or later, and "
			    "kernel.yama.ptrace_scope of 0 or 1",
			    (int)killer.closed);
	}
	return killer.broken;
}

json_t *hvd_kill_connections_answer(const json_t *msg)
{
	struct hvd_portset at = {0};
	struct hvd_err why = {0};
	int n = 0;

	if (hvd_portset_from_json(json_object_get(msg, "at"), &at, &why) == 0)
		n = hvd_kill_connections(&at, hvd_deadline_in(KILL_SECONDS), &why);
	hvd_portset_clear(&at);
	return json_pack("{s:s, s:i, s:s}", "t", "kill-connections", "n", n, "why", why.code ? why.msg : "");
}

static void on_kill(void *self, const json_t *msg)
{
	hvd_of_world_send(self, hvd_kill_connections_answer(msg)); /* there is no other state */
}

const struct hvd_feature hvd_kill_connections_feature = {
	.size = sizeof(struct hvd_of_world),
	.by_world = true,
	.messages = (const struct hvd_agent_message[]){{"kill-connections", on_kill}, {NULL, NULL}},
};
