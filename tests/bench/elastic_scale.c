/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_scale - the driver of an elastic job with many ranks, as far as it is not processes and networks: the state
 * machine, the workers' requests at the rendezvous, notifications. Workers are simulated, all of them by one other
 * process that speaks their protocol (and no Gloo); hosts have eight of them each.
 *
 * usage: elastic_scale [RANKS [ROUNDS]]     (256 ranks, 20 rounds)
 *
 * In each round a worker dies, or two do, the second one while the others wait for their places; or a host is
 * removed, or added. A failed worker's host is banned for a moment, and then comes back. After each generation it is
 * checked that its ranks are 0 … size-1. Printed is how long it took from the event until every worker had its
 * place, and what the driver took of a core for a generation.
 */
#include "launcher/elastic/elastic_rendezvous.h"
#include "launcher/elastic/machine_internal.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/worker_client.h"
#include "lib/process/rlimits.h"
#include "slurm/slurm.h"
#include "tests/unit/fake_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS      8
#define TIME_LIMIT 300 /* seconds for everything */
#define PATIENCE   2   /* seconds that a worker waits for its peers, as for Gloo's contexts */

static void die(const char *what)
{
	fprintf(stderr, "elastic_scale: %s\n", what);
	exit(1);
}

/* ---- lines between the two processes ---- */

struct line {
	struct bufferevent *bev;
	void (*on_line)(char *line, void *arg);
	void *arg;
};

static void line_read(struct bufferevent *bev, void *arg)
{
	struct line *l = arg;
	char *text;

	while ((text = evbuffer_readln(bufferevent_get_input(bev), NULL, EVBUFFER_EOL_LF))) {
		l->on_line(text, l->arg);
		free(text);
	}
}

static void line_over(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	(void)arg;
	exit(0); /* the other one has ended */
}

static void line_open(struct line *l, struct event_base *base, int fd, void (*on_line)(char *, void *), void *arg)
{
	l->bev = bufferevent_socket_new(base, fd, 0);
	l->on_line = on_line;
	l->arg = arg;
	bufferevent_setcb(l->bev, line_read, NULL, line_over, l);
	bufferevent_enable(l->bev, EV_READ | EV_WRITE);
}

#define say(l, ...) evbuffer_add_printf(bufferevent_get_output((l)->bev), __VA_ARGS__)

/* ---- the workers ---- */

enum sim_state {
	SIM_STARTING, /* has been given a place, waits for rank 0, which trains perhaps */
	SIM_JOINING,  /* has a place, says so, waits for rank 0 */
	SIM_TRAINING,
	SIM_ASKING, /* for its next place */
};

struct sim {
	struct sim *next;
	struct sim_workers *workers;
	unsigned id, host, slot;
	int rank, size;
	enum sim_state state;
	struct fake_worker ear;
	struct bufferevent *call;
	struct event *later;
	void (*answered)(struct sim *w, int status, const char *body);
};

struct sim_workers {
	struct event_base *base;
	struct line up;
	in_port_t port;
	struct sim *first;
	uint32_t dice;
	bool told; /* of this generation that it is complete */
};

static uint32_t throw_dice(struct sim_workers *c, uint32_t n)
{
	c->dice ^= c->dice << 13;
	c->dice ^= c->dice >> 17;
	c->dice ^= c->dice << 5;
	return c->dice % n;
}

static void ask_for_place(evutil_socket_t fd, short what, void *arg);
static void sim_end(struct sim *w, int status);

static void hang_up(struct sim *w)
{
	if (w->call)
		bufferevent_free(w->call);
	w->call = NULL;
}

static void call_read(struct bufferevent *bev, void *arg)
{
	struct sim *w = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	char text[1024];
	ssize_t n = evbuffer_copyout(in, text, sizeof(text) - 1);
	const char *body, *length;
	char answer[256];
	int status;

	text[n > 0 ? n : 0] = '\0';
	body = strstr(text, "\r\n\r\n");
	length = strstr(text, "Content-Length:");
	if (!body || !length || strlen(body + 4) < strtoul(length + 15, NULL, 10))
		return;
	snprintf(answer, sizeof(answer), "%.*s", (int)strtoul(length + 15, NULL, 10), body + 4);
	status = atoi(text + 9);
	hang_up(w);
	w->answered(w, status, answer);
}

static void call_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)arg;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		die("a worker's connection to the rendezvous broke");
}

static void call(struct sim *w, const char *method, const char *path, const char *body,
		 void (*answered)(struct sim *, int, const char *))
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(w->workers->port)};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->answered = answered;
	w->call = bufferevent_socket_new(w->workers->base, -1, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(w->call, call_read, NULL, call_event, w);
	evbuffer_add_printf(bufferevent_get_output(w->call),
			    "%s %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %zu\r\n\r\n%s", method, path, strlen(body),
			    body);
	bufferevent_enable(w->call, EV_READ | EV_WRITE);
	if (bufferevent_socket_connect(w->call, (struct sockaddr *)&to, sizeof(to)) != 0)
		die("a worker cannot reach the rendezvous");
}

/* All train, and are one job? */
static void look_round(struct sim_workers *c)
{
	int size = 0, n = 0;
	bool *seen;

	for (struct sim *w = c->first; w; w = w->next) {
		if (w->state == SIM_STARTING)
			continue;
		if (!size)
			size = w->size;
		if (w->state != SIM_TRAINING || w->size != size)
			return;
		n++;
	}
	if (n != size || n == 0 || c->told)
		return;
	seen = hvd_xcalloc((size_t)size, sizeof(*seen));
	for (struct sim *w = c->first; w; w = w->next) {
		if (w->state == SIM_STARTING)
			continue;
		if (w->rank < 0 || w->rank >= size || seen[w->rank])
			die("two workers have the same rank, or one has none");
		seen[w->rank] = true;
	}
	free(seen);
	c->told = true;
	say(&c->up, "G %d\n", size);
}

static void trains(struct sim *w, int status, const char *body)
{
	const struct timeval patience = {PATIENCE, 0};

	(void)body;
	if (status != 200)
		die("a DELETE was not taken");
	w->state = SIM_TRAINING;
	evtimer_add(w->later, &patience);
	look_round(w->workers);
}

static void has_met(struct sim *w, int status, const char *body)
{
	char path[64];

	(void)body;
	if (status != 200)
		die("a worker did not find rank 0");
	snprintf(path, sizeof(path), "/global/%d", w->rank);
	call(w, "DELETE", path, "", trains);
}

static void has_said(struct sim *w, int status, const char *body)
{
	(void)body;
	if (status != 200)
		die("a PUT was not taken");
	call(w, "GET", "/global/rank_0", "", has_met);
}

static void has_said_where(struct sim *w, int status, const char *body)
{
	char path[64];

	(void)body;
	if (status != 200)
		die("a worker's addresses were not taken");
	snprintf(path, sizeof(path), "/global/rank_%d", w->rank);
	call(w, "PUT", path, "host", has_said);
}

static void has_place(struct sim *w, int status, const char *body)
{
	char path[64];

	if (status != 200 || sscanf(body, "%d,%d", &w->rank, &w->size) != 2)
		die("a worker got no place");
	if (w->rank < 0) {
		sim_end(w, SIGABRT);
		return;
	}
	w->state = SIM_JOINING;
	snprintf(path, sizeof(path), "/global/rank_%d", w->rank);
	call(w, "PUT", path, "host", has_said);
}

static void ask_for_place(evutil_socket_t fd, short what, void *arg)
{
	struct sim *w = arg;
	char path[64];

	(void)fd;
	(void)what;
	if (w->state == SIM_STARTING || (w->state == SIM_TRAINING && w->workers->told))
		return;
	/* Its generation is broken, or one of its peers has not come to it. */
	w->state = SIM_ASKING;
	hang_up(w);
	snprintf(path, sizeof(path), "/rank_and_size/h%u:%u", w->host, w->slot);
	call(w, "GET", path, "", has_place);
}

/* Every worker notices within some milliseconds that the job is broken, or has changed. */
static void break_up(struct sim_workers *c)
{
	c->told = false;
	for (struct sim *w = c->first; w; w = w->next) {
		struct timeval tv = {0, (suseconds_t)throw_dice(c, 20000)};

		if (w->state == SIM_ASKING || w->state == SIM_STARTING)
			continue;
		w->state = SIM_ASKING;
		evtimer_add(w->later, &tv);
	}
}

static void on_told(struct fake_worker *fw, void *arg)
{
	struct sim *w = arg;

	(void)fw;
	if (w->rank != 0)
		die("somebody else than rank 0 was notified");
	break_up(w->workers);
}

static void sim_end(struct sim *w, int status)
{
	struct sim_workers *c = w->workers;
	struct sim **at = &c->first;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	say(&c->up, "X %u %d\n", w->id, status);
	hang_up(w);
	event_free(w->later);
	fake_worker_close(&w->ear);
	free(w);
	look_round(c);
}

static void sim_start(struct sim_workers *c, const char *line)
{
	struct sim *w = hvd_xcalloc(1, sizeof(*w));
	char path[64], *put;

	if (sscanf(line, "S %u %u %u %d %d", &w->id, &w->host, &w->slot, &w->rank, &w->size) != 5)
		die("a line that is not understood");
	w->workers = c;
	w->next = c->first;
	c->first = w;
	w->later = evtimer_new(c->base, ask_for_place, w);
	memset(w->ear.key.b, (int)(w->id % 251 + 1), HVD_KEY_LEN);
	w->ear.told = on_told;
	w->ear.arg = w;
	if (fake_worker_open(&w->ear, c->base, NULL) != 0)
		die("a worker cannot listen");
	put = fake_worker_put(&w->ear);
	snprintf(path, sizeof(path), "/worker_addresses/h%u:%u", w->host, w->slot);
	call(w, "PUT", path, put, has_said_where);
	free(put);
}

/* `spare`: not rank 0, which may have to hand its state to others just now. */
static void kill_one(struct sim_workers *c, bool spare)
{
	unsigned n = 0, which;
	struct sim *w;

	for (w = c->first; w; w = w->next)
		n += !(spare && w->rank == 0);
	if (!n)
		return;
	which = throw_dice(c, n);
	for (w = c->first; which > 0 || (spare && w->rank == 0); w = w->next)
		which -= !(spare && w->rank == 0);
	sim_end(w, SIGKILL);
	break_up(c);
}

static void kill_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	kill_one(arg, true);
}

static void sim_line(char *line, void *arg)
{
	struct sim_workers *c = arg;
	const struct timeval moment = {0, 15000};
	struct sim *w;

	if (*line == 'S') {
		sim_start(c, line);
	} else if (*line == 'K') {
		kill_one(c, false);
		if (line[2] == '2')
			event_base_once(c->base, -1, EV_TIMEOUT, kill_later, c, &moment);
	} else if (*line == 'E') {
		for (w = c->first; w && w->id != strtoul(line + 2, NULL, 10); w = w->next)
			;
		if (w)
			sim_end(w, SIGTERM);
	}
}

static void sim_main(int fd, in_port_t port)
{
	struct sim_workers c = {.base = event_base_new(), .port = port, .dice = 2463534242u};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	line_open(&c.up, c.base, fd, sim_line, &c);
	event_base_dispatch(c.base);
	exit(0);
}

/* ---- the driver ---- */

enum action {
	KILL_ONE,
	KILL_TWO,
	REMOVE_HOST,
	ADD_HOST,
	HOST_RETURNS, /* one that was banned */
	ACTIONS,
};

struct news {
	char kind; /* A arrived, R ready, X exited, N notified, H here */
	uint32_t id;
	int value;
};

struct driver {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_log log;
	struct hvd_machine *machine;
	struct hvd_elastic_rv *erv;
	struct hvd_layout layout;
	struct line down;
	struct event *read_news, *tick, *next;
	struct news *news;
	size_t n_news, news_room;
	unsigned hosts; /* listed */
	int rounds, ranks, generations;
	enum action now;
	bool started;   /* the first generation is complete; with hvdrun processes would have been started for it */
	hvd_time since; /* when it happened; 0 = nothing is under way */
	double sum[ACTIONS], worst[ACTIONS];
	unsigned count[ACTIONS];
	double cpu;
};

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void queue(struct driver *d, char kind, uint32_t id, int value)
{
	if (d->n_news == d->news_room) {
		d->news_room = d->news_room ? 2 * d->news_room : 64;
		d->news = hvd_xrealloc(d->news, d->news_room, sizeof(*d->news));
	}
	d->news[d->n_news++] = (struct news){kind, id, value};
	event_active(d->read_news, EV_TIMEOUT, 0);
}

static void set_tick(struct driver *d)
{
	const hvd_time due = hvd_machine_due(d->machine);
	struct timeval tv;

	event_del(d->tick);
	if (due) {
		tv = hvd_left_tv(due);
		evtimer_add(d->tick, &tv);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct driver *d = arg;

	(void)fd;
	(void)what;
	hvd_machine_tick(d->machine, hvd_now());
	set_tick(d);
}

static void on_news(evutil_socket_t fd, short what, void *arg)
{
	struct driver *d = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < d->n_news; i++) {
		const struct news n = d->news[i];
		const hvd_time now = hvd_now();

		if (n.kind == 'A')
			hvd_machine_arrived(d->machine, n.id, now);
		else if (n.kind == 'R')
			hvd_machine_ready(d->machine, n.id, now);
		else if (n.kind == 'X')
			hvd_machine_exited(d->machine, n.id, n.value, now);
		else if (n.kind == 'M')
			hvd_machine_connected(d->machine, now);
		else if (n.kind == 'N')
			hvd_machine_notified(d->machine, n.value, now);
		else
			hvd_machine_host_here(d->machine, n.id, now);
	}
	d->n_news = 0;
	set_tick(d);
}

static void do_host_begin(uint32_t host, void *arg)
{
	queue(arg, 'H', host, 0);
}

static void do_host_end(uint32_t host, void *arg)
{
	(void)host;
	(void)arg;
}

static void do_prepare(void *arg)
{
	hvd_rv_clear_scope(((struct driver *)arg)->rv, "global");
}

static void do_generation(bool prepared, void *arg)
{
	struct driver *d = arg;

	d->generations++;
	hvd_elastic_rv_cancel_notify(d->erv);
	if (prepared)
		hvd_rv_clear(d->rv, "global");
	else
		hvd_rv_clear(d->rv, NULL);
	hvd_layout_clear(&d->layout);
	if (hvd_machine_layout(d->machine, false, &d->layout, NULL) != 0)
		die("the machine's places are no layout");
	hvd_rv_scope_size(d->rv, "global", (size_t)d->layout.size, NULL);
}

static void do_worker_start(const struct hvd_worker *w, void *arg)
{
	struct driver *d = arg;

	say(&d->down, "S %u %s %d %d %d\n", w->id, hvd_machine_host(d->machine, w->host) + 1, w->slot, w->rank,
	    d->machine->next.n ? d->machine->next.n : d->machine->now.n);
}

static void do_worker_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	(void)at_once;
	say(&((struct driver *)arg)->down, "E %u\n", w->id);
}

static void do_answer(void *arg)
{
	struct driver *d = arg;

	hvd_elastic_rv_answer(d->erv, &d->layout);
}

static void do_notify(uint32_t worker, void *arg)
{
	struct driver *d = arg;

	if (!d->since) {
		d->since = hvd_now();
		d->now = HOST_RETURNS;
	}
	hvd_elastic_rv_notify(d->erv, worker);
}

static void do_cut(void *arg)
{
	(void)arg; /* the simulated workers hold no connections to each other */
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	(void)status;
	(void)arg;
	die(why->code ? why->msg : "the job has ended");
}

static void on_met(void *arg)
{
	queue(arg, 'M', 0, 0);
}

static void on_arrived(uint32_t worker, void *arg)
{
	queue(arg, 'A', worker, 0);
}

static void on_ready(uint32_t worker, void *arg)
{
	queue(arg, 'R', worker, 0);
}

static void on_notified(const struct hvd_err *why, void *arg)
{
	queue(arg, 'N', 0, why->code == HVD_OK);
}

/* The shim of rank 0's host would do it. */
static void on_pass(const struct hvd_worker *w, const char *to, int64_t when, void *arg)
{
	struct driver *d = arg;
	struct hvd_worker_addrs addrs;

	(void)w;
	if (hvd_worker_addrs_parse(to, strlen(to), &addrs, NULL) != 0)
		die("a worker's addresses cannot be read");
	hvd_notify_send(d->base, &addrs, when, HVD_HOSTS_MIXED, hvd_deadline_in(10), on_notified, d);
	hvd_worker_addrs_clear(&addrs);
}

static void list_hosts(struct driver *d, unsigned n)
{
	struct hvd_alloc hosts = {0};
	char name[16];

	d->hosts = n;
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		hvd_alloc_add(&hosts, name, SLOTS, NULL);
	}
	hvd_machine_hosts(d->machine, &hosts, hvd_now());
	hvd_alloc_clear(&hosts);
	set_tick(d);
}

static void print_all(const struct driver *d)
{
	static const char *const names[] = {"a worker dies", "two die", "a host removed", "a host added",
					    "a banned host returns"};
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	for (int a = 0; a < ACTIONS; a++)
		if (d->count[a])
			printf("%5d ranks  %-22s %3u times  mean %7.1f ms  worst %7.1f ms\n", d->ranks, names[a],
			       d->count[a], d->sum[a] / d->count[a] * 1000, d->worst[a] * 1000);
	printf("%5d ranks  %d generations, driver: %.1f ms of a core each, %ld MiB\n", d->ranks, d->generations,
	       (cpu_seconds() - d->cpu) * 1000 / d->generations, u.ru_maxrss / 1024);
}

static void next_round(evutil_socket_t fd, short what, void *arg)
{
	struct driver *d = arg;

	(void)fd;
	(void)what;
	if (d->rounds-- == 0) {
		print_all(d);
		event_base_loopbreak(d->base);
		return;
	}
	d->now = (enum action)(d->rounds % HOST_RETURNS);
	d->since = hvd_now();
	if (d->now == KILL_ONE || d->now == KILL_TWO)
		say(&d->down, "K %d\n", d->now == KILL_ONE ? 1 : 2);
	else
		list_hosts(d, d->now == REMOVE_HOST ? d->hosts - 1 : d->hosts + 1);
}

static void driver_line(char *line, void *arg)
{
	struct driver *d = arg;
	const struct timeval moment = {0, 300000};
	unsigned id;
	int status;

	if (sscanf(line, "X %u %d", &id, &status) == 2) {
		queue(d, 'X', id, status);
		return;
	}
	if (*line != 'G')
		return;
	hvd_verbose(&d->log, "a generation of %s is complete", line + 2);
	if (d->since) {
		const double took = (double)(hvd_now() - d->since) / 1e9;

		d->sum[d->now] += took;
		d->count[d->now]++;
		if (took > d->worst[d->now])
			d->worst[d->now] = took;
	} else if (!d->started) {
		d->cpu = cpu_seconds();
		d->generations = 0;
	}
	d->started = true;
	d->since = 0;
	/* With a host that is banned the next generation is its return. */
	if (strtol(line + 1, NULL, 10) == (long)d->hosts * SLOTS)
		evtimer_add(d->next, &moment);
}

static void driver_main(struct driver *d, int fd)
{
	static const struct hvd_machine_ops ops = {do_host_begin, do_host_end,     do_host_end,   do_prepare,
						   do_generation, do_worker_start, do_worker_end, do_answer,
						   do_notify,     do_cut,          do_finish,     NULL,
						   NULL};
	static const struct hvd_elastic_rv_ops erv_ops = {on_arrived, on_met, on_ready, on_pass};
	const struct hvd_machine_opts opts = {.np = d->ranks,
					      .min_np = d->ranks / 2,
					      .reset_limit = -1,
					      .elastic_timeout = 60,
					      .cooldown_min = 0.5,
					      .cooldown_max = 0.5,
					      .silent_grace = 1};

	line_open(&d->down, d->base, fd, driver_line, d);
	d->read_news = evtimer_new(d->base, on_news, d);
	d->tick = evtimer_new(d->base, on_tick, d);
	d->next = evtimer_new(d->base, next_round, d);
	d->machine = hvd_machine_create(&opts, hvd_now(), &ops, d, &d->log);
	d->erv = hvd_elastic_rv_create(d->machine, &erv_ops, d, &d->log);
	hvd_elastic_rv_open(d->erv, d->rv);
	list_hosts(d, (unsigned)d->ranks / SLOTS);
	event_base_dispatch(d->base);
	hvd_elastic_rv_destroy(d->erv);
	hvd_machine_destroy(d->machine);
	hvd_layout_clear(&d->layout);
	hvd_rv_destroy(d->rv);
	event_free(d->read_news);
	event_free(d->tick);
	event_free(d->next);
	bufferevent_free(d->down.bev);
	free(d->news);
	event_base_free(d->base);
}

int main(int argc, char **argv)
{
	static const char *const any[] = {"127.0.0.1"};
	struct driver d = {.ranks = argc > 1 ? atoi(argv[1]) : 256, .rounds = argc > 2 ? atoi(argv[2]) : 20};
	struct hvd_rv_config cfg;
	struct hvd_err err = {0};
	int fds[2];
	pid_t pid;

	if (d.ranks < 4 * SLOTS || d.ranks % SLOTS || d.ranks > 8192 || d.rounds < 1)
		die("usage: elastic_scale [RANKS [ROUNDS]], RANKS a multiple of 8 from 32 to 8192");
	alarm(TIME_LIMIT);
	d.log = hvd_log_make("elastic_scale", getenv("HVD_VERBOSE") ? HVD_LOG_DEBUG : HVD_LOG_ERROR);
	hvd_raise_nofile();
	signal(SIGPIPE, SIG_IGN);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
		die(strerror(errno));
	d.base = event_base_new();
	hvd_rv_config_init(&cfg);
	d.rv = hvd_rv_create(d.base, &cfg, NULL, &err);
	if (!d.rv || hvd_rv_listen(d.rv, any, 1, 0, 0, &err) != 0)
		die(err.msg);
	pid = fork();
	if (pid < 0)
		die(strerror(errno));
	if (pid == 0) {
		/* What it has of the driver's stays untouched. */
		close(fds[0]);
		sim_main(fds[1], hvd_rv_port(d.rv));
	}
	close(fds[1]);
	driver_main(&d, fds[0]);
	close(fds[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
