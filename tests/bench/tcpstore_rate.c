/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_rate ADDRESS PORT CONNECTIONS SECONDS QUERY PID - what a TCPStore server does for clients that each behave
 * as PyTorch's: VALIDATE, PING and ADD to "init/", and then one request after the other, each when the one before it is
 * answered. QUERY is check, get or set, of a value of VALUE bytes; a SET has no answer, so a CHECK comes with it.
 *
 * Prints "seconds until all have registered", "requests a second", "microseconds of the server's processor for each",
 * "p50 us", "p99 us". PID is the server's process.
 */
#include "connect.h"

#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

enum {
	VALIDATE = 0,
	SET = 1,
	GET = 3,
	ADD = 4,
	CHECK = 5,
	PING = 13
};

#define MAGIC  0x3C85F7CEu
#define VALUE  136 /* the address of a rank in Gloo */
#define EVENTS 256

struct client {
	int fd;
	enum {
		CONNECTING,
		PINGED,
		ADDED,
		READY
	} state;
	size_t want; /* bytes of the answer that are still to come */
	hvd_time since;
};

struct message {
	char bytes[512];
	size_t len, answer;
};

static struct message query;
static float took[1 << 23];
static size_t n_took;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void put(struct message *m, const void *data, size_t len)
{
	memcpy(m->bytes + m->len, data, len);
	m->len += len;
}

static void put_query(struct message *m, int number)
{
	uint8_t byte = (uint8_t)number;

	put(m, &byte, 1);
}

static void put_text(struct message *m, const char *text, size_t len)
{
	uint64_t n = len;

	put(m, &n, sizeof(n));
	put(m, text, len);
}

static void put_check(struct message *m, const char *key)
{
	uint64_t one = 1;

	put_query(m, CHECK);
	put(m, &one, sizeof(one));
	put_text(m, key, strlen(key));
	m->answer += 1;
}

static void put_set(struct message *m, const char *key)
{
	char value[VALUE];

	memset(value, 'v', sizeof(value));
	put_query(m, SET);
	put_text(m, key, strlen(key));
	put_text(m, value, sizeof(value));
}

/* The query that is measured. Returns -1 when there is none of that name. */
static int make_query(const char *name)
{
	static const char key[] = "/default_pg/0//cpu//0/0";

	if (strcmp(name, "check") == 0) {
		put_check(&query, key);
	} else if (strcmp(name, "get") == 0) {
		put_query(&query, GET);
		put_text(&query, key, strlen(key));
		query.answer = sizeof(uint64_t) + VALUE;
	} else if (strcmp(name, "set") == 0) {
		put_set(&query, key);
		put_check(&query, key);
	} else {
		return -1;
	}
	return 0;
}

static void say(struct client *c, const struct message *m)
{
	if (send(c->fd, m->bytes, m->len, MSG_NOSIGNAL) != (ssize_t)m->len)
		die("send");
	c->want = m->answer;
}

/* Each client is a process of its own for the server, and none that has come before: it tells a number of its own. */
static void say_ping(struct client *c, uint32_t number)
{
	uint32_t magic = MAGIC;
	struct message m = {.answer = sizeof(number)};

	put_query(&m, VALIDATE);
	put(&m, &magic, sizeof(magic));
	put_query(&m, PING);
	put(&m, &number, sizeof(number));
	say(c, &m);
}

static void say_add(struct client *c)
{
	int64_t one = 1;
	struct message m = {.answer = sizeof(one)};

	put_query(&m, ADD);
	put_text(&m, "init/", 5);
	put(&m, &one, sizeof(one));
	say(c, &m);
}

/* Read what has come. Returns whether the answer is complete. */
static int answered(struct client *c)
{
	char sink[4096];
	ssize_t n = recv(c->fd, sink, sizeof(sink), 0);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0 || (size_t)n > c->want) {
		fputs("tcpstore_rate: the server has closed a connection, or answered what was not asked\n", stderr);
		exit(1);
	}
	c->want -= (size_t)n;
	return c->want == 0;
}

/* The processor time of all threads of a process, in ns. */
static uint64_t used_by(const char *pid)
{
	char path[300];
	uint64_t sum = 0, used;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	dir = opendir(path);
	if (!dir)
		die(path);
	while ((entry = readdir(dir))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/task/%.20s/schedstat", pid, entry->d_name);
		f = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (f && fscanf(f, "%" SCNu64, &used) == 1)
			sum += used;
		if (f)
			fclose(f);
	}
	closedir(dir);
	return sum;
}

/* One step of a client that registers. Returns whether it has come to the end. */
static int go_on(struct client *c, uint32_t number)
{
	int one = 1;

	if (c->state == CONNECTING) {
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		say_ping(c, number);
		c->state = PINGED;
		return 0;
	}
	if (!answered(c))
		return 0;
	if (c->state == PINGED)
		say_add(c);
	c->state++;
	return c->state == READY;
}

static void register_all(int ep, struct client *clients, size_t n, const struct sockaddr_storage *to, socklen_t len)
{
	struct epoll_event ev[EVENTS];
	size_t ready = 0;

	for (size_t i = 0; i < n; i++) {
		struct epoll_event on = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &clients[i]};

		clients[i].fd = open_socket(to);
		if (clients[i].fd < 0 || begin_connect(clients[i].fd, to, len) != 0 ||
		    epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].fd, &on) != 0)
			die("connect");
	}
	while (ready < n) {
		int got = epoll_wait(ep, ev, EVENTS, 60000);

		if (got <= 0)
			die("clients do not get through");
		for (int i = 0; i < got; i++) {
			struct client *c = ev[i].data.ptr;

			if (c->state == READY || (c->state != CONNECTING && !(ev[i].events & EPOLLIN)))
				continue;
			ready += (size_t)go_on(c, (uint32_t)getpid() << 12 | (uint32_t)(c - clients));
		}
	}
	for (size_t i = 0; i < n; i++) {
		struct epoll_event on = {.events = EPOLLIN, .data.ptr = &clients[i]};

		epoll_ctl(ep, EPOLL_CTL_MOD, clients[i].fd, &on);
	}
}

static void measure(int ep, struct client *clients, size_t n, double seconds)
{
	struct epoll_event ev[EVENTS];
	hvd_time begin = hvd_now();

	for (size_t i = 0; i < n; i++) {
		clients[i].since = begin;
		say(&clients[i], &query);
	}
	for (hvd_time now = begin; seconds_since(begin) < seconds;) {
		int got = epoll_wait(ep, ev, EVENTS, 1000);

		if (got == 0)
			die("no answer for a second");
		for (int i = 0; i < got; i++) {
			struct client *c = ev[i].data.ptr;

			if (!answered(c))
				continue;
			now = hvd_now();
			if (n_took < sizeof(took) / sizeof(took[0]))
				took[n_took++] = (float)(now - c->since) / 1e3f;
			c->since = now;
			say(c, &query);
		}
	}
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct sockaddr_storage to;
	struct client *clients, first = {0};
	struct message m = {0};
	double registered, lasted;
	uint64_t used;
	hvd_time begin;
	socklen_t len;
	size_t n;
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (argc != 7 || !(len = parse_target(argv, &to)) || make_query(argv[5]) != 0) {
		fputs("usage: tcpstore_rate ADDRESS PORT CONNECTIONS SECONDS check|get|set PID\n", stderr);
		return 2;
	}
	n = (size_t)atol(argv[3]);
	clients = calloc(n, sizeof(*clients));
	if (!clients || ep < 0)
		die("start");
	begin = hvd_now();
	register_all(ep, clients, n, &to, len);
	registered = seconds_since(begin);

	/* What is asked for is there. */
	put_set(&m, "/default_pg/0//cpu//0/0");
	put_check(&m, "/default_pg/0//cpu//0/0");
	first = clients[0];
	say(&first, &m);
	while (!answered(&first))
		;

	used = used_by(argv[6]);
	begin = hvd_now();
	measure(ep, clients, n, atof(argv[4]));
	lasted = seconds_since(begin);
	used = used_by(argv[6]) - used;
	qsort(took, n_took, sizeof(took[0]), by_value);
	if (n_took == 0)
		die("no request was answered");
	printf("%.3f %.0f %.2f %.0f %.0f\n", registered, (double)n_took / lasted, (double)used / 1e3 / (double)n_took,
	       (double)took[n_took / 2], (double)took[n_took - n_took / 100 - 1]);
	for (size_t i = 0; i < n; i++)
		close(clients[i].fd);
	close(ep);
	free(clients);
	return 0;
}
