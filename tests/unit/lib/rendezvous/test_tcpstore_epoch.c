/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/tcpstore_epoch.h"
#include "tests/unit/unit.h"

#define PID 1000 /* that says something: see the header */

struct world {
	struct hvd_rv_store *store;
	struct hvd_tcpstore_epochs epochs;
	struct hvd_addr a, b;
};

SETUP(setup, struct world, w)
{
	const struct hvd_rv_store_limits limits = {
		.value_max = 1000, .total_max = 100000, .name_max = 32, .scopes_max = 100, .scope_keys_max = 200};

	w->store = hvd_rv_store_create(&limits);
	hvd_tcpstore_epochs_init(&w->epochs, w->store);
	hvd_addr_parse("10.0.0.1", &w->a);
	hvd_addr_parse("fd00::2", &w->b);
}

TEARDOWN(teardown, struct world, w)
{
	hvd_tcpstore_epochs_free(&w->epochs);
	hvd_rv_store_destroy(w->store);
}

static struct hvd_tcpstore_member arrive(struct world *w, const struct hvd_addr *addr, uint32_t pid, uint32_t expected)
{
	struct hvd_tcpstore_member p = {0};

	assert_int_equal(hvd_tcpstore_arrive(&w->epochs, addr, pid, &p), 0);
	assert_int_equal(p.epoch->number, expected);
	return p;
}

static struct hvd_tcpstore_member visit(struct world *w, const struct hvd_addr *addr, uint32_t pid, uint32_t expected)
{
	struct hvd_tcpstore_member p = {0};

	assert_int_equal(hvd_tcpstore_visit(&w->epochs, addr, pid, &p), 0);
	assert_int_equal(p.epoch->number, expected);
	return p;
}

/* The connection's next key is one of a default process group. */
static void begin_group(struct world *w, struct hvd_tcpstore_member *p, uint32_t expected)
{
	assert_int_equal(hvd_tcpstore_begin_group(&w->epochs, p), 0);
	assert_int_equal(p->epoch->number, expected);
}

/* What init_process_group() does. */
static struct hvd_tcpstore_member init(struct world *w, const struct hvd_addr *addr, uint32_t pid, uint32_t base,
				       uint32_t expected)
{
	struct hvd_tcpstore_member p = arrive(w, addr, pid, base);

	begin_group(w, &p, expected);
	return p;
}

static void leave_all(struct world *w, struct hvd_tcpstore_member *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hvd_tcpstore_leave(&w->epochs, &p[i]);
}

static size_t bytes(struct world *w)
{
	struct hvd_rv_store_stats s;

	hvd_rv_store_stats(w->store, &s);
	return s.bytes;
}

static bool is_group_key(const char *key)
{
	return hvd_tcpstore_is_group_key((struct hvd_slice){key, strlen(key)});
}

/* As PyTorch 2.2 to 2.15 writes them. */
TEST(keys_of_groups_are_known)
{
	assert_true(is_group_key("/default_pg/0//cpu//0/1"));
	assert_true(is_group_key("/default_pg/0//1//cuda//0"));
	assert_true(is_group_key("/default_pg/store_based_barrier_key:0"));
	assert_true(is_group_key("//worker/attempt_0/default_pg/0//cpu//0/0")); /* up to 2.5, with an agent's store */
	assert_true(is_group_key("/0//cpu//0/0"));                              /* the program's own store */
	assert_true(is_group_key("/mine/0//cuda//0"));                          /* the same with a prefix */
	assert_true(is_group_key("/exception_dump"));
	assert_false(is_group_key("init/"));
	assert_false(is_group_key("/key"));
	assert_false(is_group_key("/10//key"));
	assert_false(is_group_key("/mine/exception_dump"));
	assert_false(is_group_key("/torch.rendezvous.4711"));
	assert_false(is_group_key("/rpc_prefix_0/0"));
	assert_false(is_group_key(""));
}

/* Processes that make as many stores as they like, before, during and after their groups. */
TEST_IN(clients_without_a_group_share_the_base, struct world *w)
{
	struct hvd_tcpstore_member own[5], group[2];

	w->epochs.ranks = 2;
	own[0] = arrive(w, &w->a, PID, 0);
	own[1] = arrive(w, &w->a, PID, 0);
	own[2] = arrive(w, &w->b, PID, 0);
	assert_ptr_equal(own[0].epoch->scope, own[2].epoch->scope);
	for (uint32_t round = 0; round < 3; round++) {
		group[0] = init(w, &w->a, PID, 0, round);
		group[1] = init(w, &w->b, PID, 0, round);
		own[3] = arrive(w, &w->a, PID, 0);
		own[4] = visit(w, &w->b, PID, 0);
		hvd_tcpstore_leave(&w->epochs, &group[round % 2]);
		leave_all(w, own + 3, 2);
		own[3] = visit(w, &w->a, PID, 0);
		own[4] = arrive(w, &w->b, PID, 0);
		assert_ptr_equal(own[3].epoch->scope, own[0].epoch->scope);
		leave_all(w, own + 3, 2);
		hvd_tcpstore_leave(&w->epochs, &group[1 - round % 2]);
	}
	leave_all(w, own, 3);
	own[0] = arrive(w, &w->a, PID, 0); /* all had gone, but these are the same processes */
	own[1] = arrive(w, &w->b, PID, 0);
	leave_all(w, own, 2);
}

/* Two ranks at the same address and one elsewhere, with the same pid as one of them. One rank can be a round ahead. */
TEST_IN(each_group_has_its_own, struct world *w)
{
	struct hvd_tcpstore_member p[3], q[3];

	for (uint32_t round = 0; round < 5; round++) {
		p[0] = init(w, &w->a, PID, 0, round);
		p[1] = init(w, &w->a, PID + 1, 0, round);
		p[2] = init(w, &w->b, PID, 0, round);
		assert_ptr_equal(p[0].epoch->scope, p[2].epoch->scope);
		hvd_tcpstore_leave(&w->epochs, &p[0]);
		q[0] = init(w, &w->a, PID, 0, ++round);
		assert_ptr_not_equal(q[0].epoch->scope, p[2].epoch->scope);
		hvd_tcpstore_leave(&w->epochs, &p[2]);
		q[2] = init(w, &w->b, PID, 0, round);
		hvd_tcpstore_leave(&w->epochs, &p[1]);
		q[1] = init(w, &w->a, PID + 1, 0, round);
		leave_all(w, q, 3);
		assert_int_equal(w->epochs.by_number.n, 2); /* the base and the newest stay */
	}
}

TEST_IN(it_is_news_once_for_each_group, struct world *w)
{
	struct hvd_tcpstore_member p[4];

	p[0] = arrive(w, &w->a, PID, 0);
	assert_true(p[0].first);
	begin_group(w, &p[0], 0);
	assert_false(p[0].first);
	p[1] = arrive(w, &w->a, PID, 0); /* its own store */
	assert_false(p[1].first);
	p[2] = arrive(w, &w->a, PID, 0);
	assert_false(p[2].first);
	begin_group(w, &p[2], 1);
	assert_true(p[2].first);
	p[3] = visit(w, &w->b, PID, 0);
	begin_group(w, &p[3], 1);
	assert_false(p[3].first);
	leave_all(w, p, 4);
}

/* A group's connection can still be open when the next one begins. */
TEST_IN(clones_join_what_their_process_has_begun, struct world *w)
{
	struct hvd_tcpstore_member early = visit(w, &w->a, PID, 0), p, p2, q, v[4];

	p = init(w, &w->a, PID, 0, 0);
	q = init(w, &w->a, PID + 1, 0, 0);
	p2 = init(w, &w->a, PID, 0, 1);
	v[0] = visit(w, &w->a, PID, 0);
	v[1] = visit(w, &w->a, PID + 1, 0);
	v[2] = visit(w, &w->b, PID, 0); /* not known */
	v[3] = visit(w, &w->b, 0, 0);
	begin_group(w, &v[0], 1);
	begin_group(w, &v[1], 0);
	begin_group(w, &v[2], 1); /* the newest */
	begin_group(w, &v[3], 1);
	leave_all(w, v, 4);
	hvd_tcpstore_leave(&w->epochs, &early);
	hvd_tcpstore_leave(&w->epochs, &p);
	hvd_tcpstore_leave(&w->epochs, &q);
	hvd_tcpstore_leave(&w->epochs, &p2);
	hvd_tcpstore_leave(&w->epochs, &p2); /* nowhere any longer */
	/* A clone that is before its original in the next group. */
	p = arrive(w, &w->a, PID, 0);
	v[0] = visit(w, &w->a, PID, 0);
	begin_group(w, &v[0], 2);
	begin_group(w, &p, 2);
	hvd_tcpstore_leave(&w->epochs, &p);
	hvd_tcpstore_leave(&w->epochs, &v[0]);
}

TEST_IN(memory_goes_with_the_last_connection, struct world *w)
{
	const struct hvd_slice key = {"k", 1}, value = {"0123456789", 10};
	struct hvd_tcpstore_member p = init(w, &w->a, PID, 0, 0), q;
	size_t one, two;

	assert_int_equal(hvd_rv_scope_set(p.epoch->scope, key, value, true), HVD_RV_STORED);
	one = bytes(w);
	hvd_tcpstore_leave(&w->epochs, &p);
	assert_int_equal(bytes(w), one); /* the base stays */
	q = init(w, &w->a, PID, 0, 1);
	two = bytes(w);
	assert_true(two > one);
	assert_int_equal(hvd_rv_scope_set(q.epoch->scope, key, value, true), HVD_RV_STORED);
	assert_true(bytes(w) > two + 10);
	hvd_tcpstore_leave(&w->epochs, &q);
	assert_true(bytes(w) > two + 10); /* there is no newer one */
	q = init(w, &w->a, PID, 0, 2);
	assert_int_equal(bytes(w), two);
	hvd_tcpstore_leave(&w->epochs, &q);
	hvd_tcpstore_epochs_clear(&w->epochs);
	assert_int_equal(bytes(w), 0);
	q = init(w, &w->a, PID, 0, 0); /* as if it had never come */
	hvd_tcpstore_leave(&w->epochs, &q);
}

/* sh -c 'python a.py; python b.py' on two ranks: other processes, the same keys. */
TEST_IN(a_second_program_has_its_own, struct world *w)
{
	struct hvd_tcpstore_member a[2], b[2];

	w->epochs.ranks = 2;
	for (uint32_t round = 0; round < 2; round++) {
		uint32_t pid = PID + 20 * round;

		a[0] = arrive(w, &w->a, pid, 3 * round);
		hvd_tcpstore_leave(&w->epochs, &a[0]); /* it fails, and is started again by its script */
		a[0] = arrive(w, &w->a, pid + 5, 3 * round);
		a[1] = arrive(w, &w->b, pid, 3 * round);
		hvd_tcpstore_leave(&w->epochs, &a[0]);
		b[0] = arrive(w, &w->a, pid + 10, 3 * round + 1);
		hvd_tcpstore_leave(&w->epochs, &a[1]);
		b[1] = arrive(w, &w->b, pid + 10, 3 * round + 1);
		for (uint32_t group = 0; group < 2; group++) {
			a[0] = init(w, &w->a, pid + 10, 3 * round + 1, 3 * round + 1 + group);
			a[1] = init(w, &w->b, pid + 10, 3 * round + 1, 3 * round + 1 + group);
			leave_all(w, a, 2);
		}
		leave_all(w, b, 2);
	}
}

/* A process that another one of its rank starts between two groups is of the same program, and its group is a new
 * one. */
TEST_IN(a_program_is_not_over_between_two_groups, struct world *w)
{
	struct hvd_tcpstore_member p[2], own[2], child[2];

	w->epochs.ranks = 2;
	p[0] = init(w, &w->a, PID, 0, 0);
	p[1] = init(w, &w->b, PID, 0, 0);
	leave_all(w, p, 2);
	own[0] = arrive(w, &w->a, PID, 0);
	own[1] = arrive(w, &w->b, PID, 0);
	child[0] = init(w, &w->a, PID + 1, 0, 1);
	child[1] = init(w, &w->b, PID + 1, 0, 1);
	leave_all(w, child, 2);
	leave_all(w, own, 2);
}

/* More processes than ranks, because each rank has started some: they meet while none of them has gone. */
TEST_IN(more_processes_than_ranks_meet, struct world *w)
{
	struct hvd_tcpstore_member p[16];

	w->epochs.ranks = 2;
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 16; i++)
			p[i] = init(w, i < 8 ? &w->a : &w->b, PID + 100 * round + i, round, round);
		leave_all(w, p, 16);
	}
}

/* Without a pid, and with those of containers that share an address; stores of their own do not count. */
TEST_IN(the_others_get_epochs_by_order, struct world *w)
{
	struct hvd_tcpstore_member p[4], own;

	for (uint32_t pid = 0; pid < 14; pid += 7) {
		w->epochs.ranks = 4;
		for (uint32_t round = 0; round < 3; round++) {
			own = arrive(w, &w->a, pid, round);
			for (int i = 0; i < 4; i++)
				p[i] = init(w, &w->a, pid, round, round);
			hvd_tcpstore_leave(&w->epochs, &own);
			leave_all(w, p, 4);
			if (pid) /* whether they are the same processes cannot be told */
				break;
		}
		hvd_tcpstore_epochs_clear(&w->epochs);
		/* How many there are is not known: then they meet once. */
		w->epochs.ranks = 0;
		for (int i = 0; i < 4; i++)
			p[i] = init(w, &w->a, pid, 0, 0);
		leave_all(w, p, 4);
		hvd_tcpstore_epochs_clear(&w->epochs);
	}
}

/* Two containers, or one after the other, in which the ranks have the same small pids. */
TEST_IN(containers_are_told_by_order, struct world *w)
{
	struct hvd_tcpstore_member p[2];

	w->epochs.ranks = 2;
	for (uint32_t round = 0; round < 3; round++) {
		for (int i = 0; i < 2; i++) {
			assert_int_equal(hvd_tcpstore_arrive(&w->epochs, i ? &w->b : &w->a, 7, &p[i]), 0);
			begin_group(w, &p[i], round);
		}
		leave_all(w, p, 2);
	}
	for (int i = 0; i < 2; i++) { /* one of them has another pid this time */
		assert_int_equal(hvd_tcpstore_arrive(&w->epochs, i ? &w->b : &w->a, i ? 8 : 7, &p[i]), 0);
		begin_group(w, &p[i], 3);
	}
	leave_all(w, p, 2);
}

/* A relay may hear of a connection's end after the same process has come again: some processes then have two
 * connections and others none in between. All of them must begin the same group. */
TEST_IN(containers_whose_connections_overlap, struct world *w)
{
	struct hvd_tcpstore_member p[2], next[2];

	w->epochs.ranks = 2;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hvd_tcpstore_arrive(&w->epochs, i ? &w->b : &w->a, 7, &p[i]), 0);
		begin_group(w, &p[i], 0);
	}
	for (uint32_t round = 1; round < 5; round++) {
		bool first_overlaps = round % 2;

		for (int i = 0; i < 2; i++) {
			bool overlaps = (i == 0) == first_overlaps;

			if (!overlaps)
				hvd_tcpstore_leave(&w->epochs, &p[i]);
			assert_int_equal(hvd_tcpstore_arrive(&w->epochs, i ? &w->b : &w->a, 7, &next[i]), 0);
			begin_group(w, &next[i], round);
			if (overlaps)
				hvd_tcpstore_leave(&w->epochs, &p[i]);
		}
		memcpy(p, next, sizeof(p));
	}
	leave_all(w, p, 2);
}

/* One that is a round ahead of the others. */
TEST_IN(order_is_kept_when_ranks_come_again, struct world *w)
{
	struct hvd_tcpstore_member p[3];

	w->epochs.ranks = 2;
	p[0] = init(w, &w->a, 0, 0, 0);
	p[1] = init(w, &w->a, 0, 0, 0);
	p[2] = init(w, &w->a, 0, 0, 1); /* full, although nobody has gone */
	hvd_tcpstore_leave(&w->epochs, &p[0]);
	hvd_tcpstore_leave(&w->epochs, &p[1]);
	p[0] = init(w, &w->a, 0, 1, 1);
	hvd_tcpstore_leave(&w->epochs, &p[0]);
	hvd_tcpstore_leave(&w->epochs, &p[2]);
}

TEST_IN(a_store_that_is_full_says_so, struct world *w)
{
	const struct hvd_rv_store_limits tiny = {.value_max = 10, .total_max = 400, .name_max = 32};
	struct hvd_rv_store *store = hvd_rv_store_create(&tiny);
	struct hvd_tcpstore_epochs epochs;
	struct hvd_tcpstore_member p[8] = {{0}}, none = {0};
	int n = 0;

	hvd_tcpstore_epochs_init(&epochs, store);
	while (n < 8 && hvd_tcpstore_arrive(&epochs, &w->a, PID + (uint32_t)n, &p[n]) == 0)
		n++;
	assert_int_in_range(n, 1, 7);
	assert_int_equal(hvd_tcpstore_arrive(&epochs, &w->b, PID, &none), -1);
	assert_null(none.epoch);
	for (int i = 0; i < n; i++)
		hvd_tcpstore_leave(&epochs, &p[i]);
	hvd_tcpstore_epochs_free(&epochs);
	hvd_rv_store_destroy(store);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
