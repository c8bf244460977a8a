/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server for TCPStore clients.
 */
#include "tcpstore_world.h"

/* --- the queries --- */

TEST_IN(answers_every_query, struct world *w)
{
	begin(w);
	for (int big = 0; big < 2; big++) {
		static const char *const keys[] = {"a", "c", "missing", "q"};
		int fd;

		w->out.big = big;
		fd = join(w, 700 + (uint32_t)big, 1);
		hvd_rv_tcpstore_ranks(w->root, 1); /* so that the second one finds an empty store */
		get(w, fd, "missing", "");
		set(w, fd, "a", "one");
		get(w, fd, "a", "one");
		set(w, fd, "a", "");
		get(w, fd, "a", "");
		add_pair(&w->out, HVD_TCPSTORE_APPEND, "a", "x");
		add_pair(&w->out, HVD_TCPSTORE_APPEND, "a", "yz");
		get(w, fd, "a", "xyz");
		add_count(&w->out, HVD_TCPSTORE_ADD, "c", 5);
		expect_number(w, fd, 5);
		add_count(&w->out, HVD_TCPSTORE_ADD, "c", -15);
		expect_number(w, fd, -10);
		get(w, fd, "c", "-10");
		compare_set(w, fd, "s", "no", "new", "no"); /* as PyTorch: it says so, and stores nothing */
		get(w, fd, "s", "");
		compare_set(w, fd, "s", "", "new", "new");
		compare_set(w, fd, "s", "old", "newer", "new");
		compare_set(w, fd, "s", "new", "newer", "newer");
		get(w, fd, "s", "newer");
		add_keys(&w->out, HVD_TCPSTORE_CHECK, keys, 2);
		expect_byte(w, fd, 0);
		add_keys(&w->out, HVD_TCPSTORE_CHECK, keys, 3);
		expect_byte(w, fd, 1);
		add_keys(&w->out, HVD_TCPSTORE_CHECK, keys, 0);
		expect_byte(w, fd, 0);
		add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 2);
		expect_byte(w, fd, 0);
		add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 0);
		expect_byte(w, fd, 0);
		add_keys(&w->out, HVD_TCPSTORE_MULTI_GET, keys, 3);
		expect_text(w, fd, "xyz");
		expect_text(w, fd, "-10");
		expect_text(w, fd, "");
		add_query(&w->out, HVD_TCPSTORE_MULTI_SET);
		add_number(&w->out, 2, 8);
		for (int i = 0; i < 2; i++) {
			add_string(&w->out, i ? "m1" : "m0");
			add_string(&w->out, i ? "" : "value");
		}
		get(w, fd, "m0", "value");
		add_query(&w->out, HVD_TCPSTORE_GETNUMKEYS); /* init/ a c s m0 m1 */
		expect_number(w, fd, 6);
		add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, "m0");
		expect_number(w, fd, 1);
		add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, "m0");
		expect_number(w, fd, 0);
		add_key(&w->out, HVD_TCPSTORE_QUEUE_POP, "q");
		expect_number(w, fd, 0);
		add_pair(&w->out, HVD_TCPSTORE_QUEUE_PUSH, "q", "first");
		add_pair(&w->out, HVD_TCPSTORE_QUEUE_PUSH, "q", "");
		add_key(&w->out, HVD_TCPSTORE_QUEUE_LEN, "q");
		expect_number(w, fd, 2);
		add_keys(&w->out, HVD_TCPSTORE_CHECK, keys + 3, 1); /* a queue counts as a key for CHECK */
		expect_byte(w, fd, 0);
		get(w, fd, "q", ""); /* a queue has no value */
		add_query(&w->out, HVD_TCPSTORE_GETNUMKEYS);
		expect_number(w, fd, 5);
		add_key(&w->out, HVD_TCPSTORE_QUEUE_POP, "q");
		expect_number(w, fd, 2);
		expect_text(w, fd, "first");
		add_key(&w->out, HVD_TCPSTORE_QUEUE_POP, "q");
		expect_number(w, fd, 1);
		expect_text(w, fd, "");
		add_keys(&w->out, HVD_TCPSTORE_CHECK, keys + 3, 1);
		expect_byte(w, fd, 1);
		add_count(&w->out, HVD_TCPSTORE_BARRIER, "b", 1);
		expect_byte(w, fd, 0);
		get(w, fd, "b", "1");
		add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT);
		expect_byte(w, fd, 1);
		close(fd);
		turn(w, 0.02);
	}
	assert_int_equal(stats(w).tcpstore_now, 0);
	assert_int_equal(stats(w).tcpstore_joined, 2);
	assert_string_equal(said(w), "");
}

TEST_IN(lists_keys, struct world *w)
{
	int fd, seen = 0;

	begin(w);
	fd = join(w, 700, 1);
	set(w, fd, "k0", "x");
	set(w, fd, "k1", "x");
	set(w, fd, "k2", "x");
	add_pair(&w->out, HVD_TCPSTORE_QUEUE_PUSH, "queue", "x");
	add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, "k1");
	expect_number(w, fd, 1);
	add_query(&w->out, HVD_TCPSTORE_LIST_KEYS);
	expect_number(w, fd, 3);
	for (int i = 0; i < 3; i++) {
		char text[8] = "";
		uint64_t n = hear_number(w, fd, 8);

		assert_true(n < sizeof(text) && hear(w, fd, text, n));
		seen += strcmp(text, "k0") == 0      ? 1
			: strcmp(text, "k2") == 0    ? 10
			: strcmp(text, "init/") == 0 ? 100
						     : 0;
	}
	assert_int_equal(seen, 111);
	close(fd);
}

/* All requests in two pieces, cut at every byte; the answers are the same. */
TEST_IN(cuts_make_no_difference, struct world *w)
{
	char whole[1024], split[1024];
	size_t len = 0;

	begin(w);
	for (int big = 0; big < 2; big++) {
		struct bytes all = {.big = big};

		add_all_queries(&all);
		for (size_t cut = 0; cut < all.n; cut++) {
			size_t got = 0;
			int fd;

			hvd_rv_tcpstore_reset(w->root);
			turn(w, 0);
			fd = dial(w);
			add_raw(&w->out, all.p, cut);
			say(w, fd);
			turn(w, 0);
			turn(w, 0);
			add_raw(&w->out, all.p + cut, all.n - cut);
			say(w, fd);
			shutdown(fd, SHUT_WR);
			while (hear(w, fd, split + got, 1))
				got++;
			if (cut == 0) {
				len = got;
				memcpy(whole, split, got);
				assert_int_in_range(len, 100, sizeof(whole));
			}
			assert_int_equal(got, len);
			assert_memory_equal(split, whole, len);
			close(fd);
		}
		free(all.p);
	}
}

/* --- waiting --- */

TEST_IN(waits_for_all_of_its_keys, struct world *w)
{
	static const char *const keys[] = {"a", "b", "c", "b"};
	int one, many, setter;

	begin(w);
	setter = join(w, 700, 1);
	one = join(w, 701, 2);
	many = join(w, 702, 3);
	set(w, setter, "c", "there");
	add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 4);
	expect_nothing(w, many);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 1);
	expect_nothing(w, one);
	assert_text(hvd_rv_tcpstore_waits(w->rv, 5),
		    "127.0.0.1 (pid 702) waits for a and 2 more\n127.0.0.1 (pid 701) waits for a");
	assert_text(hvd_rv_tcpstore_waits(w->rv, 1), "127.0.0.1 (pid 702) waits for a and 2 more");
	set(w, setter, "a", "x");
	expect_byte(w, one, 0);
	expect_nothing(w, many);
	add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, "a"); /* it was there, and counts */
	expect_number(w, setter, 1);
	set(w, setter, "b", "x");
	expect_byte(w, many, 0);
	set(w, setter, "a", "x");
	expect_nothing(w, many);
	assert_null(hvd_rv_tcpstore_waits(w->rv, 5));
	assert_int_equal(stats(w).store.waiters, 0);
	close(one);
	close(many);
	close(setter);
}

TEST_IN(every_way_to_make_a_key_wakes, struct world *w)
{
	static const char *const key[] = {"k"};
	int waiter, setter;

	begin(w);
	setter = join(w, 700, 1);
	waiter = join(w, 701, 2);
	for (int way = 0; way < 7; way++) {
		add_keys(&w->out, HVD_TCPSTORE_WAIT, key, 1);
		expect_nothing(w, waiter);
		switch (way) {
		case 0:
			add_pair(&w->out, HVD_TCPSTORE_SET, "k", "x");
			break;
		case 1:
			add_pair(&w->out, HVD_TCPSTORE_APPEND, "k", "x");
			break;
		case 2:
			add_pair(&w->out, HVD_TCPSTORE_QUEUE_PUSH, "k", "x");
			break;
		case 3:
			add_count(&w->out, HVD_TCPSTORE_ADD, "k", 1);
			expect_number(w, setter, 1);
			break;
		case 4:
			compare_set(w, setter, "k", "other", "x", "other");
			expect_nothing(w, waiter); /* nothing was stored */
			compare_set(w, setter, "k", "", "x", "x");
			break;
		case 5:
			add_query(&w->out, HVD_TCPSTORE_MULTI_SET);
			add_number(&w->out, 1, 8);
			add_string(&w->out, "k");
			add_string(&w->out, "x");
			break;
		default: /* not a way */
			expect_nothing(w, waiter);
			add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT);
			expect_byte(w, waiter, 1);
			continue;
		}
		say(w, setter);
		expect_byte(w, waiter, 0);
		add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, "k");
		expect_number(w, setter, way == 2 ? 0 : 1);
		add_key(&w->out, HVD_TCPSTORE_QUEUE_POP, "k");
		expect_number(w, setter, way == 2 ? 1 : 0);
		if (way == 2)
			expect_text(w, setter, "x");
	}
	close(waiter);
	close(setter);
}

/* A client that has given up waiting reads until the answer to CANCEL_WAIT, whatever came before it. */
TEST_IN(a_wait_can_be_cancelled, struct world *w)
{
	static const char *const keys[] = {"a", "b"};
	int fd, other;

	begin(w);
	fd = join(w, 700, 1);
	other = join(w, 701, 2);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 2);
	add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT);
	expect_byte(w, fd, 1);
	set(w, other, "a", "x");
	set(w, other, "b", "x");
	expect_nothing(w, fd);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 2);
	add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT);
	expect_byte(w, fd, 0);
	expect_byte(w, fd, 1);
	add_count(&w->out, HVD_TCPSTORE_BARRIER, "c", 2);
	add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT);
	expect_byte(w, fd, 1);
	add_key(&w->out, HVD_TCPSTORE_GET, "a"); /* and it can go on */
	expect_text(w, fd, "x");
	assert_int_equal(stats(w).store.waiters, 0);
	close(fd);
	close(other);
}

TEST_IN(a_lost_client_waits_no_longer, struct world *w)
{
	char names[40][8];
	const char *keys[40];
	size_t before;
	int fd, other;

	begin(w);
	other = join(w, 700, 1);
	set(w, other, "x", "1");
	for (size_t i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "k%zu", i);
		keys[i] = names[i];
	}
	add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, "x");
	expect_number(w, other, 1);
	fd = join(w, 701, 2);
	before = stats(w).store.bytes;
	add_keys(&w->out, HVD_TCPSTORE_WAIT, keys, 40);
	expect_nothing(w, fd);
	assert_int_equal(stats(w).store.waiters, 40);
	close(fd);
	turn(w, 0.02);
	assert_int_equal(stats(w).store.waiters, 0);
	if (!w->relayed) /* which keeps in mind that there are none */
		assert_int_equal(stats(w).store.bytes, before);
	set(w, other, "k7", "x");
	close(other);
}

TEST_IN(queues_wake_one, struct world *w)
{
	static const char *const queue[] = {"q"}, *const both[] = {"q", "other"};
	int first, second, third, pusher;

	begin(w);
	pusher = join(w, 700, 1);
	first = join(w, 701, 2);
	second = join(w, 702, 3);
	third = join(w, 703, 4);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, both, 2);
	expect_nothing(w, first);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, queue, 1);
	expect_nothing(w, second);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, queue, 1);
	expect_nothing(w, third);
	add_pair(&w->out, HVD_TCPSTORE_QUEUE_PUSH, "q", "1"); /* the first waits for another key, too */
	say(w, pusher);
	expect_byte(w, second, 0);
	expect_nothing(w, third);
	expect_nothing(w, first);
	add_pair(&w->out, HVD_TCPSTORE_QUEUE_PUSH, "q", "2");
	say(w, pusher);
	expect_byte(w, third, 0);
	set(w, pusher, "other", "x");
	expect_byte(w, first, 0);
	add_key(&w->out, HVD_TCPSTORE_QUEUE_LEN, "q");
	expect_number(w, first, 2);
	close(first);
	close(second);
	close(third);
	close(pusher);
}

/* --- epochs --- */

/* All clients see what any of them has set, but for the keys of default process groups: each begins with none. */
TEST_IN(each_group_begins_with_nothing, struct world *w)
{
	static const char address[] = "/default_pg/0//cpu//0/0";
	static const char count[] = "/default_pg/store_based_barrier_key:0";
	static const char *const both[] = {"/later", address};
	int a, b, clone, own[2];
	int64_t nth = 0;

	begin(w);
	own[0] = join(w, 700, ++nth);
	own[1] = join(w, 701, ++nth);
	set(w, own[0], "/mine", "kept");
	for (uint32_t round = 0; round < 3; round++) {
		a = join(w, 700, ++nth);
		b = join(w, 701, ++nth);
		get(w, b, "/mine", "kept");
		get(w, a, address, "");
		get(w, b, address, "");
		set(w, a, address, "here");
		add_count(&w->out, HVD_TCPSTORE_ADD, count, 1);
		expect_number(w, a, 1);
		add_count(&w->out, HVD_TCPSTORE_ADD, count, 1);
		expect_number(w, b, 2);
		get(w, b, address, "here");
		clone = meet(w, 701);
		get(w, clone, "/mine", "kept");
		get(w, clone, address, "here");
		close(clone);
		clone = meet(w, 701);
		add_keys(&w->out, HVD_TCPSTORE_WAIT, both, 2); /* the second where it waits for the first */
		expect_nothing(w, clone);
		set(w, own[0], both[0], "x");
		expect_byte(w, clone, 0);
		get(w, clone, address, "here");
		add_key(&w->out, HVD_TCPSTORE_DELETE_KEY, both[0]);
		expect_number(w, own[1], 1);
		close(clone);
		get(w, own[1], "/mine", "kept");
		assert_int_equal(w->n_joins, 2 * (round + 1));
		assert_int_equal(w->joins[w->n_joins - 1].epoch, round);
		assert_int_equal(w->joins[w->n_joins - 1].pid, 701);
		assert_true(hvd_addr_loopback(&w->joins[w->n_joins - 1].from));
		close(a);
		close(b);
		turn(w, 0.01);
	}
	close(own[0]);
	close(own[1]);
}

TEST_IN(renewing_forgets_all, struct world *w)
{
	static const char *const key[] = {"k"};
	int a, b;

	begin(w);
	a = join(w, 700, 1);
	set(w, a, "address", "here");
	b = join(w, 701, 2);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, key, 1);
	expect_nothing(w, b);
	hvd_rv_clear(w->rv, NULL); /* Horovod's: leaves the store alone */
	get(w, a, "address", "here");
	hvd_rv_tcpstore_reset(w->root);
	expect_end(w, a);
	expect_end(w, b);
	assert_int_equal(stats(w).store.bytes, 0);
	a = join(w, 700, 1);
	assert_int_equal(w->joins[2].epoch, 0);
	get(w, a, "address", "");
	close(a);
}

/* Both protocols at one port over one store, but not the same keys. */
TEST_IN(http_is_another_world, struct world *w)
{
	static const char ask[] = "GET /tcpstore/address HTTP/1.1\r\n\r\n";
	struct hvd_err err;
	char answer[13] = "";
	int a, http;

	w->cfg.get_wait = 0;
	begin(w);
	a = join(w, 700, 1);
	set(w, a, "address", "here");
	assert_int_equal(hvd_rv_put(w->rv, "tcpstore", "other", "x", 1, &err), 0);
	get(w, a, "other", "");
	http = dial(w);
	add_raw(&w->out, ask, sizeof(ask) - 1);
	say(w, http);
	assert_true(hear(w, http, answer, 12));
	assert_string_equal(answer, "HTTP/1.1 404");
	close(http);
	close(a);
}

/* --- limits --- */

TEST_IN(tells_whom_it_cannot_serve, struct world *w)
{
	const char *first;
	int fd;

	begin(w);
	for (int i = 0; i < 3; i++) {
		fd = dial(w);
		add_count(&w->out, 3, "init/", 1);
		expect_end(w, fd);
	}
	first = strstr(said(w), "a process at 127.0.0.1 uses PyTorch older than 2.2");
	assert_non_null(first);
	assert_in(first, "--store=rank0");
	assert_null(strstr(first + 1, "a process at")); /* told once */
	assert_int_equal(stats(w).tcpstore_old, 3);
	fd = dial(w);
	add_number(&w->out, 0, 1);
	add_number(&w->out, 12345, 4);
	expect_end(w, fd);
	assert_in(said(w), "magic number");
	fd = meet(w, 700);
	add_number(&w->out, 77, 1);
	expect_end(w, fd);
	assert_in(said(w), "process 700 at 127.0.0.1: it sent an unknown query");
	fd = join(w, 700, 1);
	add_pair(&w->out, HVD_TCPSTORE_SET, "text", "no number");
	add_count(&w->out, HVD_TCPSTORE_ADD, "text", 1);
	expect_end(w, fd);
	assert_in(said(w), "not a number");
	fd = join(w, 701, 2);
	add_count(&w->out, HVD_TCPSTORE_ADD, "big", INT64_MAX);
	add_count(&w->out, HVD_TCPSTORE_ADD, "big", 1);
	say(w, fd);
	assert_int_equal(hear_number(w, fd, 8), INT64_MAX);
	expect_end(w, fd);
	assert_int_equal(stats(w).conns_now, 0);
}

TEST_IN(needs_to_be_asked_for, struct world *w)
{
	char answer[13] = "";
	int fd;

	w->cfg.tcpstore = false;
	begin(w);
	fd = dial(w);
	add_validate(&w->out);
	add_query(&w->out, 10);
	add_query(&w->out, 10); /* an empty line: what HTTP would wait for */
	say(w, fd);
	assert_true(hear(w, fd, answer, 12));
	assert_string_equal(answer, "HTTP/1.1 400");
	close(fd);
	hvd_rv_tcpstore_reset(w->root);
	hvd_rv_tcpstore_ranks(w->root, 4);
	assert_null(hvd_rv_tcpstore_waits(w->rv, 5));
}

/* Who announces much and sends little takes little memory. */
TEST_IN(announced_lengths_take_no_memory, struct world *w)
{
	int fds[50];
	size_t before;

	w->cfg.store.total_max = 4 << 20;
	begin(w);
	for (int i = 0; i < 50; i++)
		fds[i] = join(w, 700 + (uint32_t)i, i + 1);
	before = stats(w).store.bytes;
	for (int i = 0; i < 50; i++) {
		if (i % 2) {
			add_query(&w->out, HVD_TCPSTORE_WAIT);
			add_number(&w->out, HVD_TCPSTORE_LIST_MAX, 8);
			add_string(&w->out, "k");
		} else {
			add_key(&w->out, HVD_TCPSTORE_SET, "k");
			add_number(&w->out, HVD_TCPSTORE_VALUE_MAX, 8);
			add_raw(&w->out, "abc", 3);
		}
		say(w, fds[i]);
	}
	turn(w, 0.05);
	assert_int_equal(stats(w).tcpstore_now, 50);
	assert_true(stats(w).store.bytes - before < 50 * 8192);
	for (int i = 0; i < 50; i++)
		close(fds[i]);
	turn(w, 0.05);
	assert_int_equal(stats(w).tcpstore_now, 0);
	/* A relay keeps in mind that there is no such key. */
	assert_int_in_range(stats(w).store.bytes, before, before + (w->relayed ? 1000 : 0));
}

TEST_IN(large_values_arrive_whole, struct world *w)
{
	const size_t n = HVD_TCPSTORE_VALUE_MAX;
	char *value = malloc(n + 1), *back = malloc(n);
	int fd;

	begin(w);
	for (size_t i = 0; i < n; i++)
		value[i] = (char)('a' + i * 31 % 23);
	value[n] = '\0';
	fd = join(w, 700, 1);
	for (int round = 0; round < 2; round++) {
		add_pair(&w->out, HVD_TCPSTORE_SET, "big", value);
		add_pair(&w->out, HVD_TCPSTORE_SET, "small", "x");
		get(w, fd, "small", "x");
		add_key(&w->out, HVD_TCPSTORE_GET, "small");
		add_key(&w->out, HVD_TCPSTORE_GET, "big");
		add_key(&w->out, HVD_TCPSTORE_GET, "small");
		expect_text(w, fd, "x");
		assert_int_equal(hear_number(w, fd, 8), n);
		assert_true(hear(w, fd, back, n));
		assert_memory_equal(back, value, n);
		expect_text(w, fd, "x");
	}
	add_pair(&w->out, HVD_TCPSTORE_APPEND, "big", "end"); /* longer than a request could be */
	add_key(&w->out, HVD_TCPSTORE_GET, "big");
	say(w, fd);
	assert_int_equal(hear_number(w, fd, 8), n + 3);
	assert_true(hear(w, fd, back, n));
	assert_true(hear(w, fd, back, 3));
	assert_memory_equal(back, "end", 3);
	close(fd);
	free(value);
	free(back);
}

/* A client that asks and asks, and reads nothing: it is heard no longer at some point, and gets all its answers when it
 * reads. Meanwhile others are served. */
TEST_IN(who_does_not_read_is_not_heard, struct world *w)
{
	const size_t n = 100000, rounds = 2000;
	char *value = malloc(n + 1), *back = malloc(n);
	struct bytes ask = {0};
	size_t sent = 0, before;
	int fd, other;

	begin(w);
	fd = join(w, 700, 1);
	other = join(w, 701, 2);
	memset(value, 'v', n);
	value[n] = '\0';
	set(w, fd, "k", value);
	before = stats(w).store.bytes;
	for (size_t i = 0; i < rounds; i++)
		add_key(&ask, HVD_TCPSTORE_GET, "k");
	for (int still = 0; still < 50; still++) {
		ssize_t got = send(fd, ask.p + sent, ask.n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		sent += got > 0 ? (size_t)got : 0;
		turn(w, 0.001);
	}
	assert_true(stats(w).store.bytes - before < 1 << 20);
	set(w, other, "k", "replaced");
	for (size_t i = 0; i < rounds; i++) {
		uint64_t len;

		while (sent < ask.n) {
			ssize_t got = send(fd, ask.p + sent, ask.n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

			if (got < 0)
				break;
			sent += (size_t)got;
		}
		len = hear_number(w, fd, 8);
		assert_true(len == n || len == 8);
		assert_true(hear(w, fd, back, len));
		assert_int_equal(back[0], len == n ? 'v' : 'r');
	}
	close(fd);
	close(other);
	turn(w, 0.05);
	assert_true(stats(w).store.bytes < before + (w->relayed ? 1000 : 0)); /* of the short value */
	free(ask.p);
	free(value);
	free(back);
}

/* Neither a request nor its answer fits into the sockets, and the client reads when it has sent all. */
TEST_IN(a_long_list_is_read_to_its_end, struct world *w)
{
	enum {
		N = 60000,
		LEN = 300
	};
	char key[LEN + 1] = "", value[LEN + 1] = "";
	int fd, small = 65536;

	begin(w);
	fd = join(w, 700, 1);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	memset(key, 'k', LEN);
	memset(value, 'v', LEN);
	set(w, fd, key, value);
	add_query(&w->out, HVD_TCPSTORE_MULTI_GET);
	add_number(&w->out, N, 8);
	for (int i = 0; i < N; i++)
		add_string(&w->out, key);
	for (int i = 0; i < N; i++)
		expect_text(w, fd, value);
	close(fd);
}

TEST_IN(closes_when_there_is_no_room, struct world *w)
{
	const char *key[] = {"k", "l"};
	char *value = calloc(1, 70001);
	int fd;

	w->cfg.store.total_max = 100000;
	begin(w);
	memset(value, 'v', 70000);
	fd = join(w, 700, 1);
	set(w, fd, "a", "x");
	add_pair(&w->out, HVD_TCPSTORE_SET, "b", value);
	add_pair(&w->out, HVD_TCPSTORE_SET, "c", value);
	expect_end(w, fd);
	assert_in(said(w), "warning");
	assert_in(said(w), "no room");
	fd = join(w, 701, 2);
	get(w, fd, "a", "x");
	if (w->relayed) { /* a relay whose watches the root has no room for loses the root */
		close(fd);
		free(value);
		return;
	}
	for (int i = 0; i < 1000; i++) { /* names take memory, too */
		char name[64];

		snprintf(name, sizeof(name), "%060d", i);
		key[0] = name;
		add_keys(&w->out, HVD_TCPSTORE_WAIT, key, 2);
		add_query(&w->out, HVD_TCPSTORE_QUEUE_PUSH);
		add_string(&w->out, name);
		add_string(&w->out, "");
	}
	expect_end(w, fd);
	fd = join(w, 702, 3);
	close(fd);
	free(value);
}

/* The client has gone when the first 64 KiB of answers are to be sent, which is in the middle of a QUEUE_POP. */
TEST_IN(who_goes_meanwhile_does_no_harm, struct world *w)
{
	static const struct linger reset = {.l_onoff = 1};
	char value[3626] = "";
	int first, fd, other;

	begin(w);
	first = join(w, 700, 1);
	set(w, first, "/0//k", "");
	fd = join(w, 700, 2);
	memset(value, 'v', sizeof(value) - 1);
	set(w, fd, "/0//k", value);
	other = join(w, 700, 3);
	get(w, other, "/0//k", ""); /* a newer epoch: that of `fd` ends with it */
	for (int i = 0; i < 30; i++) {
		add_key(&w->out, HVD_TCPSTORE_GET, "/0//k");
		add_key(&w->out, HVD_TCPSTORE_QUEUE_POP, "q");
	}
	assert_int_equal(send(fd, w->out.p, w->out.n, 0), w->out.n);
	w->out.n = 0;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	turn(w, 0.02);
	assert_int_equal(stats(w).tcpstore_now, 2);
	get(w, other, "/0//k", "");
	assert_true(stats(w).store.bytes < sizeof(value));
	close(other);
	close(first);
}

TEST_IN(who_does_not_go_on_is_closed, struct world *w)
{
	int begun, idle;

	begin(w);
	idle = join(w, 700, 1);
	begun = dial(w);
	add_number(&w->out, 0, 1);
	say(w, begun);
	turn(w, 0.1);
	assert_int_equal(stats(w).tcpstore_now, 2);
	expect_end(w, begun); /* head_time is 0.3 s */
	turn(w, 0.5);
	get(w, idle, "none", "");
	close(idle);
}

/* Places for others are made by closing connections of HTTP only. */
TEST_IN(is_not_closed_for_others, struct world *w)
{
	int fd[3], late;

	w->cfg.conns_max = 3;
	begin(w);
	for (int i = 0; i < 3; i++)
		fd[i] = join(w, 700 + (uint32_t)i, i + 1);
	late = dial(w);
	add_validate(&w->out);
	add_count(&w->out, HVD_TCPSTORE_ADD, "init/", 1);
	expect_nothing(w, late);
	assert_in(said(w), "3 connections");
	for (int i = 0; i < 3; i++)
		get(w, fd[i], "none", "");
	close(fd[1]);
	assert_int_equal(hear_number(w, late, 8), 4);
	close(late);
	close(fd[0]);
	close(fd[2]);
}

TEST_IN(a_stranger_is_expelled, struct world *w)
{
	struct hvd_addr nobody;
	int fd;

	w->cfg.access = hvd_rv_access_create();
	begin(w);
	fd = join(w, 700, 1);
	hvd_addr_parse("192.0.2.1", &nobody);
	hvd_rv_access_replace(w->cfg.access, &nobody, 1);
	hvd_rv_disconnect_denied(w->rv);
	get(w, fd, "none", ""); /* loopback may always connect */
	close(fd);
}

TEST_IN(ends_with_the_server, struct world *w)
{
	int fd, waiting;
	static const char *const key[] = {"k"};

	begin(w);
	fd = join(w, 700, 1);
	waiting = join(w, 701, 2);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, key, 1);
	expect_nothing(w, waiting);
	hvd_rv_stop(w->rv, 1.0, NULL, NULL);
	expect_end(w, fd);
	expect_end(w, waiting);
}

/* test_tcpstore_relayed.c is this file with another value: the same of a relay. */
#ifndef RELAYED
#define RELAYED false
#endif

RUN_TESTS(.setup = setup, .teardown = teardown, .state = &(bool){RELAYED})
