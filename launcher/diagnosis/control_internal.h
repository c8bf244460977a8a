/* SPDX-License-Identifier: Apache-2.0 */
/* control_internal.h - what the two ends of the control socket share: control.c, control_ask.c. No other file includes
 * this. */
#ifndef HVD_CONTROL_INTERNAL_H
#define HVD_CONTROL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* How long a step of a client may take. */
#define CLIENT_SECONDS 5
#define MAX_REQUEST    64

/* The address of a socket in the abstract namespace. Returns its length. */
static inline socklen_t hvd_control_address(const char *name, struct sockaddr_un *sun)
{
	size_t n = strlen(name);

	*sun = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (n + 1 > sizeof(sun->sun_path))
		n = sizeof(sun->sun_path) - 1;
	memcpy(sun->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* Is the peer a process of this user, or of root? */
static inline bool hvd_control_is_own(int fd, bool or_root)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == getuid() || (or_root && peer.uid == 0));
}

#endif
