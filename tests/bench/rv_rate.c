/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_rate PORT PATH CONNECTIONS SECONDS - requests a second, each on a connection of its own.
 *
 * Prints "requests/s p50_us p99_us failures". `rv_rate PORT --put PATH BYTES` stores a value instead.
 */
#include "rv_client.h"

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

int main(int argc, char **argv)
{
	static float took[1 << 22];
	static char sink[65536];
	struct epoll_event ev[256];
	struct slot *slots;
	size_t n = 0, failures = 0;
	double end, begin;
	uint16_t port;
	int ep, conns;

	if (argc != 5) {
		fputs("usage: rv_rate PORT PATH CONNECTIONS SECONDS | rv_rate PORT --put PATH BYTES\n", stderr);
		return 2;
	}
	port = (uint16_t)atoi(argv[1]);
	if (strcmp(argv[2], "--put") == 0)
		return put(port, argv[3], (size_t)atol(argv[4]));
	conns = atoi(argv[3]);
	slots = calloc((size_t)conns, sizeof(*slots));
	ep = epoll_create1(EPOLL_CLOEXEC);
	if (!slots || ep < 0)
		rv_die("start");
	begin = rv_now();
	end = begin + atof(argv[4]);
	for (int i = 0; i < conns; i++) {
		slots[i].since = begin;
		rv_start(&slots[i].call, ep, &slots[i], port, "GET", argv[2], NULL, 0);
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
			rv_start(&s->call, ep, s, port, "GET", argv[2], NULL, 0);
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
