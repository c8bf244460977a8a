/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mesh.h - ranks that make a full mesh of Gloo contexts at a rendezvous.
 *
 * Each simulated rank makes one request at a time, on a connection of its own: PUT rank_<r>; GET rank_<i> for all
 * lower ranks; PUT <r>; for each other rank i GET <i>, repeated every 10 ms while the answer is 404, and a second time
 * when it is 200; DELETE <r> when all ranks have come that far. The ranks of a mesh may be in several processes: those
 * that one process has are next to each other.
 */
#ifndef HVD_BENCH_MESH_H
#define HVD_BENCH_MESH_H

#include "rv_client.h"

/* ---- what a rank of Horovod's Gloo publishes ---- */

/*
 * For each of its peers a struct of 136 bytes, an address in a sockaddr_storage behind which there is what the stack held.
 * The pattern is that of Horovod 0.28.1 with 6 ranks: the words of a rank's structs are the same for all of its peers,
 * except the port and two words with an address of the heap. They differ between ranks, since address spaces are laid
 * out at random. zstd makes 165 to 177 bytes of the 680 of a rank there.
 */
#define GLOO_PEER 136

static inline uint32_t gloo_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* The value of rank `rank` for `peers` other ranks: GLOO_PEER * peers bytes. */
static inline void gloo_value(unsigned char *out, size_t peers, uint32_t rank)
{
	/* Words that are pointers into four mappings, and words that are the same for all ranks. */
	static const uint32_t constant[GLOO_PEER / 4] = {[1] = 0x0100000a, [8] = 2, [18] = 5, [20] = 2, [28] = 1};
	static const unsigned char mapping[GLOO_PEER / 4] = {
		[4] = 1, [6] = 2, [10] = 2, [14] = 3, [16] = 1, [22] = 2, [26] = 1, [29] = 1};
	uint64_t state = rank + 1;
	uint32_t base[4], words[GLOO_PEER / 4], heap = 0x1d00;

	for (size_t i = 0; i < 4; i++)
		base[i] = gloo_random(&state) & 0xffffff00;
	for (size_t i = 0; i < GLOO_PEER / 4; i++) {
		words[i] = mapping[i] ? base[mapping[i]] + (uint32_t)i * 0x50 : constant[i];
		if (i > 0 && mapping[i - 1])
			words[i] = 0x7f00 + (base[0] >> 8) % 0x100;
	}
	words[27] = 0;
	memset(&words[31], 0xff, 3 * sizeof(words[0]));
	for (size_t i = 0; i < peers; i++, out += GLOO_PEER) {
		uint32_t port = 32768 + gloo_random(&state) % 28232;

		words[0] = 2 | (port >> 8 | (port & 0xff) << 8) << 16;
		heap += 0x40 * (gloo_random(&state) % 32);
		words[26] = base[1] + heap;
		words[29] = words[26] + 16;
		memcpy(out, words, sizeof(words));
	}
}

/* ---- the mesh ---- */

#define MESH_POLL 0.010
#define MESH_SINK (1 << 20)

enum mesh_step {
	PUT_NAME,
	GET_NAMES,
	PUT_ADDR,
	WAIT_ADDR,
	GET_ADDR,
	BARRIER,
	DELETE_ADDR,
	DONE
};

struct mesh_rank {
	struct rv_call call;
	int me, other;
	enum mesh_step step;
	double again;            /* time of the next poll */
	struct mesh_rank *sleep; /* in the list of polling ranks, sorted by `again` */
};

struct mesh {
	int total;    /* ranks of the mesh */
	int first, n; /* those of this process */
	uint16_t port;
	size_t body_len; /* 0: as long as Gloo's */
	/* Private: */
	int ep;
	char *body, *sink;
	bool real; /* a value's bytes are Gloo's */
	struct mesh_rank *ranks, *sleepers, **last;
	/* To be read: */
	int at_barrier, done;
	uint64_t requests, missing, bytes;
};

/* The value of a rank, which is valid until the next call. */
static inline const char *mesh_body(struct mesh *m, int rank)
{
	if (m->real)
		gloo_value((unsigned char *)m->body, (size_t)m->total - 1, (uint32_t)rank);
	return m->body;
}

static inline void mesh_begin(struct mesh *m, struct mesh_rank *r)
{
	static const char *const method[] = {"PUT", "GET", "PUT", "GET", "GET", "", "DELETE"};
	char path[64];
	bool name = r->step <= GET_NAMES, own = r->step == PUT_NAME || r->step == PUT_ADDR || r->step == DELETE_ADDR;

	snprintf(path, sizeof(path), "/global/%s%d", name ? "rank_" : "", own ? r->me : r->other);
	m->requests++;
	rv_start(&r->call, m->ep, r, m->port, method[r->step], path, r->step == PUT_NAME ? "node-with-a-name" : NULL,
		 r->step == PUT_NAME   ? 16
		 : r->step == PUT_ADDR ? m->body_len
				       : 0);
	if (r->step != PUT_ADDR)
		return;
	/* All ranks put their values at about the same time, so each needs its own bytes while it sends. */
	r->call.body = malloc(m->body_len);
	if (!r->call.body)
		rv_die("malloc");
	memcpy((char *)(uintptr_t)r->call.body, mesh_body(m, r->me), m->body_len);
}

static inline void mesh_next_other(struct mesh *m, struct mesh_rank *r)
{
	r->step = WAIT_ADDR;
	if (++r->other == r->me)
		r->other++;
	if (r->other >= m->total)
		r->step = BARRIER;
}

/* A request was answered: begin the rank's next one. */
static inline void mesh_advance(struct mesh *m, struct mesh_rank *r)
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
		free((char *)(uintptr_t)r->call.body);
		r->other = -1;
		mesh_next_other(m, r);
		break;
	case WAIT_ADDR:
		if (r->call.status == 200) {
			r->step = GET_ADDR;
			break;
		}
		m->missing++;
		r->again = rv_now() + MESH_POLL;
		r->sleep = NULL;
		*m->last = r;
		m->last = &r->sleep;
		return;
	case GET_ADDR:
		mesh_next_other(m, r);
		break;
	case DELETE_ADDR:
		r->step = DONE;
		m->done++;
		return;
	case BARRIER:
	case DONE:
		return;
	}
	if (r->step != BARRIER)
		mesh_begin(m, r);
	else
		m->at_barrier++;
}

static inline void mesh_wake_sleepers(struct mesh *m)
{
	double now = rv_now();

	while (m->sleepers && m->sleepers->again <= now) {
		struct mesh_rank *r = m->sleepers;

		m->sleepers = r->sleep;
		if (!m->sleepers)
			m->last = &m->sleepers;
		mesh_begin(m, r);
	}
}

/* Let all ranks begin. `total`, `first`, `n`, `port` and `body_len` are set, all else is zero. */
static inline void mesh_start(struct mesh *m)
{
	m->real = m->body_len == 0;
	if (m->real)
		m->body_len = GLOO_PEER * (size_t)(m->total - 1);
	m->last = &m->sleepers;
	m->ep = epoll_create1(EPOLL_CLOEXEC);
	m->ranks = calloc((size_t)m->n, sizeof(*m->ranks));
	m->body = calloc(1, m->body_len + 1);
	m->sink = malloc(MESH_SINK);
	if (m->ep < 0 || !m->ranks || !m->body || !m->sink)
		rv_die("start");
	for (int i = 0; i < m->n; i++) {
		m->ranks[i].me = m->first + i;
		mesh_begin(m, &m->ranks[i]);
	}
}

/* Wait for answers, `ms` at most, and go on. */
static inline void mesh_turn(struct mesh *m, int ms)
{
	struct epoll_event ev[512];
	int got = epoll_wait(m->ep, ev, 512, m->sleepers && ms > 1 ? 1 : ms);

	for (int i = 0; i < got; i++) {
		struct mesh_rank *r = ev[i].data.ptr;
		int rc = rv_step(&r->call, m->ep, r, m->sink, MESH_SINK);

		if (rc < 0 || (rc > 0 && r->call.status != 200 && r->call.status != 404)) {
			fprintf(stderr, "rank %d: a request failed (status %d)\n", r->me, r->call.status);
			exit(1);
		}
		if (rc == 0)
			continue;
		m->bytes += r->call.got + r->call.body_len;
		mesh_advance(m, r);
	}
	mesh_wake_sleepers(m);
}

/* All ranks of all processes are at the barrier: let those of this process delete their values. */
static inline void mesh_delete(struct mesh *m)
{
	for (int i = 0; i < m->n; i++) {
		m->ranks[i].step = DELETE_ADDR;
		mesh_begin(m, &m->ranks[i]);
	}
}

/* Until all are done, or the limit has passed: for a mesh that is all in this process. Returns the part that is done,
 * in percent. */
static inline double mesh_run(struct mesh *m, double limit)
{
	double begun = rv_now(), n = m->total;
	bool deleting = false;

	while (m->done < m->n && rv_now() - begun < limit) {
		mesh_turn(m, 100);
		if (m->at_barrier == m->n && !deleting) {
			deleting = true;
			mesh_delete(m);
		}
	}
	return m->done == m->n ? 100.0
			       : 100.0 * (double)(m->requests - m->missing) / (n * (3 + 2 * (n - 1)) + n * (n - 1) / 2);
}

static inline void mesh_end(struct mesh *m)
{
	for (int i = 0; i < m->n; i++)
		if (m->ranks[i].step != DONE && m->ranks[i].call.fd > 0)
			rv_close(&m->ranks[i].call);
	free(m->ranks);
	free(m->body);
	free(m->sink);
	close(m->ep);
}

#endif
