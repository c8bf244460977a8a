/* SPDX-License-Identifier: Apache-2.0 */
/*
 * awaited.c - two activities, each by a timer: looks, as long as sockets of ranks are known; and the search for these sockets,
 * which works through a list of processes from the last look at /proc.
 */
#include "awaited.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/sock_diag.h"
#include "lib/net/tcp_dump.h"
#include "rank_sockets.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTS_PER_TURN 4     /* of an answer of the kernel */
#define MOST_ENDS      65536 /* connections of ranks */
#define SHARE          500   /* a look may cost one part in so many of a processor */
#define SIX_EVERY      16    /* looks, without connections of IPv6 */
#define IDLE_MS        60000
#define WELL_KNOWN     1024
#define PART_NS        ((hvd_time)HVD_AWAITED_SECONDS * 1000000000 / HVD_AWAITED_PARTS)

/* ---- the decision ---- */

int hvd_awaited_judge(uint32_t sent_ms, uint32_t received_ms)
{
	if (sent_ms > IDLE_MS && received_ms > IDLE_MS)
		return -1;
	return sent_ms > received_ms && sent_ms - received_ms > HVD_AWAITED_GAP_MS;
}

/* Forget the parts that are more than a minute ago. */
static void move_on(struct hvd_awaited_looks *looks, hvd_time now)
{
	const int64_t part = now / PART_NS;

	if (part - looks->part >= HVD_AWAITED_PARTS)
		memset(looks->parts, 0, sizeof(looks->parts));
	else
		for (int64_t p = looks->part + 1; p <= part; p++)
			memset(&looks->parts[p % HVD_AWAITED_PARTS], 0, sizeof(looks->parts[0]));
	looks->part = part;
}

void hvd_awaited_count(struct hvd_awaited_looks *looks, hvd_time now, bool awaited, bool moved)
{
	const int64_t i = now / PART_NS % HVD_AWAITED_PARTS;

	move_on(looks, now);
	if (looks->parts[i].looks == UINT16_MAX)
		return;
	looks->parts[i].looks++;
	looks->parts[i].awaited += awaited;
	looks->parts[i].steps += moved;
}

int64_t hvd_awaited_share(const struct hvd_awaited_looks *looks, hvd_time now)
{
	struct hvd_awaited_looks left = *looks;
	int64_t n = 0, awaited = 0;

	move_on(&left, now);
	for (int i = 0; i < HVD_AWAITED_PARTS; i++) {
		n += left.parts[i].looks;
		awaited += left.parts[i].awaited;
	}
	return n < HVD_AWAITED_LOOKS ? -1 : 1000 * awaited / n;
}

int64_t hvd_awaited_steps(const struct hvd_awaited_looks *looks, hvd_time now)
{
	struct hvd_awaited_looks left = *looks;
	int64_t steps = 0;

	move_on(&left, now);
	for (int i = 0; i < HVD_AWAITED_PARTS; i++)
		steps += left.parts[i].steps;
	return steps;
}

/* ---- ranks ---- */

struct waited_rank {
	pid_t pid; /* its process */
	struct hvd_awaited_looks looks;
	/* Of the look that is under way: the topmost process with connections, and how long ago it has sent and received. */
	unsigned depth;
	bool connected;
	uint32_t sent_ms, received_ms;
};

/* A connection of a rank's process. */
struct end {
	struct hvd_tcp_end tcp;
	pid_t rank; /* the rank's process */
	unsigned depth;
};

struct hvd_awaited {
	struct hvd_rank_sockets *sockets;
	struct hvd_timer *timer;
	hvd_time every, began, last; /* when this look began, and the one before */
	int64_t cost_ns, turn_ns;    /* of this process's processor time: of this look, and when this turn began */
	unsigned looks;
	bool six;                  /* ranks have connections of IPv6 */
	struct waited_rank *ranks; /* by process */
	size_t n;
	/* The look that is under way. */
	int fd;
	struct event *readable;
	sa_family_t family; /* 0: none is under way */
	uint32_t seq;
	struct end *ends;
	size_t n_ends, room;
};

static int by_rank(const void *a, const void *b)
{
	const struct waited_rank *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct waited_rank *find(const struct hvd_awaited *awaited, pid_t pid)
{
	const struct waited_rank key = {.pid = pid};

	return awaited->n ? bsearch(&key, awaited->ranks, awaited->n, sizeof(key), by_rank) : NULL;
}

void hvd_awaited_ranks(struct hvd_awaited *awaited, const struct hvd_rank_look *look)
{
	struct waited_rank *ranks;

	if (!awaited)
		return;
	ranks = hvd_xcalloc(look->n + 1, sizeof(*ranks));
	for (size_t i = 0; i < look->n; i++) {
		const struct waited_rank *known = find(awaited, look->ranks[i].pid);

		ranks[i] = known ? *known : (struct waited_rank){.pid = look->ranks[i].pid};
	}
	if (look->n)
		qsort(ranks, look->n, sizeof(*ranks), by_rank);
	free(awaited->ranks);
	awaited->ranks = ranks;
	awaited->n = look->n;
	hvd_rank_sockets_look(awaited->sockets, look);
}

int64_t hvd_awaited_of(const struct hvd_awaited *awaited, pid_t pid, int64_t *steps)
{
	const struct waited_rank *known = awaited ? find(awaited, pid) : NULL;
	const hvd_time now = hvd_now();
	const int64_t share = known ? hvd_awaited_share(&known->looks, now) : -1;

	*steps = share >= 0 ? hvd_awaited_steps(&known->looks, now) : 0;
	return share;
}

/* ---- connections ---- */

/* The same for both ends of a connection on this host, if those of one are swapped. */
static int compare_ends(const struct hvd_tcp_end *x, const struct hvd_tcp_end *y, bool swapped)
{
	const uint16_t port = swapped ? y->peer_port : y->port, peer_port = swapped ? y->port : y->peer_port;

	if (x->port != port)
		return x->port < port ? -1 : 1;
	if (x->peer_port != peer_port)
		return x->peer_port < peer_port ? -1 : 1;
	return 0;
}

static int by_ports(const void *a, const void *b)
{
	return compare_ends(&((const struct end *)a)->tcp, &((const struct end *)b)->tcp, false);
}

/* The index of the first end whose ports are those of the other end of `end`. */
static size_t first_twin(const struct hvd_awaited *awaited, const struct hvd_tcp_end *end)
{
	size_t from = 0, to = awaited->n_ends;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (compare_ends(&awaited->ends[middle].tcp, end, true) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Is the other end another rank's? */
static bool is_between_ranks(const struct hvd_awaited *awaited, const struct end *end)
{
	const struct hvd_tcp_end *tcp = &end->tcp;

	if (!hvd_tcp_end_is_local(tcp))
		return ntohs(tcp->peer_port) >= WELL_KNOWN && ntohs(tcp->port) >= WELL_KNOWN &&
		       !hvd_rank_sockets_is_store(awaited->sockets, ntohs(tcp->peer_port)) &&
		       !hvd_rank_sockets_is_store(awaited->sockets, ntohs(tcp->port));
	for (size_t i = first_twin(awaited, tcp);
	     i < awaited->n_ends && compare_ends(&awaited->ends[i].tcp, tcp, true) == 0; i++)
		if (awaited->ends[i].rank != end->rank &&
		    !hvd_rank_sockets_is_store(awaited->sockets, ntohs(tcp->peer_port)) &&
		    !hvd_rank_sockets_is_store(awaited->sockets, ntohs(tcp->port)))
			return true;
	return false;
}

static void add_to_rank(struct waited_rank *rank, const struct end *end)
{
	if (!rank->connected || end->depth < rank->depth) {
		rank->connected = true;
		rank->depth = end->depth;
		rank->sent_ms = rank->received_ms = UINT32_MAX;
	}
	if (end->depth > rank->depth)
		return;
	if (end->tcp.sent_ms < rank->sent_ms)
		rank->sent_ms = end->tcp.sent_ms;
	if (end->tcp.received_ms < rank->received_ms)
		rank->received_ms = end->tcp.received_ms;
}

static void on_end(const struct hvd_tcp_end *tcp, void *arg)
{
	struct hvd_awaited *awaited = arg;
	struct end end = {.tcp = *tcp};

	if (awaited->n_ends == MOST_ENDS || !hvd_rank_sockets_find(awaited->sockets, tcp->inode, &end.rank, &end.depth))
		return;
	awaited->ends = hvd_xgrow(awaited->ends, awaited->n_ends, &awaited->room, sizeof(*awaited->ends));
	awaited->ends[awaited->n_ends++] = end;
	awaited->six = awaited->six || tcp->family == AF_INET6;
}

/* ---- looks ---- */

static void conclude(struct hvd_awaited *awaited)
{
	const hvd_time now = hvd_now();
	const int64_t since_ms = (awaited->began - awaited->last) / 1000000;

	if (awaited->n_ends)
		qsort(awaited->ends, awaited->n_ends, sizeof(*awaited->ends), by_ports);
	for (size_t i = 0; i < awaited->n; i++)
		awaited->ranks[i].connected = false;
	for (size_t i = 0; i < awaited->n_ends; i++) {
		struct waited_rank *rank = find(awaited, awaited->ends[i].rank);

		if (rank && is_between_ranks(awaited, &awaited->ends[i]))
			add_to_rank(rank, &awaited->ends[i]);
	}
	for (size_t i = 0; i < awaited->n; i++) {
		struct waited_rank *rank = &awaited->ranks[i];
		int verdict = rank->connected ? hvd_awaited_judge(rank->sent_ms, rank->received_ms) : -1;

		if (verdict >= 0)
			hvd_awaited_count(&rank->looks, now, verdict > 0, rank->sent_ms < since_ms);
		if (!rank->connected)
			hvd_rank_sockets_missing(awaited->sockets);
	}
}

static void end_look(struct hvd_awaited *awaited)
{
	const hvd_time rest = (awaited->cost_ns + hvd_thread_cpu_ns() - awaited->turn_ns) * SHARE;

	event_del(awaited->readable);
	awaited->family = 0;
	awaited->n_ends = 0;
	hvd_timer_at(awaited->timer, awaited->began + (rest > awaited->every ? rest : awaited->every));
}

static void ask(struct hvd_awaited *awaited, sa_family_t family)
{
	awaited->family = family;
	if (hvd_tcp_dump_ask(awaited->fd, family, ++awaited->seq) == 0)
		event_add(awaited->readable, NULL);
	else
		end_look(awaited);
}

static void read_parts(struct hvd_awaited *awaited)
{
	enum hvd_tcp_dump_state state = HVD_TCP_DUMP_MORE;

	for (int i = 0; i < PARTS_PER_TURN && state == HVD_TCP_DUMP_MORE; i++)
		state = hvd_tcp_dump_read(awaited->fd, awaited->seq, on_end, awaited);
	if (state == HVD_TCP_DUMP_FAILED) {
		end_look(awaited);
	} else if (state == HVD_TCP_DUMP_DONE && awaited->family == AF_INET &&
		   (awaited->six || awaited->looks++ % SIX_EVERY == 0)) {
		awaited->six = false;
		ask(awaited, AF_INET6);
	} else if (state == HVD_TCP_DUMP_DONE) {
		conclude(awaited);
		end_look(awaited);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_awaited *awaited = arg;

	(void)fd;
	(void)what;
	awaited->turn_ns = hvd_thread_cpu_ns();
	if (awaited->family)
		read_parts(awaited);
	awaited->cost_ns += hvd_thread_cpu_ns() - awaited->turn_ns;
}

static void on_timer(void *arg)
{
	struct hvd_awaited *awaited = arg;

	awaited->turn_ns = hvd_thread_cpu_ns();
	awaited->last = awaited->began;
	awaited->began = hvd_now();
	awaited->cost_ns = 0;
	if (hvd_rank_sockets_any(awaited->sockets))
		ask(awaited, AF_INET);
	else
		end_look(awaited);
	awaited->cost_ns += hvd_thread_cpu_ns() - awaited->turn_ns;
}

/* ---- life ---- */

struct hvd_awaited *hvd_awaited_create(struct event_base *base, hvd_time every)
{
	struct hvd_awaited *awaited;
	int fd = hvd_peer_uid_open();

	if (fd < 0)
		return NULL;
	awaited = hvd_xcalloc(1, sizeof(*awaited));
	awaited->fd = fd;
	awaited->every = every;
	awaited->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, awaited);
	awaited->timer = hvd_timer_new(base, on_timer, awaited);
	awaited->sockets = hvd_rank_sockets_create(base);
	hvd_timer_at(awaited->timer, hvd_now() + every);
	return awaited;
}

void hvd_awaited_destroy(struct hvd_awaited *awaited)
{
	if (!awaited)
		return;
	hvd_event_unwatch(&awaited->readable);
	hvd_timer_free(awaited->timer);
	hvd_rank_sockets_destroy(awaited->sockets);
	close(awaited->fd);
	free(awaited->ranks);
	free(awaited->ends);
	free(awaited);
}
