/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_socket.h"

#include "lib/base/digits.h"
#include "lib/protocol/auth.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Names that are tried. */
#define NAMES 16
/* A name that is bound while nobody listens is another user's after so long: the first shim listens at once. */
#define MUTE_SECONDS 2.0
#define AGAIN_MS     2

bool hvd_agent_socket_own(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

socklen_t hvd_agent_socket_name(const char *session, uint32_t node, int attempt, struct sockaddr_un *name)
{
	uint32_t which[] = {node, (uint32_t)attempt};
	struct hvd_piece pieces[] = {{"hvd-agent-socket-1", 18}, {session, strlen(session)}, {which, sizeof(which)}};
	unsigned char digest[HVD_MAC_LEN];
	char hex[2 * HVD_MAC_LEN + 1];
	int n;

	hvd_digest(pieces, 3, digest);
	hvd_hex(digest, sizeof(digest), hex);
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "hvd-agent.%s", hex);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int make_socket(struct hvd_err *err)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		hvd_err_sys(err, "cannot make a socket");
	return fd;
}

/* Returns a socket that listens; -1 without an error: the name is taken. */
static int try_listen(const struct sockaddr_un *name, socklen_t len, struct hvd_err *err)
{
	int fd = make_socket(err);

	if (fd < 0 || (bind(fd, (const struct sockaddr *)name, len) == 0 && listen(fd, SOMAXCONN) == 0))
		return fd;
	if (errno != EADDRINUSE)
		hvd_err_sys(err, "cannot listen for this host's ranks");
	close(fd);
	return -1;
}

/* Connect to the owner of the name. Returns -1 without an error if the name has no owner any longer, or if the owner is
 * another user; then *strange is true. */
static int try_connect(const struct sockaddr_un *name, socklen_t len, hvd_time deadline, bool *strange,
		       struct hvd_err *err)
{
	hvd_time mute = hvd_earlier(deadline, hvd_deadline_in(MUTE_SECONDS));
	struct timeval left = hvd_left_tv(deadline);
	int fd = make_socket(err);

	*strange = false;
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof(left)); /* a queue that is full makes connect(2) wait */
	while (connect(fd, (const struct sockaddr *)name, len) != 0) {
		*strange = hvd_left(mute) <= 0;
		if ((errno != ECONNREFUSED && errno != EINTR) || *strange) {
			close(fd);
			return -1;
		}
		poll(NULL, 0, AGAIN_MS);
	}
	if (hvd_agent_socket_own(fd))
		return fd;
	*strange = true;
	close(fd);
	return -1;
}

int hvd_agent_socket_connect(const char *session, uint32_t node, hvd_time deadline, int *listening, struct hvd_err *err)
{
	struct sockaddr_un name;
	bool strange;
	int fd;

	for (int attempt = 0; attempt < NAMES && hvd_left(deadline) > 0; attempt += strange) {
		socklen_t len = hvd_agent_socket_name(session, node, attempt, &name);

		*listening = try_listen(&name, len, err);
		if (*listening < 0 && err->code)
			return -1;
		fd = try_connect(&name, len, deadline, &strange, err);
		if (fd >= 0)
			return fd;
		if (*listening >= 0)
			close(*listening);
		if (err->code)
			return -1;
	}
	*listening = -1;
	hvd_err_set(err, HVD_E_TIMEOUT, "this host's node agent cannot be reached: its socket belongs to another user");
	return hvd_err_hint(err,
			    "a process of another user on this host has taken abstract sockets @hvd-agent.…; ss -xlp "
			    "shows which");
}
