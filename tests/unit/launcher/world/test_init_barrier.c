/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks have called init_process_group(), told from the addresses that they came from. */
#include "launcher/world/init_barrier.h"

#include "tests/unit/unit.h"

#define SECOND ((hvd_time)1000000000)

/* Hosts n1 to n4, of which n4 and n3 are two names of one machine if `shared`; each has 10.0.0.I, and 172.17.0.1 as all
 * others have. */
struct world {
	struct hvd_host_table table;
	struct hvd_layout layout;
	struct hvd_init_barrier a;
	uint32_t pid;
};

static void make(struct world *w, const char *const ranks[4], bool shared)
{
	hvd_host_table_init(&w->table, 4, 0);
	for (int i = 0; i < 4; i++) {
		char text[512];
		uint32_t index;
		json_t *msg;

		snprintf(text, sizeof(text),
			 "{\"t\":\"register\",\"node\":%d,\"nodes\":4,\"size\":0,\"name\":\"n%d\",\"host\":\"n%d\","
			 "\"machine\":\"%032d\",\"ranks\":%s,\"port\":1,\"relay\":2,\"dropped\":\"\",\"ifaces\":["
			 "{\"n\":\"eth0\",\"k\":\"ethernet\",\"s\":1,\"r\":1,\"u\":0,\"a\":[\"10.0.0.%d\"]},"
			 "{\"n\":\"br0\",\"k\":\"ethernet\",\"s\":1,\"r\":9,\"u\":0,\"a\":[\"172.17.0.1\"]}]}",
			 i, i + 1, i + 1, shared && i == 3 ? 2 : 3 - i, ranks[i], shared && i == 3 ? 3 : i + 1);
		msg = json_loads(text, 0, NULL);
		assert_int_equal(hvd_host_table_register(&w->table, msg, &index, NULL), 0);
		json_decref(msg);
	}
	if (shared) /* the machines count from the other end */
		memcpy(w->table.hosts[3].node.machine, w->table.hosts[2].node.machine, HVD_MACHINE_LEN);
	assert_int_equal(hvd_host_table_layout(&w->table, &w->layout, NULL), 0);
	hvd_init_barrier_begin(&w->a, &w->layout, &w->table);
}

static int set_up(void **state)
{
	*state = calloc(1, sizeof(struct world));
	return *state ? 0 : -1;
}

TEARDOWN(tear_down, struct world, w)
{
	hvd_init_barrier_clear(&w->a);
	hvd_init_barrier_clear(&w->a);
	hvd_layout_clear(&w->layout);
	hvd_host_table_clear(&w->table);
}

static const struct hvd_init_round *come(struct world *w, const char *from, uint32_t epoch, hvd_time now)
{
	struct hvd_rv_init_event join = {.pid = ++w->pid, .epoch = epoch};

	assert_int_equal(hvd_addr_parse(from, &join.from), 0);
	return hvd_init_barrier_add(&w->a, &join, now);
}

static void assert_missing(struct world *w, uint32_t epoch, const char *text)
{
	for (uint32_t i = 0; i < w->a.n; i++)
		if (w->a.epochs[i].number == epoch) {
			char *missing = hvd_init_barrier_missing(&w->a, &w->a.epochs[i]);

			assert_string_equal(missing, text);
			free(missing);
			return;
		}
	fail_msg("there is no epoch %u", (unsigned)epoch);
}

static const char *const two_each[] = {"[0,1]", "[2,3]", "[4,5]", "[6,7]"};

TEST_IN(all_come, struct world *w)
{
	const struct hvd_init_round *all;

	make(w, two_each, false);
	assert_int_equal(hvd_init_barrier_next(&w->a, 0), INT64_MAX);
	for (int h = 4; h > 0; h--) {
		char from[16];

		snprintf(from, sizeof(from), "10.0.0.%d", h);
		assert_null(come(w, from, 0, (5 - h) * SECOND));
		all = come(w, from, 0, (5 - h) * SECOND);
		assert_true((all != NULL) == (h == 1));
	}
	assert_int_equal(all->arrived, 8);
	assert_int_equal(all->first, SECOND);
	assert_int_equal(all->last, 4 * SECOND);
	/* What follows is a rank's second process, and is not told again. */
	assert_null(come(w, "10.0.0.1", 0, 5 * SECOND));
	assert_int_equal(hvd_init_barrier_next(&w->a, 1), INT64_MAX);
	assert_null(hvd_init_barrier_late(&w->a, 1000 * SECOND));
	assert_null(hvd_init_barrier_overdue(&w->a, 1000 * SECOND, 1));
}

static void assert_absent(struct world *w, int32_t host, const char *text)
{
	bool any;
	char *absent = hvd_init_barrier_absent(&w->a, host, &any);

	assert_true((absent != NULL) == (text != NULL));
	if (text)
		assert_string_equal(absent, text);
	assert_true(any == (w->a.n > 0));
	free(absent);
}

TEST_IN(those_of_a_host_that_are_missing, struct world *w)
{
	assert_absent(w, -1, NULL);
	make(w, two_each, false);
	assert_absent(w, -1, "ranks 0-7 on n[1-4] have not called init_process_group");
	assert_absent(w, 1, "ranks 2, 3 on n2 have not called init_process_group");
	come(w, "10.0.0.2", 0, 0);
	assert_absent(w, 1, "1 of ranks 2, 3 on n2 has not called init_process_group");
	come(w, "10.0.0.2", 0, 0);
	assert_absent(w, 1, NULL);
	assert_absent(w, -1, "ranks 0, 1, 4-7 on n[1,3-4] have not called init_process_group");
}

TEST_IN(those_that_are_missing, struct world *w)
{
	make(w, two_each, false);
	come(w, "10.0.0.1", 0, 0);
	assert_missing(w, 0, "ranks 2-7 on n[2-4], and 1 of ranks 0, 1 on n1 have not called init_process_group");
	come(w, "10.0.0.1", 0, 0);
	assert_missing(w, 0, "ranks 2-7 on n[2-4] have not called init_process_group");
	come(w, "10.0.0.3", 0, 0);
	come(w, "10.0.0.2", 0, 0);
	assert_missing(w, 0,
		       "ranks 6, 7 on n4, and 1 of ranks 2, 3 on n2, and 1 of ranks 4, 5 on n3 have not called "
		       "init_process_group");
	come(w, "10.0.0.3", 0, 0);
	come(w, "10.0.0.2", 0, 0);
	assert_missing(w, 0, "ranks 6, 7 on n4 have not called init_process_group");
	come(w, "10.0.0.4", 0, 0);
	assert_missing(w, 0, "1 of ranks 6, 7 on n4 has not called init_process_group");
	/* Second calls. */
	come(w, "10.0.0.4", 1, 0);
	come(w, "10.0.0.4", 1, 0);
	assert_missing(w, 1, "ranks 0-5 on n[1-3] have not called init_process_group 2 times");
	assert_missing(w, 0, "1 of ranks 6, 7 on n4 has not called init_process_group");
}

TEST_IN(many_hosts_with_some_missing, struct world *w)
{
	make(w, (const char *const[]){"[0,4,8]", "[1,5,9]", "[2,6,10]", "[3,7,11]"}, false);
	for (int h = 1; h <= 4; h++) {
		char from[16];

		snprintf(from, sizeof(from), "10.0.0.%d", h);
		come(w, from, 0, 0);
	}
	assert_missing(w, 0, "8 of ranks 0-11 on n[1-4] have not called init_process_group");
	come(w, "10.0.0.1", 0, 0);
	come(w, "10.0.0.1", 0, 0);
	assert_missing(w, 0,
		       "2 of ranks 1, 5, 9 on n2, and 2 of ranks 2, 6, 10 on n3, and 2 of ranks 3, 7, 11 on n4 have "
		       "not called init_process_group");
}

TEST_IN(two_names_of_one_machine, struct world *w)
{
	make(w, two_each, true);
	for (int i = 0; i < 3; i++)
		come(w, "10.0.0.3", 0, 0);
	assert_missing(w, 0, "ranks 0-3 on n[1-2], and 1 of ranks 4-7 on n[3-4] have not called init_process_group");
}

TEST_IN(addresses_that_tell_nothing, struct world *w)
{
	make(w, two_each, false);
	come(w, "172.17.0.1", 0, 0); /* everybody's */
	come(w, "10.9.9.9", 0, 0);   /* nobody's */
	assert_int_equal(w->a.n, 0);
	come(w, "10.0.0.2", 0, 0);
	assert_int_equal(w->a.n, 1);
	hvd_init_barrier_clear(&w->a);
	come(w, "10.0.0.2", 0, 0); /* nobody is awaited */
	assert_int_equal(w->a.n, 0);
	hvd_init_barrier_begin(&w->a, &w->layout, &w->table);
	come(w, "127.0.0.1", 0, 0); /* each machine's */
	assert_int_equal(w->a.n, 0);
}

/* All hosts are names of one machine, whose relays tell of loopback. */
TEST_IN(one_machine, struct world *w)
{
	make(w, two_each, false);
	hvd_init_barrier_clear(&w->a);
	for (int h = 1; h < 4; h++)
		memcpy(w->table.hosts[h].node.machine, w->table.hosts[0].node.machine, HVD_MACHINE_LEN);
	hvd_init_barrier_begin(&w->a, &w->layout, &w->table);
	for (int i = 0; i < 7; i++)
		assert_null(come(w, "127.0.0.1", 0, 0));
	assert_missing(w, 0, "1 of ranks 0-7 on n[1-4] has not called init_process_group");
	assert_non_null(come(w, "127.0.0.1", 0, 0));
}

TEST_IN(warnings_become_rare, struct world *w)
{
	make(w, two_each, false);
	come(w, "10.0.0.1", 0, 10 * SECOND);
	come(w, "10.0.0.1", 0, 50 * SECOND);
	assert_int_equal(hvd_init_barrier_next(&w->a, 0), 70 * SECOND);
	assert_null(hvd_init_barrier_late(&w->a, 69 * SECOND));
	assert_non_null(hvd_init_barrier_late(&w->a, 70 * SECOND));
	assert_null(hvd_init_barrier_late(&w->a, 70 * SECOND));
	assert_int_equal(hvd_init_barrier_next(&w->a, 0), 130 * SECOND);
	assert_non_null(hvd_init_barrier_late(&w->a, 130 * SECOND));
	assert_int_equal(hvd_init_barrier_next(&w->a, 0), 250 * SECOND);
}

TEST_IN(only_the_first_generation_is_overdue, struct world *w)
{
	make(w, two_each, false);
	come(w, "10.0.0.1", 0, 10 * SECOND);
	assert_int_equal(hvd_init_barrier_next(&w->a, 5), 15 * SECOND);
	assert_null(hvd_init_barrier_overdue(&w->a, 14 * SECOND, 5));
	assert_null(hvd_init_barrier_overdue(&w->a, 1000 * SECOND, 0));
	assert_int_equal(hvd_init_barrier_overdue(&w->a, 15 * SECOND, 5)->arrived, 1);
	assert_null(hvd_init_barrier_overdue(&w->a, 1000 * SECOND, 1e300));
	hvd_init_barrier_clear(&w->a);
	hvd_init_barrier_begin(&w->a, &w->layout, &w->table);
	come(w, "10.0.0.1", 1, 10 * SECOND);
	assert_null(hvd_init_barrier_overdue(&w->a, 1000 * SECOND, 5));
	assert_int_equal(hvd_init_barrier_next(&w->a, 5), 70 * SECOND);
	assert_non_null(hvd_init_barrier_late(&w->a, 70 * SECOND));
	assert_int_equal(hvd_init_barrier_next(&w->a, 5), INT64_MAX);
}

TEST_IN(old_generations_are_forgotten, struct world *w)
{
	make(w, two_each, false);
	for (uint32_t g = 3; g < 3 + HVD_INIT_BARRIER_EPOCHS; g++)
		come(w, "10.0.0.1", g, 0);
	come(w, "10.0.0.1", 2, 0); /* there is no room for an older one */
	assert_int_equal(w->a.n, HVD_INIT_BARRIER_EPOCHS);
	assert_int_equal(w->a.epochs[0].number, 3);
	come(w, "10.0.0.1", 1000, 0);
	assert_int_equal(w->a.n, HVD_INIT_BARRIER_EPOCHS);
	assert_int_equal(w->a.epochs[0].number, 4);
	assert_int_equal(w->a.epochs[HVD_INIT_BARRIER_EPOCHS - 1].number, 1000);
	come(w, "10.0.0.2", 3, 0);
	assert_int_equal(w->a.epochs[0].number, 4);
	come(w, "10.0.0.2", 500, 0); /* between two */
	assert_int_equal(w->a.epochs[HVD_INIT_BARRIER_EPOCHS - 1].number, 1000);
	assert_int_equal(w->a.epochs[HVD_INIT_BARRIER_EPOCHS - 2].number, 500);
	assert_int_equal(w->a.epochs[0].number, 5);
	for (uint32_t i = 1; i < w->a.n; i++)
		assert_true(w->a.epochs[i - 1].number < w->a.epochs[i].number);
}

RUN_TESTS(.setup = set_up, .teardown = tear_down)
