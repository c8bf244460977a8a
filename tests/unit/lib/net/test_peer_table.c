/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/peer_table.h"

#include "tests/unit/unit.h"

static struct hvd_addr A(const char *text) {
	struct hvd_addr addr;

	assert_int_equal(hvd_addr_parse(text, &addr), 0);
	return addr;
}

static void
add(struct hvd_peer_table *table, const char *addr, struct hvd_peer_entry *entry)
{
	struct hvd_addr a = A(addr);

	hvd_peer_table_add(table, &a, entry);
}

TEST(the_oldest_of_the_busiest)
{
	struct hvd_peer_entry e[7] = {0};
	struct hvd_peer_table *table = hvd_peer_table_create();

	assert_null(hvd_peer_table_busiest(table));
	add(table, "10.0.0.1", &e[0]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[0]);
	add(table, "10.0.0.2", &e[1]);
	add(table, "10.0.0.2", &e[2]);
	add(table, "fd00::1", &e[3]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[1]);
	add(table, "fd00::1", &e[4]);
	add(table, "fd00::1", &e[5]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[3]);
	assert_int_equal(hvd_peer_table_count(table), 6);
	/* From the middle, the front and the end. */
	hvd_peer_table_remove(table, &e[4]);
	hvd_peer_table_remove(table, &e[3]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[1]);
	hvd_peer_table_remove(table, &e[2]);
	hvd_peer_table_remove(table, &e[2]); /* is out of it */
	add(table, "10.0.0.1", &e[6]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[0]);
	assert_true(hvd_addr_equal(&e[6].peer->addr, &(struct hvd_addr){AF_INET, {{htonl(0x0a000001)}}}));
	hvd_peer_table_remove(table, &e[0]);
	hvd_peer_table_remove(table, &e[6]);
	hvd_peer_table_remove(table, &e[1]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[5]);
	hvd_peer_table_remove(table, &e[5]);
	assert_null(hvd_peer_table_busiest(table));
	assert_int_equal(hvd_peer_table_count(table), 0);
	hvd_peer_table_destroy(table);
	hvd_peer_table_destroy(NULL);
}

/* What the owner counts for an address is there as long as the address is. */
TEST(pending_of_an_address)
{
	struct hvd_peer_entry e[3] = {0};
	struct hvd_peer_table *table = hvd_peer_table_create();

	add(table, "10.0.0.1", &e[0]);
	e[0].peer->pending = 7;
	add(table, "::ffff:10.0.0.1", &e[1]);
	add(table, "10.0.0.2", &e[2]);
	assert_int_equal(e[2].peer->pending, 0);
	hvd_peer_table_remove(table, &e[0]);
	assert_int_equal(e[1].peer->pending, 7);
	assert_int_equal(e[1].peer->n, 1);
	hvd_peer_table_remove(table, &e[1]);
	add(table, "10.0.0.1", &e[0]);
	assert_int_equal(e[0].peer->pending, 0);
	hvd_peer_table_destroy(table);
}

/* Whoever is on this host has a million addresses of that kind. */
TEST(loopback_is_one)
{
	struct hvd_peer_entry e[4] = {0}, none[3] = {0};
	struct hvd_peer_table *table = hvd_peer_table_create();
	struct hvd_addr unspec = {0};

	add(table, "10.0.0.1", &e[0]);
	add(table, "127.0.0.1", &e[1]);
	add(table, "127.9.8.7", &e[2]);
	add(table, "10.0.0.1", &e[3]);
	hvd_peer_table_remove(table, &e[0]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &e[1]);
	for (int i = 0; i < 3; i++)
		hvd_peer_table_add(table, &unspec, &none[i]);
	assert_ptr_equal(hvd_peer_table_busiest(table), &none[0]);
	hvd_peer_table_destroy(table); /* takes what is left out */
	assert_null(e[1].peer);
	assert_null(none[2].peer);
}

/* Against counting by hand, with few addresses and many, so that they share slots. */
TEST(as_counted_by_hand)
{
	enum {
		ENTRIES = 20000
	};
	static struct hvd_peer_entry e[ENTRIES];
	static uint32_t at[ENTRIES];
	static size_t n[9000];
	struct hvd_peer_table *table = hvd_peer_table_create();
	uint32_t seed = 7;
	size_t count = 0;

	for (int step = 0; step < 200000; step++) {
		uint32_t i = dice(&seed) % ENTRIES;

		if (e[i].peer) {
			hvd_peer_table_remove(table, &e[i]);
			n[at[i]]--;
			count--;
		} else {
			struct hvd_addr addr = {.family = AF_INET};

			at[i] = dice(&seed) % (step % 2 ? 9000 : 20);
			addr.u.v4.s_addr = htonl(0x0a000000 + at[i]);
			hvd_peer_table_add(table, &addr, &e[i]);
			n[at[i]]++;
			count++;
		}
		assert_int_equal(hvd_peer_table_count(table), count);
		if (step % 1000 == 0 && count > 0) {
			const struct hvd_addr *of = &hvd_peer_table_busiest(table)->peer->addr;
			size_t most = 0;

			for (size_t k = 0; k < 9000; k++)
				most = n[k] > most ? n[k] : most;
			assert_int_equal(n[ntohl(of->u.v4.s_addr) - 0x0a000000], most);
		}
	}
	hvd_peer_table_destroy(table);
}

RUN_TESTS()
