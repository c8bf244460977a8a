/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_load - loads an HTTP rendezvous at a port of 127.0.0.1, and finds what any server could reach on this machine.
 *
 * rv_load put PORT PATH BYTES                 store a value
 * rv_load rate PORT PATH CONNECTIONS SECONDS  requests, each on a connection of its own. Prints "requests/s p50_us p99_us
 *                                             failures"
 * rv_load mesh PORT RANKS BYTES LIMIT         the full mesh of Gloo contexts of so many simulated ranks, until it is
 *                                             complete or LIMIT seconds have passed; BYTES 0 means the real size, 136 *
 *                                             (RANKS - 1), with Gloo's bytes. Prints "seconds requests requests_without_value
 *                                             megabytes percent_done"
 * rv_load serve PORT BYTES                    accept, read once, answer BYTES, close: an upper bound for any server. It has
 *                                             no keys. Runs until SIGTERM
 * rv_load copy                                print MB/s of memcpy, and of one loopback connection between two processes
 */
#include "mesh.h"
#include "rv_client.h"

#include <netinet/tcp.h>
#include <sys/wait.h>

struct slot {
	struct rv_call call;
	double since;
};

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int put(uint16_t port, const char *path, size_t bytes)
{
	struct rv_call c;
	char *body = calloc(1, bytes + 1), sink[256];
	int ep = epoll_create1(EPOLL_CLOEXEC), rc = 0;

	if (!body || ep < 0)
		rv_die("put");
	memset(body, 'v', bytes);
	rv_start(&c, ep, &c, port, "PUT", path, body, bytes);
	while (rc == 0) {
		struct epoll_event ev;

		if (epoll_wait(ep, &ev, 1, 5000) != 1)
			break;
		rc = rv_step(&c, ep, &c, sink, sizeof(sink));
	}
	free(body);
	return rc == 1 && c.status == 200 ? 0 : 1;
}

static int rate(uint16_t port, const char *path, int conns, double seconds)
{
	static float took[1 << 22];
	static char sink[65536];
	struct epoll_event ev[256];
	struct slot *slots;
	size_t n = 0, failures = 0;
	double end, begin;
	int ep;

	slots = calloc((size_t)conns, sizeof(*slots));
	ep = epoll_create1(EPOLL_CLOEXEC);
	if (!slots || ep < 0)
		rv_die("start");
	begin = rv_now();
	end = begin + seconds;
	for (int i = 0; i < conns; i++) {
		slots[i].since = begin;
		rv_start(&slots[i].call, ep, &slots[i], port, "GET", path, NULL, 0);
	}
	while (rv_now() < end) {
		int got = epoll_wait(ep, ev, 256, 100);

		for (int i = 0; i < got; i++) {
			struct slot *s = ev[i].data.ptr;
			int rc = rv_step(&s->call, ep, s, sink, sizeof(sink));
			double now;

			if (rc == 0)
				continue;
			if (rc < 0)
				rv_close(&s->call);
			now = rv_now();
			if (rc < 0 || s->call.status != 200)
				failures++;
			else if (n < sizeof(took) / sizeof(took[0]))
				took[n++] = (float)(now - s->since);
			s->since = now;
			rv_start(&s->call, ep, s, port, "GET", path, NULL, 0);
		}
	}
	end = rv_now();
	for (int i = 0; i < conns; i++)
		rv_close(&slots[i].call);
	qsort(took, n, sizeof(took[0]), by_value);
	printf("%.0f %.0f %.0f %zu\n", (double)n / (end - begin), n ? (double)took[n / 2] * 1e6 : 0,
	       n ? (double)took[n - n / 100 - 1] * 1e6 : 0, failures);
	close(ep);
	free(slots);
	return 0;
}

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

static int make_mesh(uint16_t port, int ranks, size_t bytes, double limit)
{
	struct mesh m = {.port = port, .total = ranks, .n = ranks, .body_len = bytes};
	double begun = rv_now(), part;

	mesh_start(&m);
	part = mesh_run(&m, limit);
	printf("%.3f %llu %llu %.1f %.1f\n", rv_now() - begun, (unsigned long long)m.requests,
	       (unsigned long long)m.missing, (double)m.bytes / 1e6, part);
	mesh_end(&m);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint16_t port = argc > 2 ? (uint16_t)atoi(argv[2]) : 0;

	if (argc == 5 && strcmp(what, "put") == 0)
		return put(port, argv[3], (size_t)atol(argv[4]));
	if (argc == 6 && strcmp(what, "rate") == 0)
		return rate(port, argv[3], atoi(argv[4]), atof(argv[5]));
	if (argc == 6 && strcmp(what, "mesh") == 0)
		return make_mesh(port, atoi(argv[3]), strtoull(argv[4], NULL, 10), atof(argv[5]));
	if (argc == 4 && strcmp(what, "serve") == 0)
		serve(port, strtoull(argv[3], NULL, 10));
	if (argc == 2 && strcmp(what, "copy") == 0) {
		printf("%.0f %.0f\n", memcpy_rate(), loopback_rate());
		return 0;
	}
	fputs("usage: rv_load put|rate|mesh|serve|copy …\n", stderr);
	return 2;
}
