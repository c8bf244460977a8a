/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_bound serve PORT BYTES - accept, read once, answer BYTES, close: an upper bound for any server on this machine. It
 *                             has no keys. Runs until SIGTERM.
 * rv_bound copy             - print MB/s of memcpy, and of one loopback connection between two processes
 */
#include "rv_client.h"

#include <netinet/tcp.h>
#include <sys/wait.h>

static int listen_on(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, SOMAXCONN) != 0)
		rv_die("listen");
	return fd;
}

/* The sockets are blocking: the client's request is there when accept() returns. */
static _Noreturn void serve(uint16_t port, size_t bytes)
{
	char *answer = calloc(1, bytes + 256), in[4096];
	int listening = listen_on(port);
	size_t len;

	if (!answer)
		rv_die("start");
	len = (size_t)sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", bytes) + bytes;
	for (;;) {
		int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		if (recv(fd, in, sizeof(in), 0) > 0)
			send(fd, answer, len, MSG_NOSIGNAL | MSG_MORE);
		close(fd);
	}
}

static double memcpy_rate(void)
{
	const size_t size = 64 << 20;
	char *a = malloc(size), *b = malloc(size);
	double begun;

	if (!a || !b)
		rv_die("malloc");
	memset(a, 1, size);
	memset(b, 2, size);
	begun = rv_now();
	for (int i = 0; i < 16; i++) {
		memcpy(b, a, size);
		a[i] = b[size - 1]; /* so that the compiler omits no copy */
	}
	begun = rv_now() - begun;
	free(a);
	free(b);
	return 16 * (double)size / 1e6 / begun;
}

static double loopback_rate(void)
{
	const size_t total = (size_t)2 << 30;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	static char buf[1 << 18];
	int l = listen_on(0), c;
	size_t got = 0;
	double begun;
	pid_t pid;

	if (getsockname(l, (struct sockaddr *)&at, &len) != 0)
		rv_die("getsockname");
	pid = fork();
	if (pid == 0) {
		int s = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(s, (struct sockaddr *)&at, len) != 0)
			_exit(1);
		for (size_t sent = 0; sent < total;) {
			ssize_t n = send(s, buf, sizeof(buf), MSG_NOSIGNAL);

			if (n <= 0)
				_exit(1);
			sent += (size_t)n;
		}
		_exit(0);
	}
	c = accept(l, NULL, NULL);
	begun = rv_now();
	for (ssize_t n; (n = recv(c, buf, sizeof(buf), 0)) > 0;)
		got += (size_t)n;
	begun = rv_now() - begun;
	waitpid(pid, NULL, 0);
	close(c);
	close(l);
	return (double)got / 1e6 / begun;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		serve((uint16_t)atoi(argv[2]), strtoull(argv[3], NULL, 10));
	if (argc == 2 && strcmp(argv[1], "copy") == 0) {
		printf("%.0f %.0f\n", memcpy_rate(), loopback_rate());
		return 0;
	}
	fputs("usage: rv_bound serve PORT BYTES | rv_bound copy\n", stderr);
	return 2;
}
