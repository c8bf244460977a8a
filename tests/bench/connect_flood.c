/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect_flood ADDRESS PORT RATE SECONDS [TEXT [FIRST-LAST]] - flood a port with connections, as somebody would who
 * wants to keep others from it.
 *
 * Makes RATE connections a second, or as many as the machine can. On each it sends TEXT, if there is one, in which \xHH
 * is a byte, and resets the connection. With an ADDRESS in 127/8 the source addresses vary within 127/8, so that ports
 * do not run out; but with FIRST-LAST the source ports are these, one after the other, and the source address is ADDRESS
 * if that is in 127/8. Ends after SECONDS, on SIGTERM, or when nobody listens any longer. Prints a line when it begins, and "N
 * connections a second, M failures" at the end.
 */
#include "connect.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define OPEN_MAX_AT_ONCE 512 /* connections under way */
#define GIVE_UP          0.2 /* seconds after which a connection has failed: the server's queue is full */

struct attempt {
	int fd;
	hvd_time since;
};

/* The source ports; 0: the kernel's choice. */
static unsigned first_port, last_port;

static void hang_up(struct attempt *a)
{
	break_off(a->fd);
	a->fd = -1;
}

/* Choose another source address each time, if the target is in 127/8. */
static void vary(int fd, const struct sockaddr_storage *to, uint32_t turn)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	int on = 1;

	if (to->ss_family != AF_INET || ntohl(((const struct sockaddr_in *)to)->sin_addr.s_addr) >> 24 != 127)
		return;
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + turn % 250);
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0)
		perror("bind");
}

/* Take the next source port. False: it is in use. */
static bool take_port(int fd, const struct sockaddr_storage *to, socklen_t len)
{
	static unsigned n;
	struct sockaddr_storage from = *to;

	if (to->ss_family == AF_INET && ntohl(((const struct sockaddr_in *)to)->sin_addr.s_addr) >> 24 != 127)
		((struct sockaddr_in *)&from)->sin_addr.s_addr = htonl(INADDR_ANY);
	/* sin_port and sin6_port are at the same place. */
	((struct sockaddr_in *)&from)->sin_port = htons((in_port_t)(first_port + n++ % (last_port - first_port + 1)));
	return bind(fd, (struct sockaddr *)&from, len) == 0;
}

/* Count a failure, and print the first one's error. */
static bool failure(uint64_t *failed, int error)
{
	if (error == ECONNREFUSED)
		ended = 1;
	else if ((*failed)++ == 0)
		fprintf(stderr, "connect: %s\n", strerror(error));
	return false;
}

static bool begin(struct attempt *a, int ep, const struct sockaddr_storage *to, socklen_t len, uint32_t turn,
		  uint64_t *failed)
{
	struct epoll_event ev = {.events = EPOLLOUT, .data.ptr = a};
	int error;

	a->fd = open_socket(to);
	if (a->fd < 0)
		return failure(failed, errno);
	a->since = hvd_now();
	if (!first_port) {
		vary(a->fd, to, turn);
	} else if (!take_port(a->fd, to, len)) {
		close(a->fd);
		a->fd = -1;
		return failure(failed, EADDRINUSE);
	}
	error = begin_connect(a->fd, to, len);
	if (error == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, a->fd, &ev) != 0) {
		error = errno;
		close(a->fd);
	}
	if (error == 0)
		return true;
	a->fd = -1;
	return failure(failed, error);
}

/* The connection is open: send TEXT. -1 with errno when connecting or sending has failed. */
static int finish(struct attempt *a, const char *text, size_t text_len)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0 &&
	    (text_len == 0 || send(a->fd, text, text_len, MSG_NOSIGNAL) > 0))
		return 0;
	errno = error ? error : errno;
	return -1;
}

/* Replace each \xHH, in place. Returns the length. */
static size_t unescape(char *text)
{
	char *to = text;
	unsigned byte;

	for (const char *p = text; *p; to++) {
		if (sscanf(p, "\\x%2x", &byte) == 1) {
			*to = (char)byte;
			p += 4;
		} else {
			*to = *p++;
		}
	}
	return (size_t)(to - text);
}

int main(int argc, char **argv)
{
	static struct attempt attempts[OPEN_MAX_AT_ONCE];
	struct attempt *free_ones[OPEN_MAX_AT_ONCE];
	struct epoll_event ev[OPEN_MAX_AT_ONCE];
	struct sockaddr_storage to;
	socklen_t len = argc < 5 ? 0 : parse_target(argv, &to);
	char *text = argc > 5 ? argv[5] : NULL;
	size_t text_len = text ? unescape(text) : 0;
	int ep = epoll_create1(EPOLL_CLOEXEC), n_free = OPEN_MAX_AT_ONCE;
	uint64_t made = 0, failed = 0, begun = 0;
	hvd_time start = hvd_now();
	double rate, seconds;

	if (len == 0 || ep < 0 ||
	    (argc > 6 && (sscanf(argv[6], "%u-%u", &first_port, &last_port) != 2 || first_port == 0 ||
			  last_port < first_port || last_port > 65535))) {
		fputs("usage: connect_flood ADDRESS PORT RATE SECONDS [TEXT [FIRST-LAST]]\n", stderr);
		return 2;
	}
	rate = atof(argv[3]);
	seconds = atof(argv[4]);
	signal(SIGTERM, on_end);
	for (int i = 0; i < OPEN_MAX_AT_ONCE; i++)
		free_ones[i] = &attempts[i];
	puts("connecting");
	fflush(stdout);
	for (double t = 0; t < seconds && !ended; t = seconds_since(start)) {
		int n;

		while (n_free > 0 && (double)begun < t * rate) {
			begun++;
			if (!begin(free_ones[n_free - 1], ep, &to, len, (uint32_t)begun, &failed))
				break;
			n_free--;
		}
		n = epoll_wait(ep, ev, OPEN_MAX_AT_ONCE, 1);
		for (int i = 0; i < n; i++) {
			struct attempt *a = ev[i].data.ptr;

			if (finish(a, text, text_len) == 0)
				made++;
			else
				failure(&failed, errno);
			hang_up(a);
			free_ones[n_free++] = a;
		}
		for (int i = 0; n == 0 && i < OPEN_MAX_AT_ONCE; i++)
			if (attempts[i].since > 0 && attempts[i].fd > 0 && seconds_since(attempts[i].since) > GIVE_UP) {
				failed++;
				hang_up(&attempts[i]);
				free_ones[n_free++] = &attempts[i];
			}
	}
	printf("%.0f connections a second, %llu failures\n", (double)made / seconds_since(start),
	       (unsigned long long)failed);
	return 0;
}
