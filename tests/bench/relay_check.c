/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_check direct|relays RANKS SECONDS [RANKS_PER_HOST] - what ranks cost the rendezvous that look for a key which
 * is not there once a second each, as NCCL's watchdog does in every rank for as long as a training lasts.
 *
 * All ranks come to the TCPStore first. `direct`: each has a connection to the root. `relays`: each host has one; the
 * ranks of the last host are clients of a real relay, which is a process of its own, and all other relays are simulated
 * (relay_sim.h): they say what relays say for such ranks.
 *
 * Prints the share of a core that the root, and that relay, use while the ranks look.
 */
#include "connect.h"
#include "relay_servers.h"
#include "relay_sim.h"
#include "tests/unit/tcpstore_bytes.h"

#include <inttypes.h>
#include <sys/epoll.h>

struct rank {
	int fd;
	size_t answers; /* bytes that are still to come */
	hvd_time next;
};

static uint64_t looked;

static void say(struct rank *r, struct bytes *b, size_t answers)
{
	if (send(r->fd, b->p, b->n, MSG_NOSIGNAL) != (ssize_t)b->n)
		server_die("send");
	r->answers += answers;
	b->n = 0;
}

static void hear(struct rank *r)
{
	char sink[256];
	ssize_t n = recv(r->fd, sink, sizeof(sink), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || (size_t)n > r->answers)
		server_die("a rank was not answered as it should be");
	r->answers -= (size_t)n;
}

static void come(int ep, struct rank *r, in_port_t port, uint32_t pid)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = r};
	struct bytes b = {0};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (r->fd < 0 || connect(r->fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, r->fd, &ev) != 0)
		server_die("connect");
	add_validate(&b);
	add_ping(&b, pid);
	add_count(&b, HVD_TCPSTORE_ADD, "init/", 1);
	say(r, &b, 12);
	free(b.p);
}

static void look(struct rank *r, unsigned number)
{
	struct bytes b = {0};
	char key[64];

	snprintf(key, sizeof(key), "/default_pg/0//cuda//dump_%u", number);
	add_keys(&b, HVD_TCPSTORE_CHECK, (const char *const[]){key}, 1);
	say(r, &b, 1);
	free(b.p);
	looked++;
}

/* For so long; ranks look once a second each if `looking`. */
static void turn(int ep, struct event_base *base, struct rank *ranks, size_t n, double seconds, bool looking)
{
	hvd_time begin = hvd_now(), now = begin;

	for (size_t i = 0; i < n; i++)
		ranks[i].next = begin + (hvd_time)(1e9 * (double)i / (double)n);
	while (seconds_since(begin) < seconds) {
		struct epoll_event ev[256];
		int got;

		if (base)
			event_base_loop(base, EVLOOP_NONBLOCK);
		got = epoll_wait(ep, ev, 256, 1);
		for (int i = 0; i < got; i++)
			hear(ev[i].data.ptr);
		now = hvd_now();
		for (size_t i = 0; looking && i < n; i++) {
			if (ranks[i].next > now || ranks[i].answers > 0)
				continue;
			ranks[i].next += 1000000000;
			look(&ranks[i], (unsigned)i);
		}
	}
}

/* What a simulated relay says for its ranks: they arrive, and each looks for a key. */
static void sim_look(struct sim_relay *r, int per_host)
{
	for (int i = 0; i < per_host; i++) {
		char key[64];
		struct hvd_relay_msg arrive = {
			.type = HVD_RELAY_CALL,
			.relay_id = (uint32_t)(1 + r->first / per_host),
			.call = ++r->calls,
			.done = 1,
			.op = {.kind = HVD_OP_ARRIVE, .number = 7000 + i, .client_number = (uint32_t)i + 1}};
		struct hvd_relay_msg watch = {.type = HVD_RELAY_WATCH, .watch = ++r->expected};

		hvd_relay_send(r->conn, HVD_CHANNEL_STORE, &arrive);
		watch.op.key = (struct hvd_slice){
			key, (size_t)snprintf(key, sizeof(key), "/default_pg/0//cuda//dump_%d", r->first + i)};
		hvd_relay_send(r->conn, HVD_CHANNEL_STORE, &watch);
	}
}

static double share(const struct report *r, double before, double seconds)
{
	return 100 * (r->cpu - before) / seconds;
}

static int usage(void)
{
	fputs("usage: relay_check direct|relays RANKS SECONDS [RANKS_PER_HOST]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	bool relays = argc > 1 && strcmp(argv[1], "relays") == 0;
	int n_ranks = argc > 2 ? atoi(argv[2]) : 0, per_host = argc > 4 ? atoi(argv[4]) : 8;
	double seconds = argc > 3 ? atof(argv[3]) : 0, before, before_leaf = 0;
	int real = relays ? per_host : n_ranks, ep = epoll_create1(EPOLL_CLOEXEC);
	struct sim sim = {.per_host = per_host};
	struct server root = {0}, leaf = {0};
	struct rank *ranks;
	hvd_time begin;

	if (argc < 4 || argc > 5 || n_ranks < 2 * per_host || seconds <= 0)
		return usage();
	signal(SIGPIPE, SIG_IGN);
	hvd_raise_nofile();
	ranks = calloc((size_t)real, sizeof(*ranks));
	sim.base = event_base_new();
	start_server(&root, 0, 0, n_ranks);
	begin = hvd_now();
	if (relays) {
		start_server(&leaf, (uint32_t)(n_ranks / per_host), root.report->relay_port, n_ranks);
		sim_start(&sim, (size_t)(n_ranks / per_host));
		for (int i = 0; i < n_ranks / per_host - 1; i++)
			sim_add(&sim, root.report->relay_port, i * per_host, 0);
		while (!sim_all_up(&sim))
			event_base_loop(sim.base, EVLOOP_ONCE);
		for (size_t i = 0; i < sim.n; i++)
			sim_look(&sim.relays[i], per_host);
		while (!sim_all_answered(&sim))
			event_base_loop(sim.base, EVLOOP_ONCE);
	}
	for (int i = 0; i < real; i++)
		come(ep, &ranks[i], (relays ? leaf : root).report->port, 5000 + (uint32_t)i);
	turn(ep, sim.base, ranks, (size_t)real, 2, false);
	printf("%s: %d ranks have come in %.2f s, for which the root has used %.2f s of a processor\n", argv[1],
	       n_ranks, seconds_since(begin) - 2, (before = ask_server(&root)->cpu));
	turn(ep, sim.base, ranks, (size_t)real, 2, true); /* the first look for a key asks the root */
	before = ask_server(&root)->cpu;
	if (relays)
		before_leaf = ask_server(&leaf)->cpu;
	looked = 0;
	begin = hvd_now();
	turn(ep, sim.base, ranks, (size_t)real, seconds, true);
	seconds = seconds_since(begin);
	printf("%s: ranks look %.0f times a second; the root uses %.2f %% of a core", argv[1],
	       (double)looked / seconds * (relays ? (double)n_ranks / per_host : 1),
	       share(ask_server(&root), before, seconds));
	if (relays)
		printf(", the relay of one host %.2f %%", share(ask_server(&leaf), before_leaf, seconds));
	printf("\n");
	show_server(&root, "the root:");
	show_server(&leaf, "one host:");
	end_server(&leaf);
	end_server(&root);
	sim_end(&sim);
	event_base_free(sim.base);
	for (int i = 0; i < real; i++)
		close(ranks[i].fd);
	free(ranks);
	close(ep);
	return 0;
}
