/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_mesh PORT RANKS BYTES LIMIT - the requests that a full mesh of Gloo contexts makes, in one process.
 *
 * Each simulated rank makes one request at a time, on a connection of its own: PUT rank_<r>; GET rank_<i> for all
 * lower ranks; PUT <r>; for each other rank i GET <i>, repeated every 10 ms while the answer is 404, and a second time
 * when it is 200; DELETE <r> when all ranks have come that far. BYTES 0 means the real size, 136 * (RANKS - 1).
 *
 * Prints "seconds requests 404s MB finished%". Stops after LIMIT seconds; finished% is the part of the requests
 * that was made.
 */
#include "rv_client.h"

#define POLL 0.010

enum step {
	PUT_NAME,
	GET_NAMES,
	PUT_ADDR,
	WAIT_ADDR,
	GET_ADDR,
	BARRIER,
	DELETE_ADDR,
	DONE
};

struct rank {
	struct rv_call call;
	int me, other;
	enum step step;
	double again;       /* time of the next poll */
	struct rank *sleep; /* in the list of polling ranks, sorted by `again` */
};

struct mesh {
	int ep, n;
	uint16_t port;
	char *body, *sink;
	size_t body_len;
	struct rank *ranks, *sleepers, **last;
	int at_barrier, done;
	uint64_t requests, missing, bytes;
};

#define SINK (1 << 20)

static void begin(struct mesh *m, struct rank *r)
{
	static const char *const method[] = {"PUT", "GET", "PUT", "GET", "GET", "", "DELETE"};
	char path[64];
	bool name = r->step <= GET_NAMES, own = r->step == PUT_NAME || r->step == PUT_ADDR || r->step == DELETE_ADDR;

	snprintf(path, sizeof(path), "/global/%s%d", name ? "rank_" : "", own ? r->me : r->other);
	m->requests++;
	rv_start(&r->call, m->ep, r, m->port, method[r->step], path,
		 r->step == PUT_NAME   ? "node-with-a-name"
		 : r->step == PUT_ADDR ? m->body
				       : NULL,
		 r->step == PUT_NAME   ? 16
		 : r->step == PUT_ADDR ? m->body_len
				       : 0);
}

static void next_other(struct mesh *m, struct rank *r)
{
	r->step = WAIT_ADDR;
	if (++r->other == r->me)
		r->other++;
	if (r->other >= m->n)
		r->step = BARRIER;
}

/* A request was answered: begin the rank's next one. */
static void advance(struct mesh *m, struct rank *r)
{
	switch (r->step) {
	case PUT_NAME:
		r->other = -1;
		r->step = GET_NAMES;
		/* fall through */
	case GET_NAMES:
		if (++r->other >= r->me)
			r->step = PUT_ADDR;
		break;
	case PUT_ADDR:
		r->other = -1;
		next_other(m, r);
		break;
	case WAIT_ADDR:
		if (r->call.status == 200) {
			r->step = GET_ADDR;
			break;
		}
		m->missing++;
		r->again = rv_now() + POLL;
		r->sleep = NULL;
		*m->last = r;
		m->last = &r->sleep;
		return;
	case GET_ADDR:
		next_other(m, r);
		break;
	case DELETE_ADDR:
		r->step = DONE;
		m->done++;
		return;
	case BARRIER:
	case DONE:
		return;
	}
	if (r->step != BARRIER) {
		begin(m, r);
		return;
	}
	if (++m->at_barrier < m->n)
		return;
	for (int i = 0; i < m->n; i++) {
		m->ranks[i].step = DELETE_ADDR;
		begin(m, &m->ranks[i]);
	}
}

static void wake_sleepers(struct mesh *m)
{
	double now = rv_now();

	while (m->sleepers && m->sleepers->again <= now) {
		struct rank *r = m->sleepers;

		m->sleepers = r->sleep;
		if (!m->sleepers)
			m->last = &m->sleepers;
		begin(m, r);
	}
}

int main(int argc, char **argv)
{
	struct mesh m = {0};
	struct epoll_event ev[512];
	double begun, limit;
	uint64_t expected;

	if (argc != 5) {
		fputs("usage: rv_mesh PORT RANKS BYTES LIMIT\n", stderr);
		return 2;
	}
	m.port = (uint16_t)atoi(argv[1]);
	m.n = atoi(argv[2]);
	m.body_len = strtoull(argv[3], NULL, 10);
	if (m.body_len == 0)
		m.body_len = 136 * (size_t)(m.n - 1);
	limit = atof(argv[4]);
	m.last = &m.sleepers;
	m.ep = epoll_create1(EPOLL_CLOEXEC);
	m.ranks = calloc((size_t)m.n, sizeof(*m.ranks));
	m.body = calloc(1, m.body_len + 1);
	m.sink = malloc(SINK);
	if (m.ep < 0 || !m.ranks || !m.body || !m.sink)
		rv_die("start");
	begun = rv_now();
	for (int i = 0; i < m.n; i++) {
		m.ranks[i].me = i;
		begin(&m, &m.ranks[i]);
	}
	while (m.done < m.n && rv_now() - begun < limit) {
		int got = epoll_wait(m.ep, ev, 512, m.sleepers ? 1 : 100);

		for (int i = 0; i < got; i++) {
			struct rank *r = ev[i].data.ptr;
			int rc = rv_step(&r->call, m.ep, r, m.sink, SINK);

			if (rc < 0 || (rc > 0 && r->call.status != 200 && r->call.status != 404)) {
				fprintf(stderr, "rank %d: a request failed (status %d)\n", r->me, r->call.status);
				return 1;
			}
			if (rc == 0)
				continue;
			m.bytes += r->call.got + r->call.body_len;
			advance(&m, r);
		}
		wake_sleepers(&m);
	}
	expected = (uint64_t)m.n * (uint64_t)(3 + 2 * (m.n - 1)) + (uint64_t)m.n * (uint64_t)(m.n - 1) / 2;
	printf("%.3f %llu %llu %.1f %.1f\n", rv_now() - begun, (unsigned long long)m.requests,
	       (unsigned long long)m.missing, (double)m.bytes / 1e6,
	       m.done == m.n ? 100.0 : 100.0 * (double)(m.requests - m.missing) / (double)expected);
	for (int i = 0; i < m.n; i++)
		if (m.ranks[i].step != DONE && m.ranks[i].call.fd > 0)
			rv_close(&m.ranks[i].call);
	free(m.ranks);
	free(m.body);
	free(m.sink);
	close(m.ep);
	return 0;
}
