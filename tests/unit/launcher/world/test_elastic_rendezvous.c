/* SPDX-License-Identifier: Apache-2.0 */
/* What workers of an elastic job ask and tell at the rendezvous: a real server and state machine, and raw clients. */
#include "launcher/world/elastic_rendezvous.h"

#include "tests/unit/fake_worker.h"
#include "tests/unit/idle_machine_ops.h"
#include "tests/unit/loopback.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#define NO_PLACE "-1,-1,-1,-1,-1,-1"

struct world {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_machine *machine;
	struct hvd_elastic_rv *erv;
	struct hvd_log log;
	struct hvd_alloc hosts;
	struct hvd_layout layout; /* of this generation */
	struct hvd_key key;
	char *listens; /* what a worker puts */
	int arrived, met, ready, passed, answers;
	uint32_t last_arrived, last_ready, last_passed;
	char to[1024];
	int64_t when;
};

/* ---- the machine's ops: as elastic.c has them, as far as the elastic rendezvous is concerned ---- */

static void do_generation(bool prepared, void *arg)
{
	struct world *w = arg;

	hvd_elastic_rv_cancel_notify(w->erv);
	hvd_layout_clear(&w->layout);
	assert_int_equal(hvd_machine_layout(w->machine, false, &w->layout, NULL), 0);
}

static void do_answer(void *arg)
{
	struct world *w = arg;

	w->answers++;
	hvd_elastic_rv_answer(w->erv, &w->layout);
}

static void do_notify(uint32_t worker, void *arg)
{
	hvd_elastic_rv_notify(((struct world *)arg)->erv, worker);
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
}

/* ---- what the elastic rendezvous tells ---- */

static void on_arrived(uint32_t worker, void *arg)
{
	struct world *w = arg;

	w->arrived++;
	w->last_arrived = worker;
}

static void on_connected(void *arg)
{
	((struct world *)arg)->met++;
}

static void on_ready(uint32_t worker, void *arg)
{
	struct world *w = arg;

	w->ready++;
	w->last_ready = worker;
}

static void on_notify(const struct hvd_worker *worker, const char *to, int64_t when, void *arg)
{
	struct world *w = arg;

	w->passed++;
	w->last_passed = worker->id;
	snprintf(w->to, sizeof(w->to), "%s", to);
	w->when = when;
}

SETUP(begin, struct world, w)
{
	static const struct hvd_machine_ops machine_ops = {do_host,   do_host, do_host,   do_nothing, do_generation,
							   do_start,  do_end,  do_answer, do_notify,  do_nothing,
							   do_finish, NULL,    NULL,      NULL,       NULL};
	static const struct hvd_elastic_rv_ops ops = {on_arrived, on_connected, on_ready, on_notify};
	static const char *const ips[] = {"127.0.0.1"};
	const struct hvd_machine_opts opts = {
		.np = 3, .min_np = 2, .reset_limit = -1, .elastic_timeout = 60, .patience = 60};
	struct hvd_worker_addr one = {.iface = "lo", .port = 4321};
	struct hvd_worker_addrs addrs = {.v = &one, .n = 1};
	struct hvd_rv_config cfg;

	w->log = hvd_log_make("test", HVD_LOG_DEBUG);
	w->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	w->base = event_base_new();
	hvd_rv_config_init(&cfg);
	w->rv = hvd_rv_create(w->base, &cfg, &w->log, NULL);
	assert_int_equal(hvd_rv_listen(w->rv, ips, 1, 0, 0, NULL), 0);
	w->machine = hvd_machine_create(&opts, hvd_now(), &machine_ops, w, &w->log);
	w->erv = hvd_elastic_rv_create(w->machine, &ops, w, &w->log);
	hvd_elastic_rv_open(w->erv, w->rv);
	hvd_addr_parse("127.0.0.1", &one.addr);
	memset(addrs.key.b, 3, sizeof(addrs.key.b));
	w->listens = worker_addrs_text(&addrs);
}

TEARDOWN(end, struct world, w)
{
	hvd_elastic_rv_destroy(w->erv);
	hvd_rv_destroy(w->rv);
	hvd_machine_destroy(w->machine);
	hvd_layout_clear(&w->layout);
	hvd_alloc_clear(&w->hosts);
	event_base_free(w->base);
	close(w->log.fd);
	free(w->listens);
}

/* ---- the machine is told ---- */

static void hosts(struct world *w, const char *text)
{
	hvd_alloc_clear(&w->hosts);
	assert_int_equal(hvd_alloc_from_hosts(&w->hosts, text, 1, NULL), 0);
	hvd_machine_hosts(w->machine, &w->hosts, hvd_now());
	for (uint32_t h = 0; h < hvd_machine_n_hosts(w->machine); h++)
		hvd_machine_host_here(w->machine, h, hvd_now());
}

static uint32_t id_at(const struct world *w, uint32_t host, int slot)
{
	const struct hvd_worker *worker = hvd_machine_worker_at(w->machine, host, slot);

	assert_non_null(worker);
	return worker->id;
}

/* Three ranks, on a:2,b:1, train. */
static void running(struct world *w)
{
	hosts(w, "a:2,b:1");
	for (uint32_t id = 0; id < 3; id++)
		hvd_machine_arrived(w->machine, id, hvd_now());
	assert_int_equal(w->answers, 1);
	for (uint32_t id = 0; id < 3; id++)
		hvd_machine_arrived(w->machine, id, hvd_now());
	hvd_machine_connected(w->machine, hvd_now());
}

/* ---- clients ---- */

/* Sends a request, and has the server read it. */
static int request(struct world *w, const char *how, const char *path, const char *body)
{
	int fd = dial_loopback(hvd_rv_port(w->rv));
	char text[2048];
	int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
			 how, path, strlen(body), body);

	assert_int_equal(write(fd, text, (size_t)n), n);
	for (int i = 0; i < 20; i++) {
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		usleep(500);
	}
	return fd;
}

static bool answered(struct world *w, int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	event_base_loop(w->base, EVLOOP_NONBLOCK);
	return poll(&pfd, 1, 0) > 0;
}

/* The answer's status; its body in `body`. Closes. */
static int answer(struct world *w, int fd, char *body, size_t room)
{
	hvd_time until = hvd_deadline_in(20);
	char text[2048] = "", *at;
	size_t have = 0;
	ssize_t n = -1;

	while (n != 0 && hvd_left(until) > 0) {
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		n = recv(fd, text + have, sizeof(text) - 1 - have, MSG_DONTWAIT);
		if (n > 0)
			have += (size_t)n;
		else if (n < 0)
			usleep(1000);
	}
	close(fd);
	assert_int_equal(n, 0);
	at = strstr(text, "\r\n\r\n");
	assert_non_null(at);
	snprintf(body, room, "%s", at + 4);
	return atoi(text + strlen("HTTP/1.1 "));
}

static int ask(struct world *w, const char *place)
{
	char path[128];

	snprintf(path, sizeof(path), "/rank_and_size/%s", place);
	return request(w, "GET", path, "");
}

static void answer_is(struct world *w, int fd, int status, const char *body)
{
	char text[256];

	assert_int_equal(answer(w, fd, text, sizeof(text)), status);
	assert_string_equal(text, body);
}

static void put(struct world *w, const char *path, const char *body)
{
	answer_is(w, request(w, "PUT", path, body), 200, "");
}

/* Worker `id` asks, and the machine hears of it, as by the event queue. */
static int asks_and_is_ready(struct world *w, const char *place, uint32_t id)
{
	int before = w->ready, fd = ask(w, place);

	assert_int_equal(w->ready, before + 1);
	assert_int_equal(w->last_ready, id);
	hvd_machine_ready(w->machine, id, hvd_now());
	return fd;
}

/* ---- tests ---- */

TEST_IN(first_words, struct world *w)
{
	hosts(w, "a:2,b:1");
	put(w, "/global/rank_2", "where");
	assert_int_equal(w->arrived, 1);
	assert_int_equal(w->last_arrived, id_at(w, 1, 0));
	answer_is(w, request(w, "GET", "/global/rank_2", ""), 200, "where"); /* it was stored, for the others */
	put(w, "/global/rank_", "x");
	put(w, "/global/rank_x", "x");
	put(w, "/global/rank_3", "x");
	put(w, "/global/rank_99999999999999999999", "x");
	put(w, "/global/2", "x");
	put(w, "/local_a/rank_1", "x");
	assert_int_equal(w->arrived, 1);
}

/* Each member gives its key up when it is connected to the others. In the other scopes nobody may take anything
 * away. */
TEST_IN(all_have_met, struct world *w)
{
	hosts(w, "a:2,b:1");
	assert_int_equal(hvd_rv_scope_size(w->rv, "global", 3, NULL), 0);
	for (int rank = 0; rank < 3; rank++) {
		char path[32];

		snprintf(path, sizeof(path), "/global/rank_%d", rank);
		put(w, path, "where");
	}
	answer_is(w, request(w, "DELETE", "/global/rank_1", ""), 200, "");
	answer_is(w, request(w, "DELETE", "/global/rank_0", ""), 200, "");
	assert_int_equal(w->met, 0);
	answer_is(w, request(w, "DELETE", "/global/rank_2", ""), 200, "");
	assert_int_equal(w->met, 1);
	answer_is(w, request(w, "DELETE", "/worker_addresses/a:0", ""), 403, "");
	answer_is(w, request(w, "DELETE", "/rank_and_size/a:0", ""), 403, "");
}

TEST_IN(place_is_held_until_the_next_generation, struct world *w)
{
	int a0, a1, b0;

	running(w);
	a0 = asks_and_is_ready(w, "a:0", 0);
	a1 = asks_and_is_ready(w, "a:1", 1);
	assert_false(answered(w, a0) || answered(w, a1));
	b0 = asks_and_is_ready(w, "b:0", 2);
	answer_is(w, a0, 200, "0,3,0,2,0,2");
	answer_is(w, a1, 200, "1,3,1,2,0,1");
	answer_is(w, b0, 200, "2,3,0,1,1,2");
	assert_int_equal(w->answers, 2);
}

TEST_IN(nobody_lives_there, struct world *w)
{
	static const char *const places[] = {
		"c:0", "a:2", "a", ":0", "a:", "a:x", "a:-1", "a:12345678", "a:0:0", "A:0"};

	running(w);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		answer_is(w, ask(w, places[i]), 200, NO_PLACE);
	assert_int_equal(w->ready, 0);
}

/* Its host is to be left, and it was told to end: it hears that it has no place. */
TEST_IN(one_that_is_removed, struct world *w)
{
	int a0, a1, b0;

	running(w);
	hosts(w, "a:2");
	a0 = asks_and_is_ready(w, "a:0", 0);
	b0 = asks_and_is_ready(w, "b:0", 2);
	a1 = asks_and_is_ready(w, "a:1", 1);
	answer_is(w, a0, 200, "0,2,0,2,0,1");
	answer_is(w, a1, 200, "1,2,1,2,0,1");
	answer_is(w, ask(w, "b:0"), 200, NO_PLACE);
	/* Its first request is over when the worker is. */
	assert_false(answered(w, b0));
	hvd_machine_exited(w->machine, 2, 0, hvd_now());
	hvd_elastic_rv_answer(w->erv, &w->layout);
	answer_is(w, b0, 503, "");
}

TEST_IN(connection_breaks_while_it_waits, struct world *w)
{
	int a0, b0, fd;

	running(w);
	a0 = asks_and_is_ready(w, "a:0", 0);
	fd = asks_and_is_ready(w, "a:1", 1);
	close(fd);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	fd = ask(w, "a:1"); /* again: the machine knows already */
	b0 = asks_and_is_ready(w, "b:0", 2);
	answer_is(w, a0, 200, "0,3,0,2,0,2");
	answer_is(w, fd, 200, "1,3,1,2,0,1");
	close(b0);
}

/* It was away when the generation was answered, and is answered when it asks again; after that it is not owed. */
TEST_IN(connection_breaks_when_it_is_answered, struct world *w)
{
	int fd;

	running(w);
	close(asks_and_is_ready(w, "a:0", 0));
	for (int i = 0; i < 20; i++) {
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		usleep(500);
	}
	close(asks_and_is_ready(w, "a:1", 1));
	close(asks_and_is_ready(w, "b:0", 2));
	assert_int_equal(w->answers, 2);
	assert_int_equal(w->ready, 3);
	answer_is(w, ask(w, "a:0"), 200, "0,3,0,2,0,2");
	assert_int_equal(w->ready, 3);
	fd = ask(w, "a:0");
	assert_int_equal(w->ready, 4);
	assert_false(answered(w, fd));
	close(fd);
}

TEST_IN(one_asks_twice, struct world *w)
{
	int first, second;

	running(w);
	first = ask(w, "a:0");
	second = ask(w, "a:0");
	answer_is(w, first, 503, "");
	assert_false(answered(w, second));
	close(second);
}

TEST_IN(rank_0_is_told, struct world *w)
{
	int64_t before;

	running(w);
	hvd_elastic_rv_notify(w->erv, 0);
	assert_int_equal(w->passed, 0); /* it has not said yet where it listens */
	put(w, "/worker_addresses/b:0", w->listens);
	assert_int_equal(w->passed, 0);
	put(w, "/worker_addresses/a:0", w->listens);
	assert_int_equal(w->passed, 1);
	assert_int_equal(w->last_passed, 0);
	assert_string_equal(w->to, w->listens);
	/* A worker ignores what is not newer than the last. */
	before = w->when;
	hvd_elastic_rv_notify(w->erv, 0);
	hvd_elastic_rv_notify(w->erv, 0);
	assert_int_equal(w->passed, 3);
	assert_true(w->when >= before + 2);
	put(w, "/worker_addresses/a:0", w->listens);
	assert_int_equal(w->passed, 3); /* it was told */
}

TEST_IN(a_new_generation_gives_up_telling, struct world *w)
{
	running(w);
	hvd_elastic_rv_notify(w->erv, 0);
	hvd_elastic_rv_cancel_notify(w->erv);
	put(w, "/worker_addresses/a:0", w->listens);
	assert_int_equal(w->passed, 0);
}

TEST_IN(addresses_that_are_none, struct world *w)
{
	running(w);
	hvd_elastic_rv_notify(w->erv, 0);
	put(w, "/worker_addresses/a:0", "");
	put(w, "/worker_addresses/a:0", "%%%");
	put(w, "/worker_addresses/a:0", "gASVCgAAAAAAAACMBnN5c3RlbZQu"); /* a pickle of another thing */
	put(w, "/worker_addresses/nowhere:0", w->listens);
	put(w, "/worker_addresses/a", w->listens);
	assert_int_equal(w->passed, 0);
	put(w, "/worker_addresses/a:0", w->listens);
	assert_int_equal(w->passed, 1);
}

TEST_IN(it_goes_while_workers_wait, struct world *w)
{
	int fd;

	running(w);
	fd = ask(w, "a:0");
	hvd_elastic_rv_destroy(w->erv);
	w->erv = NULL;
	answer_is(w, fd, 503, "");
}

RUN_TESTS(.setup = begin, .teardown = end)
