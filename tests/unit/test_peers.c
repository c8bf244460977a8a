/* SPDX-License-Identifier: Apache-2.0 */
/* Who is connected, by address. */
#include "lib/net/addr.h"
#include "lib/rendezvous/peers.h"

#include "unit.h"

#include <arpa/inet.h>

static struct hvd_rv_peer *enter(struct hvd_rv_peers *peers, const char *ip)
{
	struct sockaddr_storage ss;
	struct hvd_addr addr;

	assert_int_equal(hvd_addr_parse(ip, &addr), 0);
	hvd_addr_to_sockaddr(&addr, 1000, &ss);
	return hvd_rv_peers_enter(peers, &ss);
}

static void one_for_each_address(void **state)
{
	struct hvd_rv_peers *peers = hvd_rv_peers_create();
	struct hvd_rv_peer *a = enter(peers, "10.0.0.1"), *b = enter(peers, "10.0.0.2"), *six = enter(peers, "fd00::1");
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
	struct sockaddr_storage ss = {0};

	(void)state;
	assert_ptr_not_equal(a, b);
	assert_ptr_not_equal(a, six);
	assert_ptr_equal(enter(peers, "10.0.0.1"), a);
	assert_ptr_equal(enter(peers, "fd00::1"), six);
	inet_pton(AF_INET6, "::ffff:10.0.0.1", &mapped.sin6_addr);
	memcpy(&ss, &mapped, sizeof(mapped));
	assert_ptr_equal(hvd_rv_peers_enter(peers, &ss), a);
	assert_int_equal(a->conns, 3);
	a->pending = 7;
	hvd_rv_peers_leave(peers, a);
	hvd_rv_peers_leave(peers, a);
	assert_int_equal(enter(peers, "10.0.0.1")->pending, 7);
	hvd_rv_peers_leave(peers, a);
	hvd_rv_peers_leave(peers, a);
	/* It was forgotten with its last connection. */
	a = enter(peers, "10.0.0.1");
	assert_int_equal(a->conns, 1);
	assert_int_equal(a->pending, 0);
	hvd_rv_peers_leave(peers, a);
	hvd_rv_peers_leave(peers, b);
	hvd_rv_peers_leave(peers, six);
	hvd_rv_peers_leave(peers, six);
	hvd_rv_peers_destroy(peers);
	hvd_rv_peers_destroy(NULL);
}

static void the_one_with_most(void **state)
{
	struct hvd_rv_peers *peers = hvd_rv_peers_create();
	struct hvd_rv_peer *a, *b;

	(void)state;
	assert_null(hvd_rv_peers_most(peers));
	a = enter(peers, "10.0.0.1");
	assert_ptr_equal(hvd_rv_peers_most(peers), a);
	b = enter(peers, "10.0.0.2");
	enter(peers, "10.0.0.2");
	assert_ptr_equal(hvd_rv_peers_most(peers), b);
	enter(peers, "10.0.0.1");
	assert_ptr_equal(hvd_rv_peers_most(peers), b);
	enter(peers, "10.0.0.1");
	assert_ptr_equal(hvd_rv_peers_most(peers), a);
	for (int i = 0; i < 3; i++)
		hvd_rv_peers_leave(peers, a);
	/* Found out with its next connection. */
	enter(peers, "10.0.0.2");
	assert_ptr_equal(hvd_rv_peers_most(peers), b);
	for (int i = 0; i < 3; i++)
		hvd_rv_peers_leave(peers, b);
	assert_null(hvd_rv_peers_most(peers));
	hvd_rv_peers_destroy(peers);
}

static void many_addresses(void **state)
{
	struct hvd_rv_peers *peers = hvd_rv_peers_create();
	struct hvd_rv_peer **all = calloc(20000, sizeof(struct hvd_rv_peer *));
	char ip[32];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		snprintf(ip, sizeof(ip), "10.%d.%d.1", i / 250, i % 250);
		all[i] = enter(peers, ip);
	}
	for (int i = 0; i < 20000; i++) {
		snprintf(ip, sizeof(ip), "10.%d.%d.1", i / 250, i % 250);
		assert_ptr_equal(enter(peers, ip), all[i]);
		hvd_rv_peers_leave(peers, all[i]);
		hvd_rv_peers_leave(peers, all[i]);
	}
	free(all);
	hvd_rv_peers_destroy(peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_for_each_address),
		cmocka_unit_test(the_one_with_most),
		cmocka_unit_test(many_addresses),
	};

	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
