/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/tcpstore_generation.h"
#include "unit.h"

#define PID 1000 /* that says something: see the header */

struct world {
	struct hvd_rv_store *store;
	struct hvd_tcpstore_generations gs;
	struct hvd_addr a, b;
};

static int setup(void **state)
{
	const struct hvd_rv_store_limits limits = {
		.value_max = 1000, .total_max = 100000, .name_max = 32, .scopes_max = 100, .scope_keys_max = 200};
	struct world *w = calloc(1, sizeof(*w));

	w->store = hvd_rv_store_create(&limits);
	hvd_tcpstore_generations_init(&w->gs, w->store);
	hvd_addr_parse("10.0.0.1", &w->a);
	hvd_addr_parse("fd00::2", &w->b);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	hvd_tcpstore_generations_free(&w->gs);
	hvd_rv_store_destroy(w->store);
	free(w);
	return 0;
}

static struct hvd_tcpstore_place arrive(struct world *w, const struct hvd_addr *addr, uint32_t pid, uint32_t expected)
{
	struct hvd_tcpstore_place p = {0};

	assert_int_equal(hvd_tcpstore_arrive(&w->gs, addr, pid, &p), 0);
	assert_int_equal(p.generation->number, expected);
	return p;
}

static struct hvd_tcpstore_place visit(struct world *w, const struct hvd_addr *addr, uint32_t pid, uint32_t expected)
{
	struct hvd_tcpstore_place p = {0};

	assert_int_equal(hvd_tcpstore_visit(&w->gs, addr, pid, &p), 0);
	assert_int_equal(p.generation->number, expected);
	return p;
}

static size_t bytes(struct world *w)
{
	struct hvd_rv_store_stats s;

	hvd_rv_store_stats(w->store, &s);
	return s.bytes;
}

/* Two ranks at the same address and one elsewhere, with the same pid as one of them. One rank can be a round ahead. */
static void each_round_has_its_own(void **state)
{
	struct world *w = *state;
	struct hvd_tcpstore_place p[3], q[3];

	for (uint32_t round = 0; round < 5; round++) {
		p[0] = arrive(w, &w->a, PID, round);
		p[1] = arrive(w, &w->a, PID + 1, round);
		p[2] = arrive(w, &w->b, PID, round);
		assert_ptr_equal(p[0].generation->scope, p[2].generation->scope);
		hvd_tcpstore_leave(&w->gs, &p[0]);
		q[0] = arrive(w, &w->a, PID, ++round);
		assert_ptr_not_equal(q[0].generation->scope, p[2].generation->scope);
		hvd_tcpstore_leave(&w->gs, &p[2]);
		q[2] = arrive(w, &w->b, PID, round);
		hvd_tcpstore_leave(&w->gs, &p[1]);
		q[1] = arrive(w, &w->a, PID + 1, round);
		for (int i = 0; i < 3; i++)
			hvd_tcpstore_leave(&w->gs, &q[i]);
		assert_int_equal(w->gs.generations.n, 1); /* the newest stays */
	}
}

static void visitors_use_what_their_process_uses(void **state)
{
	struct world *w = *state;
	struct hvd_tcpstore_place early = visit(w, &w->a, PID, 0), p, p2, q, v[4];

	p = arrive(w, &w->a, PID, 0);
	q = arrive(w, &w->a, PID + 1, 0);
	p2 = arrive(w, &w->a, PID, 1);
	v[0] = visit(w, &w->a, PID, 1);
	v[1] = visit(w, &w->a, PID + 1, 0);
	v[2] = visit(w, &w->b, PID, 1); /* not known: the newest */
	v[3] = visit(w, &w->b, 0, 1);
	for (int i = 0; i < 4; i++)
		hvd_tcpstore_leave(&w->gs, &v[i]);
	hvd_tcpstore_leave(&w->gs, &early);
	hvd_tcpstore_leave(&w->gs, &p);
	hvd_tcpstore_leave(&w->gs, &q);
	assert_int_equal(w->gs.generations.n, 1);
	v[1] = visit(w, &w->a, PID + 1, 0); /* the last of its process, empty by now */
	assert_int_equal(w->gs.generations.n, 2);
	hvd_tcpstore_leave(&w->gs, &v[1]);
	hvd_tcpstore_leave(&w->gs, &p2);
	hvd_tcpstore_leave(&w->gs, &p2); /* nowhere any longer */
}

static void memory_goes_with_the_last_connection(void **state)
{
	struct world *w = *state;
	const struct hvd_slice key = {"k", 1}, value = {"0123456789", 10};
	struct hvd_tcpstore_place p = arrive(w, &w->a, PID, 0), q;
	size_t one, begun = bytes(w);

	assert_int_equal(hvd_rv_scope_set(p.generation->scope, key, value, true), HVD_RV_STORED);
	one = bytes(w);
	assert_true(one > begun + 10);
	hvd_tcpstore_leave(&w->gs, &p);
	assert_int_equal(bytes(w), one); /* there is no newer one */
	q = arrive(w, &w->a, PID, 1);
	assert_int_equal(bytes(w), begun);
	hvd_tcpstore_leave(&w->gs, &q);
	hvd_tcpstore_generations_clear(&w->gs);
	assert_int_equal(bytes(w), 0);
	q = arrive(w, &w->a, PID, 0); /* as if it had never come */
	hvd_tcpstore_leave(&w->gs, &q);
}

/* sh -c 'python a.py; python b.py' on two ranks: other processes, the same keys. */
static void a_second_program_has_its_own(void **state)
{
	struct world *w = *state;
	struct hvd_tcpstore_place a[2], b[2];

	w->gs.ranks = 2;
	a[0] = arrive(w, &w->a, PID, 0);
	hvd_tcpstore_leave(&w->gs, &a[0]); /* it fails, and is started again by its script */
	a[0] = arrive(w, &w->a, PID + 5, 0);
	a[1] = arrive(w, &w->b, PID, 0);
	hvd_tcpstore_leave(&w->gs, &a[0]);
	b[0] = arrive(w, &w->a, PID + 10, 1);
	hvd_tcpstore_leave(&w->gs, &a[1]);
	b[1] = arrive(w, &w->b, PID + 10, 1);
	hvd_tcpstore_leave(&w->gs, &b[0]);
	hvd_tcpstore_leave(&w->gs, &b[1]);
}

/* More processes than ranks, because each rank has started some: they meet while none of them has gone. */
static void more_processes_than_ranks_meet(void **state)
{
	struct world *w = *state;
	struct hvd_tcpstore_place p[16];

	w->gs.ranks = 2;
	for (uint32_t i = 0; i < 16; i++)
		p[i] = arrive(w, i < 8 ? &w->a : &w->b, PID + i, 0);
	for (uint32_t i = 0; i < 16; i++)
		hvd_tcpstore_leave(&w->gs, &p[i]);
	for (uint32_t i = 0; i < 16; i++)
		p[i] = arrive(w, i < 8 ? &w->a : &w->b, PID + i, 1);
	for (uint32_t i = 0; i < 16; i++)
		hvd_tcpstore_leave(&w->gs, &p[i]);
}

/* Without a pid, and with those of containers that share an address. */
static void the_others_are_placed_by_order(void **state)
{
	struct world *w = *state;
	struct hvd_tcpstore_place p[4];

	for (uint32_t pid = 0; pid < 14; pid += 7) {
		w->gs.ranks = 4;
		for (uint32_t round = 0; round < 3; round++) {
			for (int i = 0; i < 4; i++)
				p[i] = arrive(w, &w->a, pid, round);
			for (int i = 0; i < 4; i++)
				hvd_tcpstore_leave(&w->gs, &p[i]);
		}
		hvd_tcpstore_generations_clear(&w->gs);
		/* How many there are is not known: then they meet once. */
		w->gs.ranks = 0;
		for (int i = 0; i < 4; i++)
			p[i] = arrive(w, &w->a, pid, 0);
		for (int i = 0; i < 4; i++)
			hvd_tcpstore_leave(&w->gs, &p[i]);
		hvd_tcpstore_generations_clear(&w->gs);
	}
}

/* One that is a round ahead of the others. */
static void order_is_kept_when_ranks_come_again(void **state)
{
	struct world *w = *state;
	struct hvd_tcpstore_place p[3];

	w->gs.ranks = 2;
	p[0] = arrive(w, &w->a, 0, 0);
	p[1] = arrive(w, &w->a, 0, 0);
	p[2] = arrive(w, &w->a, 0, 1); /* full, although nobody has gone */
	hvd_tcpstore_leave(&w->gs, &p[0]);
	hvd_tcpstore_leave(&w->gs, &p[1]);
	p[0] = arrive(w, &w->a, 0, 1);
	hvd_tcpstore_leave(&w->gs, &p[0]);
	hvd_tcpstore_leave(&w->gs, &p[2]);
}

static void a_store_that_is_full_says_so(void **state)
{
	const struct hvd_rv_store_limits tiny = {.value_max = 10, .total_max = 400, .name_max = 32};
	struct world *w = *state;
	struct hvd_rv_store *store = hvd_rv_store_create(&tiny);
	struct hvd_tcpstore_generations gs;
	struct hvd_tcpstore_place p[8] = {{0}}, none = {0};
	int n = 0;

	hvd_tcpstore_generations_init(&gs, store);
	while (n < 8 && hvd_tcpstore_arrive(&gs, &w->a, PID + (uint32_t)n, &p[n]) == 0)
		n++;
	assert_int_in_range(n, 1, 7);
	assert_int_equal(hvd_tcpstore_arrive(&gs, &w->b, PID, &none), -1);
	assert_null(none.generation);
	for (int i = 0; i < n; i++)
		hvd_tcpstore_leave(&gs, &p[i]);
	hvd_tcpstore_generations_free(&gs);
	hvd_rv_store_destroy(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_round_has_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(visitors_use_what_their_process_uses, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_goes_with_the_last_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(a_second_program_has_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(more_processes_than_ranks_meet, setup, teardown),
		cmocka_unit_test_setup_teardown(the_others_are_placed_by_order, setup, teardown),
		cmocka_unit_test_setup_teardown(order_is_kept_when_ranks_come_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_store_that_is_full_says_so, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
